// SPDX-License-Identifier: Apache-2.0
// Rounded load: one pass over the events.
#include "lib/trace/caching_allocator/rounded_load.h"

#include <algorithm>

#include "lib/trace/caching_allocator/rounding.h"

namespace tidepool::caching_allocator {
namespace {

constexpr std::int64_t kMost = kMostCachingMemory + 1;

}  // namespace

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
