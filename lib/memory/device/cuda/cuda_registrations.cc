// SPDX-License-Identifier: Apache-2.0
// Holds no lock during calls of CUDA, which may wait for the whole device. Unregister removes the
// address from the books first, and puts it back if CUDA fails.
#include "lib/memory/device/cuda/cuda_registrations.h"

#include <cuda_runtime_api.h>

#include "lib/memory/device/cuda/cuda_error.h"

namespace tidepool::cuda {

CudaRegistrations::~CudaRegistrations() {
  for (void* const address : addresses_) {
    TryTwice([address] { return cudaHostUnregister(address); });
  }
}

absl::Status CudaRegistrations::Register(void* address, std::int64_t bytes) {
  absl::Status status =
      Check(cudaHostRegister(address, static_cast<std::size_t>(bytes), cudaHostRegisterPortable),
            "cudaHostRegister", address, bytes, "cudaHostRegisterPortable");
  if (!status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  addresses_.insert(address);
  return status;
}

absl::Status CudaRegistrations::Unregister(void* address) {
  {
    const locks::MutexLock lock(&mutex_);
    if (addresses_.erase(address) == 0) {
      return absl::NotFoundError("no registered range begins at the address");
    }
  }
  absl::Status status = Check(cudaHostUnregister(address), "cudaHostUnregister", address);
  if (status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  addresses_.insert(address);
  return status;
}

}  // namespace tidepool::cuda
