// SPDX-License-Identifier: Apache-2.0
// Host memory that its owner registered with CUDA.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_REGISTRATIONS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_REGISTRATIONS_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cuda {

// The registered addresses. Thread-safe. The device is current in every call.
class CudaRegistrations {
 public:
  CudaRegistrations() = default;
  // Unregisters all memory that is left.
  ~CudaRegistrations();
  CudaRegistrations(const CudaRegistrations&) = delete;
  CudaRegistrations& operator=(const CudaRegistrations&) = delete;

  // Registers `bytes` bytes, more than 0.
  absl::Status Register(void* address, std::int64_t bytes);
  // Unregisters memory. NotFound if none was registered at `address`.
  absl::Status Unregister(void* address);

 private:
  locks::Mutex mutex_;
  absl::flat_hash_set<void*> addresses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_REGISTRATIONS_H_
