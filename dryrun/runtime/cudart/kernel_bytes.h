// SPDX-License-Identifier: Apache-2.0
// The bytes that kernels of PyTorch move, by their names and arguments.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_BYTES_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_BYTES_H_

#include <cstdint>
#include <functional>

#include "dryrun/runtime/cudart/kernel_arguments.h"
#include "dryrun/runtime/cudart/kernel_name.h"

namespace tidepool::cudart_host {

// A kernel, of which the bytes may be known. Each tensor counts once where it is read and once
// where it is written, as if no cache kept any of it from kernel to kernel.
class KernelBytes {
 public:
  // The bytes of a launch, or -1 where they are not known.
  using Rule = std::function<std::int64_t(const NameParts&, const KernelLaunch&)>;

  explicit KernelBytes(const char* mangled);
  std::int64_t Of(const KernelLaunch& launch) const;
  const NameParts& parts() const { return parts_; }

 private:
  NameParts parts_;
  Rule rule_;  // none: not known
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_BYTES_H_
