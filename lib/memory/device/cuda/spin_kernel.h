// SPDX-License-Identifier: Apache-2.0
// A kernel that takes a given time and does nothing else.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_SPIN_KERNEL_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_SPIN_KERNEL_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/cuda/driver.h"

namespace tidepool::cuda {

// Thread-safe. The device is current in every call.
class SpinKernel {
 public:
  SpinKernel() = default;
  ~SpinKernel();
  SpinKernel(const SpinKernel&) = delete;
  SpinKernel& operator=(const SpinKernel&) = delete;

  // Queues the kernel. The first call loads it.
  absl::Status Launch(std::int64_t nanoseconds, cudaStream_t stream);

 private:
  struct Loaded {
    KernelDriver driver;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
  };

  absl::StatusOr<Loaded> Get();
  static absl::StatusOr<Loaded> Load();
  static void Unload(const Loaded& loaded);

  locks::Mutex mutex_;
  std::optional<Loaded> loaded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_SPIN_KERNEL_H_
