// SPDX-License-Identifier: Apache-2.0
// The bytes of PyTorch's kernels for lists of tensors, as those of optimizers.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_LIST_BYTES_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_LIST_BYTES_H_

#include <cstdint>

#include "dryrun/runtime/cudart/kernel_arguments.h"
#include "dryrun/runtime/cudart/kernel_name.h"

namespace tidepool::cudart_host {

// Returns -1 where the bytes are not known. The kernel is
// <metadata, function, ...>(metadata, function, ...)
std::int64_t OfLists(const NameParts& kernel, const KernelLaunch& launch);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_LIST_BYTES_H_
