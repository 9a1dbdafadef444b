// SPDX-License-Identifier: Apache-2.0
// Expandable segments: a range of addresses for each stream and pool, to which memory is mapped in
// granules at the lowest addresses that make a request fit. PyTorch reserves 9/8 of the device's
// memory in addresses; here the addresses do not run out.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_EXPANDABLE_SEGMENTS_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_EXPANDABLE_SEGMENTS_H_

#include <cstdint>

#include "lib/trace/caching_allocator/device_memory.h"
#include "lib/trace/caching_allocator/heap.h"

namespace tidepool::caching_allocator {

// Segment that grows: that of a stream in a pool.
struct Growth {
  std::uint32_t stream = 0;
  bool is_small = false;
  std::int64_t granule = 0;
};

// Maps memory until a free block of the segment has `bytes`, and returns this block. Returns
// kNoBlock if the device lacks memory; memory that was mapped before stays in the heap.
BlockId Expand(Heap& heap, DeviceMemory& memory, const Growth& growth, std::int64_t bytes);

// Returns the bytes that a free block would have with all unmapped addresses that follow it.
std::int64_t ReachOf(const Heap& heap, BlockId id);

// Gives the memory of the whole granules of a free block back to the device.
void UnmapBlock(Heap& heap, DeviceMemory& memory, BlockId id);

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_EXPANDABLE_SEGMENTS_H_
