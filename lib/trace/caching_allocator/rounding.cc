// SPDX-License-Identifier: Apache-2.0
// Rounding: multiples of 512 bytes, or steps of powers of two.
#include "lib/trace/caching_allocator/rounding.h"

#include <algorithm>
#include <bit>

#include "lib/base/arithmetic.h"

namespace tidepool::caching_allocator {
namespace {

constexpr int kLogMiB = 20;

int LogOf(std::int64_t bytes) { return std::bit_width(static_cast<std::uint64_t>(bytes)) - 1; }

std::int64_t DivisionsFor(std::int64_t bytes, const CachingAllocatorSettings& settings) {
  const int last = static_cast<int>(settings.roundup_power2_divisions.size()) - 1;
  return settings.roundup_power2_divisions[std::clamp(LogOf(bytes) - kLogMiB, 0, last)];
}

constexpr std::int64_t kMost = kMostCachingMemory + 1;

}  // namespace

std::int64_t BlockBytes(std::int64_t bytes, const CachingAllocatorSettings& settings) {
  bytes += settings.padding_bytes;
  if (bytes < kGrain) return kGrain;
  const std::int64_t divisions = DivisionsFor(bytes, settings);
  if (divisions <= 1 || bytes <= kGrain * divisions) return RoundUp(bytes, kGrain);
  // A step is at least 512 bytes, because `bytes` is more than 512 for each division.
  return RoundUp(bytes, (std::int64_t{1} << LogOf(bytes)) / divisions);
}

std::int64_t SegmentBytes(std::int64_t block_bytes, const CachingAllocatorSettings& settings) {
  if (IsSmall(block_bytes)) return kSmallSegment;
  if (block_bytes < kLeastOwnSegment) return settings.large_segment_bytes;
  return RoundUp(block_bytes, kSegmentGrain);
}

std::int64_t PeakRoundedBytes(const Trace& trace, const CachingAllocatorSettings& settings) {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kAllocate) {
      live += BlockBytes(trace.allocations[event.index].bytes, settings);
    } else if (event.kind == TraceEvent::Kind::kFree) {
      live -= BlockBytes(trace.allocations[event.index].bytes, settings);
    } else if (event.kind == TraceEvent::Kind::kFailure) {
      const std::int64_t bytes = trace.failures[event.index].bytes;
      if (bytes > kMaxRequestBytes) return kMost;
      if (bytes > 0) peak = std::max(peak, live + BlockBytes(bytes, settings));
    }
    peak = std::max(peak, live);
    if (peak >= kMost) return kMost;
  }
  return peak;
}

}  // namespace tidepool::caching_allocator
