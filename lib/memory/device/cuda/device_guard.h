// SPDX-License-Identifier: Apache-2.0
// Makes a device current for the calling thread, and restores the previous device.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DEVICE_GUARD_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DEVICE_GUARD_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "lib/memory/device/cuda/cuda_error.h"

namespace tidepool::cuda {

// Changes the current device only if another device is current, to save a call of CUDA.
class DeviceGuard {
 public:
  explicit DeviceGuard(int ordinal) {
    status_ = Check(cudaGetDevice(&previous_), "cudaGetDevice");
    if (!status_.ok() || previous_ == ordinal) return;
    status_ = Check(cudaSetDevice(ordinal), "cudaSetDevice", ordinal);
    was_changed_ = status_.ok();
  }

  ~DeviceGuard() {
    if (was_changed_) TryTwice([this] { return cudaSetDevice(previous_); });
  }

  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  // Returns whether the device is current.
  const absl::Status& status() const { return status_; }

 private:
  int previous_ = 0;
  bool was_changed_ = false;
  absl::Status status_;
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DEVICE_GUARD_H_
