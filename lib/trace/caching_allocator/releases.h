// SPDX-License-Identifier: Apache-2.0
// Releases: give cached memory back to the device, as much as asked for, all, or the memory that
// was unused for long.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_RELEASES_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_RELEASES_H_

#include <cstdint>

#include "lib/trace/caching_allocator/device_memory.h"
#include "lib/trace/caching_allocator/heap.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool::caching_allocator {

// Releases cached blocks of max_split_bytes or more of a stream and pool, until `bytes` were
// released. Returns false if they have less; they may have been released all the same.
bool ReleaseOversize(Heap& heap, DeviceMemory& memory, const CachingAllocatorSettings& settings,
                     std::uint32_t stream, bool is_small, std::int64_t bytes);

// Releases all segments without live allocations, and all granules of expandable segments.
void ReleaseAll(Heap& heap, DeviceMemory& memory);

// Releases the large segments without allocations that were unused longer than the average, until
// the memory taken is below the threshold or nothing is left. Does nothing below the threshold.
void CollectGarbage(Heap& heap, DeviceMemory& memory);

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_RELEASES_H_
