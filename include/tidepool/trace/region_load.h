// SPDX-License-Identifier: Apache-2.0
// Load of regions: the memory of each region of a trace, and how long it slept.
#ifndef TIDEPOOL_TRACE_REGION_LOAD_H_
#define TIDEPOOL_TRACE_REGION_LOAD_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// Sums beyond 2^63 - 1 are 2^63 - 1.
struct RegionLoad {
  std::int64_t allocations = 0;
  std::int64_t failures = 0;
  std::int64_t peak_live_bytes = 0;                   // also while it sleeps
  std::int64_t unfreed_bytes = 0;                     // live at the end
  std::array<std::int64_t, kSleepModes> pauses = {};  // by SleepMode
  std::int64_t pause_count = 0;
  std::int64_t paused_bytes = 0;  // the sum over all pauses of the bytes that were live then
  // Nanoseconds from pauses to their resumes, or to the last event. Times that go back count as 0.
  std::int64_t asleep_ns = 0;
  bool is_asleep = false;  // at the end
};

struct RegionLoads {
  std::vector<RegionLoad> regions;  // in the order of Trace::region_names
  // The most live bytes at one time, of all allocations but those of regions that slept then, and
  // the event that reached them.
  std::int64_t peak_awake_bytes = 0;
  std::int64_t peak_awake_event = 0;
};

// Measures the regions of a trace, with sizes rounded up to `alignment`. Errors are those of
// MeasureLoad. Thread-safe. O(events).
TIDEPOOL_EXPORT absl::StatusOr<RegionLoads> MeasureRegions(const Trace& trace,
                                                           std::int64_t alignment);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_REGION_LOAD_H_
