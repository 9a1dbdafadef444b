// SPDX-License-Identifier: Apache-2.0
// Caching allocator: serves requests and frees as PyTorch's DeviceCachingAllocator does.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_CACHING_ALLOCATOR_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_CACHING_ALLOCATOR_H_

#include <cstdint>

#include "lib/trace/caching_allocator/device_memory.h"
#include "lib/trace/caching_allocator/heap.h"
#include "lib/trace/caching_allocator/rounding.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool::caching_allocator {

// A copy goes its own way from the state of the original. Not thread-safe.
class CachingAllocator {
 public:
  CachingAllocator(const CachingAllocatorSettings& settings, std::int64_t memory_bytes,
                   SegmentOrder order = SegmentOrder::kAscending)
      : settings_(settings),
        heap_(settings.large_segment_bytes),
        memory_(MemoryLimit(memory_bytes, settings), order) {}

  // Returns the block of a request of `bytes`, or kNoBlock if the device lacks memory even after
  // all cached memory was released.
  BlockId Allocate(std::int64_t bytes, std::uint32_t stream);
  void Free(BlockId id);
  // Gives all cached memory back to the device, as torch.cuda.empty_cache() does.
  void ReleaseCached();
  // Whether another memory of the device could change the outcome of this request.
  bool MayDependOnMemory(std::int64_t bytes, std::uint32_t stream) const;

  std::int64_t RoundedBytes(std::int64_t bytes) const { return BlockBytes(bytes, settings_); }
  std::int64_t reserved_bytes() const { return memory_.reserved(); }
  std::int64_t allocated_bytes() const { return allocated_; }
  std::int64_t retries() const { return retries_; }
  const Heap& heap() const { return heap_; }
  const MemoryLimit& limit() const { return memory_.limit(); }
  // Changes the memory of the device to a larger one.
  void SetMemory(std::int64_t memory_bytes) { memory_.limit().SetMemory(memory_bytes); }

 private:
  struct Request {
    std::int64_t bytes;  // rounded
    std::uint32_t stream;
    bool is_small;
  };

  Request RequestFor(std::int64_t bytes, std::uint32_t stream) const;
  BlockId FindFree(const Request& request) const;
  bool Suits(const Request& request, const Block& block) const;
  BlockId FromDevice(const Request& request);
  BlockId NewSegment(const Request& request);
  BlockId AfterRelease(const Request& request);
  std::int64_t BytesToUse(const Request& request, const Block& block) const;

  CachingAllocatorSettings settings_;
  Heap heap_;
  DeviceMemory memory_;
  std::int64_t allocated_ = 0;
  std::int64_t retries_ = 0;
};

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_CACHING_ALLOCATOR_H_
