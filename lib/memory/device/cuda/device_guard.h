// SPDX-License-Identifier: Apache-2.0
// Makes a device current for the calling thread, and restores the one before, or none.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DEVICE_GUARD_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DEVICE_GUARD_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "lib/memory/device/cuda/cuda_error.h"

namespace tidepool::cuda {

struct SwitchDriver;

// Changes the current device only if another device is current, to save calls of CUDA.
class DeviceGuard {
 public:
  explicit DeviceGuard(int ordinal) {
    int current = 0;
    status_ = Check(cudaGetDevice(&current), "cudaGetDevice");
    if (status_.ok() && current != ordinal) Enter(ordinal);
  }

  ~DeviceGuard() {
    if (driver_ != nullptr) Leave();
  }

  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  // Returns whether the device is current.
  const absl::Status& status() const { return status_; }

 private:
  void Enter(int ordinal);
  void Leave() const;

  const SwitchDriver* driver_ = nullptr;  // null: nothing was changed
  CUcontext previous_ = nullptr;
  absl::Status status_;
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DEVICE_GUARD_H_
