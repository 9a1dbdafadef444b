// SPDX-License-Identifier: Apache-2.0
// CUDA may wait for the whole device when it frees, so no lock is held during that call. Free
// removes the address from the books first, and puts it back if CUDA fails to free it.
#include "lib/memory/device/cuda/cuda_allocations.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/cuda/cuda_error.h"

namespace tidepool::cuda {
namespace {

constexpr std::uintptr_t kAlignment = 512;

absl::Status AllocateNative(MemoryKind kind, void** address, std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  switch (kind) {
    case MemoryKind::kDevice:
      return Check(cudaMalloc(address, size), "cudaMalloc", bytes);
    case MemoryKind::kManaged:
      return Check(cudaMallocManaged(address, size, cudaMemAttachGlobal), "cudaMallocManaged",
                   bytes);
    case MemoryKind::kPinned:
      return Check(cudaHostAlloc(address, size, cudaHostAllocPortable), "cudaHostAlloc", bytes,
                   "cudaHostAllocPortable");
  }
  return absl::InternalError("unknown kind of memory");
}

cudaError_t FreeNative(MemoryKind kind, void* address) {
  return kind == MemoryKind::kPinned ? cudaFreeHost(address) : cudaFree(address);
}

}  // namespace

CudaAllocations::~CudaAllocations() {
  for (const auto& [address, bytes] : sizes_) {
    TryTwice([kind = kind_, native = address] { return FreeNative(kind, native); });
  }
}

absl::StatusOr<void*> CudaAllocations::Allocate(std::int64_t bytes) {
  void* address = nullptr;
  absl::Status status = AllocateNative(kind_, &address, bytes);
  if (!status.ok()) return status;
  if (kind_ != MemoryKind::kPinned && reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) {
    TryTwice([&] { return FreeNative(kind_, address); });
    return absl::InternalError(
        absl::StrCat("CUDA gave ", ArgumentText(address), ", expected a multiple of ", kAlignment));
  }
  const locks::MutexLock lock(&mutex_);
  sizes_.emplace(address, bytes);
  bytes_ += bytes;
  return address;
}

absl::Status CudaAllocations::Free(void* address) {
  std::int64_t bytes = 0;
  {
    const locks::MutexLock lock(&mutex_);
    const auto found = sizes_.find(address);
    if (found == sizes_.end()) return absl::NotFoundError("nothing is allocated at the address");
    bytes = found->second;
    sizes_.erase(found);
  }
  absl::Status status = Check(FreeNative(kind_, address),
                              kind_ == MemoryKind::kPinned ? "cudaFreeHost" : "cudaFree", address);
  const locks::MutexLock lock(&mutex_);
  if (status.ok()) {
    bytes_ -= bytes;
  } else {
    sizes_.emplace(address, bytes);
  }
  return status;
}

std::int64_t CudaAllocations::bytes() const {
  const locks::MutexLock lock(&mutex_);
  return bytes_;
}

bool CudaAllocations::empty() const {
  const locks::MutexLock lock(&mutex_);
  return sizes_.empty();
}

}  // namespace tidepool::cuda
