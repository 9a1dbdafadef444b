// SPDX-License-Identifier: Apache-2.0
// An allocator for TensorRT 10 and newer on a pool: an IGpuAsyncAllocator. Needs C++17,
// NvInferRuntime.h and libtidepool_c.so.
//
//   tidepool::TensorRtAllocator allocator("device=cuda:0,budget=80%");
//   runtime->setGpuAllocator(&allocator);
#ifndef TIDEPOOL_TENSORRT_ALLOCATOR_H_
#define TIDEPOOL_TENSORRT_ALLOCATOR_H_

#include <NvInferRuntime.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>

#include "tidepool/pool_owner.h"

namespace tidepool {

// Outlives the objects of TensorRT that use it. Thread-safe. Returns null when memory is short, as
// TensorRT expects it; tidepool_last_error() has the text.
class TensorRtAllocator : public nvinfer1::IGpuAsyncAllocator {
 public:
  // Makes a pool; `options` are those of tidepool_pool_create.
  explicit TensorRtAllocator(const std::string& options) : pool_(options) {}

  tidepool_pool* pool() const noexcept { return pool_.get(); }

  // Memory with the flag kRESIZABLE gets a quarter more, so that it can grow in place.
  void* allocateAsync(std::uint64_t size, std::uint64_t alignment, nvinfer1::AllocatorFlags flags,
                      cudaStream_t stream) noexcept override {
    const auto resizable = static_cast<std::uint32_t>(nvinfer1::AllocatorFlag::kRESIZABLE);
    const bool can_grow = (flags >> resizable & 1) != 0;
    const bool has_quarter = can_grow && size <= UINT64_MAX / 2;
    const std::uint64_t capacity = has_quarter ? size + size / 4 : size;
    void* address = nullptr;
    if (tidepool_allocate(pool(), capacity, stream, TIDEPOOL_RESIDENT, &address) != TIDEPOOL_OK) {
      return nullptr;
    }
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(address) % Positive(alignment) == 0;
    if (is_aligned && (!can_grow || address == nullptr || Keep(address, capacity))) return address;
    pool_.Free(address, stream);
    return nullptr;
  }

  // Grows or shrinks in place. Null when the allocation has no room for that; it stays valid.
  void* reallocate(void* address, std::uint64_t /*alignment*/,
                   std::uint64_t new_size) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = capacities_.find(address);
    return found != capacities_.end() && new_size <= found->second ? address : nullptr;
  }

  bool deallocateAsync(void* address, cudaStream_t stream) noexcept override {
    const std::uint64_t capacity = Take(address);
    if (tidepool_free(pool(), address, stream) == TIDEPOOL_OK) return true;
    if (capacity > 0) Keep(address, capacity);
    return false;
  }

 private:
  static std::uint64_t Positive(std::uint64_t alignment) { return alignment == 0 ? 1 : alignment; }

  bool Keep(void* address, std::uint64_t capacity) noexcept {
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      capacities_[address] = capacity;
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  // Forgets the capacity of an allocation before another thread can get its address. Returns 0 for
  // memory without the flag.
  std::uint64_t Take(void* address) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = capacities_.find(address);
    if (found == capacities_.end()) return 0;
    const std::uint64_t capacity = found->second;
    capacities_.erase(found);
    return capacity;
  }

  PoolOwner<> pool_;
  std::mutex mutex_;
  std::unordered_map<void*, std::uint64_t> capacities_;  // of memory with the flag kRESIZABLE
};

}  // namespace tidepool

#endif  // TIDEPOOL_TENSORRT_ALLOCATOR_H_
