// SPDX-License-Identifier: Apache-2.0
// Replay: serves a whole trace from a device of a given memory.
#include <algorithm>

#include "lib/trace/caching_allocator/check_options.h"
#include "lib/trace/caching_allocator/rounding.h"
#include "lib/trace/caching_allocator/trace_run.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {
namespace {

using caching_allocator::CachingAllocator;
using caching_allocator::TraceRun;

std::int64_t LargestFree(const caching_allocator::Heap& heap) {
  std::int64_t largest = 0;
  for (const bool is_small : {false, true}) {
    for (const caching_allocator::BlockKey& key : heap.pool(is_small).free) {
      largest = std::max(largest, key.bytes);
    }
  }
  return largest;
}

void CountRefusal(const TraceRun& run, std::int64_t requested, CachingReplayResult& result) {
  if (++result.refused > 1) return;
  const CachingAllocator& allocator = run.allocator();
  result.first_refused_event = static_cast<std::int64_t>(run.at()) - 1;
  result.first_refused_bytes = allocator.RoundedBytes(std::min(requested, kMaxRequestBytes));
  result.largest_free_bytes = LargestFree(allocator.heap());
  result.free_reserved_bytes = allocator.reserved_bytes() - allocator.allocated_bytes();
}

void CountPeaks(const TraceRun& run, CachingReplayResult& result) {
  const CachingAllocator& allocator = run.allocator();
  result.peak_reserved_bytes = std::max(result.peak_reserved_bytes, allocator.reserved_bytes());
  result.peak_allocated_bytes = std::max(result.peak_allocated_bytes, allocator.allocated_bytes());
}

}  // namespace

absl::StatusOr<CachingReplayResult> ReplayCaching(const Trace& trace,
                                                  const CachingReplayOptions& options) {
  if (absl::Status status = caching_allocator::CheckSettings(options.settings); !status.ok()) {
    return status;
  }
  if (absl::Status status = caching_allocator::CheckMemory(options.memory_bytes); !status.ok()) {
    return status;
  }
  TraceRun run(trace, options.settings, options.memory_bytes, options.order);
  CachingReplayResult result;
  result.peak_rounded_bytes = caching_allocator::PeakRoundedBytes(trace, options.settings);
  while (!run.IsAtEnd()) {
    const std::int64_t requested = run.NextRequest();
    const bool is_served = run.Step();
    if (!is_served) CountRefusal(run, requested, result);
    CountPeaks(run, result);
    if (!is_served && options.stop_at_refusal) break;
  }
  result.retries = run.allocator().retries();
  return result;
}

}  // namespace tidepool
