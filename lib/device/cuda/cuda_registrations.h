// Memory of the host that CUDA was told of, and what is told again in the end.
#ifndef TIDEPOOL_LIB_DEVICE_CUDA_CUDA_REGISTRATIONS_H_
#define TIDEPOOL_LIB_DEVICE_CUDA_CUDA_REGISTRATIONS_H_

#include <cstdint>
#include <mutex>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

namespace tidepool::cuda {

// Thread-safe. The device is current in every call.
class CudaRegistrations {
 public:
  CudaRegistrations() = default;
  // Unregisters what is left.
  ~CudaRegistrations();
  CudaRegistrations(const CudaRegistrations&) = delete;
  CudaRegistrations& operator=(const CudaRegistrations&) = delete;

  // `bytes` is positive.
  absl::Status Register(void* address, std::int64_t bytes);
  // NotFound when nothing was registered there.
  absl::Status Unregister(void* address);

 private:
  std::mutex mutex_;
  absl::flat_hash_set<void*> addresses_;
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_DEVICE_CUDA_CUDA_REGISTRATIONS_H_
