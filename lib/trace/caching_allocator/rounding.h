// SPDX-License-Identifier: Apache-2.0
// Rounding: the size of the block that a request gets, of the segment that is made for it, and of
// all live blocks of a trace.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ROUNDING_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ROUNDING_H_

#include <cstdint>

#include "tidepool/trace/caching_allocator.h"
#include "tidepool/trace/trace.h"

namespace tidepool::caching_allocator {

inline constexpr std::int64_t kMiB = CachingAllocatorSettings::kMiB;
inline constexpr std::int64_t kGrain = 512;       // all blocks are multiples
inline constexpr std::int64_t kMostSmall = kMiB;  // the largest block of the pool of small ones
inline constexpr std::int64_t kSmallSegment = 2 * kMiB;
inline constexpr std::int64_t kLeastOwnSegment = 10 * kMiB;  // larger requests share no segment
inline constexpr std::int64_t kSegmentGrain = 2 * kMiB;

// Returns the size of the block for a request of `bytes`, at most 2 * kMaxRequestBytes.
std::int64_t BlockBytes(std::int64_t bytes, const CachingAllocatorSettings& settings);

inline bool IsSmall(std::int64_t block_bytes) { return block_bytes <= kMostSmall; }

// Returns the size of a new segment for a block.
std::int64_t SegmentBytes(std::int64_t block_bytes, const CachingAllocatorSettings& settings);

// Returns the unit in which an expandable segment of the pool grows.
inline std::int64_t Granule(bool is_small, const CachingAllocatorSettings& settings) {
  return is_small ? kSmallSegment : settings.large_segment_bytes;
}

// Returns the peak of rounded bytes of live allocations, with each failure as an allocation that is
// freed at once. No memory below it serves the trace. At most kMostCachingMemory + 1. O(events).
std::int64_t PeakRoundedBytes(const Trace& trace, const CachingAllocatorSettings& settings);

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ROUNDING_H_
