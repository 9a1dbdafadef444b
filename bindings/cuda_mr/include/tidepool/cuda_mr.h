// SPDX-License-Identifier: Apache-2.0
// A memory resource of CCCL (libcudacxx, cuda::mr) on a pool, in the spelling of the installed
// CCCL: 3.1 renamed allocate_async to allocate, and allocate to allocate_sync. Needs C++17, CCCL
// and libtidepool_c.so. Before CCCL 3.1, define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
// first.
#ifndef TIDEPOOL_CUDA_MR_H_
#define TIDEPOOL_CUDA_MR_H_

#include <cstddef>
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <string>

#include "tidepool/pool_owner.h"

namespace tidepool {

// Copies share the pool. Thread-safe. `Errors` chooses the exceptions.
template <typename Errors = StandardErrors>
class BasicMemoryResource {
 public:
  static constexpr std::size_t kAlignment = 256;  // the default of cuda::mr

  // Makes a pool; `options` are those of tidepool_pool_create, such as "device=cuda:0,budget=80%".
  explicit BasicMemoryResource(const std::string& options) : pool_(options) {}
  // Uses a pool of the caller, which outlives all copies.
  explicit BasicMemoryResource(tidepool_pool* pool) : pool_(pool) {}

  tidepool_pool* pool() const noexcept { return pool_.get(); }

#if CCCL_MAJOR_VERSION > 3 || (CCCL_MAJOR_VERSION == 3 && CCCL_MINOR_VERSION >= 1)
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = kAlignment) {
    return pool_.Allocate(bytes, alignment, stream.get());
  }
  void deallocate(cuda::stream_ref stream, void* address, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = kAlignment) noexcept {
    pool_.Free(address, stream.get());
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment = kAlignment) {
    return pool_.AllocateForAll(bytes, alignment);
  }
  void deallocate_sync(void* address, std::size_t /*bytes*/,
                       std::size_t /*alignment*/ = kAlignment) noexcept {
    pool_.Free(address, nullptr);
  }
#else
  void* allocate_async(std::size_t bytes, std::size_t alignment, cuda::stream_ref stream) {
    return pool_.Allocate(bytes, alignment, stream.get());
  }
  void* allocate_async(std::size_t bytes, cuda::stream_ref stream) {
    return allocate_async(bytes, kAlignment, stream);
  }
  void deallocate_async(void* address, std::size_t /*bytes*/, std::size_t /*alignment*/,
                        cuda::stream_ref stream) noexcept {
    pool_.Free(address, stream.get());
  }
  void deallocate_async(void* address, std::size_t bytes, cuda::stream_ref stream) noexcept {
    deallocate_async(address, bytes, kAlignment, stream);
  }
  void* allocate(std::size_t bytes, std::size_t alignment = kAlignment) {
    return pool_.AllocateForAll(bytes, alignment);
  }
  void deallocate(void* address, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = kAlignment) noexcept {
    pool_.Free(address, nullptr);
  }
#endif

  friend bool operator==(const BasicMemoryResource& a, const BasicMemoryResource& b) noexcept {
    return a.pool_ == b.pool_;
  }
  friend bool operator!=(const BasicMemoryResource& a, const BasicMemoryResource& b) noexcept {
    return !(a == b);
  }
  friend void get_property(const BasicMemoryResource&, cuda::mr::device_accessible) noexcept {}

 private:
  PoolOwner<Errors> pool_;
};

using MemoryResource = BasicMemoryResource<>;

#if CCCL_MAJOR_VERSION > 3 || (CCCL_MAJOR_VERSION == 3 && CCCL_MINOR_VERSION >= 1)
static_assert(cuda::mr::synchronous_resource_with<MemoryResource, cuda::mr::device_accessible>);
static_assert(cuda::mr::resource_with<MemoryResource, cuda::mr::device_accessible>);
#else
static_assert(cuda::mr::resource_with<MemoryResource, cuda::mr::device_accessible>);
static_assert(cuda::mr::async_resource_with<MemoryResource, cuda::mr::device_accessible>);
#endif

}  // namespace tidepool

#endif  // TIDEPOOL_CUDA_MR_H_
