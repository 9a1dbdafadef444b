// SPDX-License-Identifier: Apache-2.0
// Whole allocations of one kind, and their sizes.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_ALLOCATIONS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_ALLOCATIONS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cuda {

enum class MemoryKind : std::uint8_t { kDevice, kManaged, kPinned };

// Thread-safe. The device is current in every call.
class CudaAllocations {
 public:
  explicit CudaAllocations(MemoryKind kind) : kind_(kind) {}
  // Frees the allocations that are left.
  ~CudaAllocations();
  CudaAllocations(const CudaAllocations&) = delete;
  CudaAllocations& operator=(const CudaAllocations&) = delete;

  // Allocates `bytes` bytes, more than 0.
  absl::StatusOr<void*> Allocate(std::int64_t bytes);
  // Frees an allocation. NotFound if none begins at `address`.
  absl::Status Free(void* address);
  std::int64_t bytes() const;
  bool empty() const;

 private:
  const MemoryKind kind_;
  mutable locks::Mutex mutex_;
  absl::flat_hash_map<void*, std::int64_t> sizes_ ABSL_GUARDED_BY(mutex_);
  std::int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_ALLOCATIONS_H_
