// SPDX-License-Identifier: Apache-2.0
// Measures the regions of a trace in one pass. Sums of live bytes cannot overflow where those of
// the whole trace do not.
#include "tidepool/trace/region_load.h"

#include <algorithm>
#include <cstddef>

#include "lib/base/arithmetic.h"
#include "tidepool/trace/sizing.h"

namespace tidepool {
namespace {

std::int64_t SaturatedSum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

std::int64_t Elapsed(std::int64_t from, std::int64_t to) {
  std::int64_t elapsed = 0;
  if (to <= from) return 0;
  return __builtin_sub_overflow(to, from, &elapsed) ? INT64_MAX : elapsed;
}

class RegionMeter {
 public:
  RegionMeter(const Trace& trace, std::int64_t alignment)
      : trace_(trace), alignment_(alignment), paused_at_(trace.region_names.size()) {
    loads_.regions.resize(trace.region_names.size());
  }

  RegionLoads Measure() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) Count(i);
    for (std::size_t i = 0; i < loads_.regions.size(); ++i) {
      if (loads_.regions[i].is_asleep) EndSleep(i, trace_.events.back().time);
    }
    return std::move(loads_);
  }

 private:
  void Count(std::size_t at) {
    const TraceEvent& event = trace_.events[at];
    switch (event.kind) {
      case TraceEvent::Kind::kAllocate:
      case TraceEvent::Kind::kFree:
        CountBytes(event);
        break;
      case TraceEvent::Kind::kFailure:
        if (const TraceRegion region = trace_.failures[event.index].region; region != 0) {
          ++loads_.regions[region - 1U].failures;
        }
        break;
      case TraceEvent::Kind::kPause:
        Pause(trace_.pauses[event.index], event.time);
        break;
      case TraceEvent::Kind::kResume:
        Resume(trace_.pauses[event.index].region - 1U, event.time);
        break;
      default:
        break;
    }
    if (awake_bytes_ <= loads_.peak_awake_bytes) return;
    loads_.peak_awake_bytes = awake_bytes_;
    loads_.peak_awake_event = static_cast<std::int64_t>(at);
  }

  void CountBytes(const TraceEvent& event) {
    const TraceAllocation& allocation = trace_.allocations[event.index];
    const bool is_new = event.kind == TraceEvent::Kind::kAllocate;
    const std::int64_t rounded = AlignUp(allocation.bytes, alignment_);
    const std::int64_t bytes = is_new ? rounded : -rounded;
    RegionLoad* const load =
        allocation.region == 0 ? nullptr : &loads_.regions[allocation.region - 1U];
    if (load == nullptr || !load->is_asleep) awake_bytes_ += bytes;
    if (load == nullptr) return;
    load->allocations += is_new ? 1 : 0;
    load->unfreed_bytes += bytes;
    load->peak_live_bytes = std::max(load->peak_live_bytes, load->unfreed_bytes);
  }

  void Pause(const TracePause& pause, std::int64_t time) {
    RegionLoad& load = loads_.regions[pause.region - 1U];
    load.is_asleep = true;
    ++load.pauses[static_cast<std::size_t>(pause.mode)];
    ++load.pause_count;
    load.paused_bytes = SaturatedSum(load.paused_bytes, load.unfreed_bytes);
    awake_bytes_ -= load.unfreed_bytes;
    paused_at_[pause.region - 1U] = time;
  }

  void Resume(std::size_t region, std::int64_t time) {
    EndSleep(region, time);
    loads_.regions[region].is_asleep = false;
    awake_bytes_ += loads_.regions[region].unfreed_bytes;
  }

  void EndSleep(std::size_t region, std::int64_t time) {
    RegionLoad& load = loads_.regions[region];
    load.asleep_ns = SaturatedSum(load.asleep_ns, Elapsed(paused_at_[region], time));
  }

  const Trace& trace_;
  const std::int64_t alignment_;
  RegionLoads loads_;
  std::vector<std::int64_t> paused_at_;  // by region: the time of its last pause
  std::int64_t awake_bytes_ = 0;
};

}  // namespace

absl::StatusOr<RegionLoads> MeasureRegions(const Trace& trace, std::int64_t alignment) {
  const absl::StatusOr<TraceLoad> whole = MeasureLoad(trace, alignment);
  if (!whole.ok()) return whole.status();
  return RegionMeter(trace, alignment).Measure();
}

}  // namespace tidepool
