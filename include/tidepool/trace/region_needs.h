// SPDX-License-Identifier: Apache-2.0
// Needs of regions: the memory of a pool with regions that sleep and wake as a trace tells.
#ifndef TIDEPOOL_TRACE_REGION_NEEDS_H_
#define TIDEPOOL_TRACE_REGION_NEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/phases.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

struct RegionNeed {
  std::string name;             // "" for allocations of no region
  std::int64_t pauses = 0;      // in the trace
  std::int64_t peak_bytes = 0;  // the most that are live at one time
  std::int64_t plan_bytes = 0;  // the height of a plan for its allocations alone
};

// The memory of a phase (phases.h) in the recorded order.
struct RegionPhase {
  std::string name;               // "" for requests outside of all phases
  std::int64_t times = 0;         // that it runs in the trace
  std::int64_t needed_bytes = 0;  // the most that regions that are awake need during it
};

struct RegionNeeds {
  std::vector<RegionNeed> regions;  // no region first, if it has allocations; then by their numbers
  // The most memory that is needed at one time: the sum of `plan_bytes` of the regions that are
  // awake and have live allocations, and the event that reaches it.
  std::int64_t needed_bytes = 0;
  std::int64_t needed_event = 0;
  std::vector<RegionPhase> phases;    // in the order of their first times; empty without marks
  std::int64_t sleepless_bytes = 0;   // the sum of all `plan_bytes`: the need if none ever slept
  std::int64_t peak_awake_bytes = 0;  // the most live bytes of regions awake: a lower bound
};

// Finds the memory that a trace with regions needs, if each region has addresses of its own and
// gives its memory up while it sleeps or is empty. A pool hands memory over in whole granules, and
// may need up to one more for each region. InvalidArgument for a trace without regions, a name in
// `without` that no region has, and an invalid alignment; other errors are those of ToPlanProblem
// and MakePlan. Thread-safe. O(n log n) without the plans; each plan of several streams reads all
// waits of the trace.
TIDEPOOL_EXPORT absl::StatusOr<RegionNeeds> FindRegionNeeds(const Trace& trace,
                                                            const NeedsOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_REGION_NEEDS_H_
