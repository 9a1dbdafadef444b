// SPDX-License-Identifier: Apache-2.0
// Phases of a program, such as the batches of an inference engine, and the memory that they need in
// any order. A recording has one order of its batches; a server meets all of them.
#ifndef TIDEPOOL_TRACE_PHASES_H_
#define TIDEPOOL_TRACE_PHASES_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

struct PhaseOptions {
  std::int64_t alignment = 512;  // of sizes and offsets: a power of two up to 1 GiB
  // Phases that are not counted, such as one that fills the rest of the memory with a cache.
  std::vector<std::string> without = {};
  double time_limit_seconds = 10;  // for both plans together; the first plans are always made
  std::stop_token stop = {};       // ends the search with the best plans so far
};

// The needs of a phase over all its times, in bytes.
struct PhaseNeed {
  std::string name;         // "" for requests outside of all phases
  std::int64_t times = 0;   // with requests or frees, for requests outside of phases
  std::int64_t kept = 0;    // the peak of its allocations that outlive the next phase
  std::int64_t handed = 0;  // the most that the next phase frees of one time's
  std::int64_t work = 0;    // the peak of allocations that the same time frees
};

struct PhaseNeeds {
  std::vector<PhaseNeed> phases;  // in the order of their first times
  std::int64_t kept = 0;          // the height of the plan for all that is kept
  std::int64_t handed = 0;        // the most that one phase hands to the next
  std::int64_t work = 0;          // the height of the plan for the work of any phase
  // A pool of this many bytes serves all orders of the phases: `kept`, two areas of `handed` that
  // take turns, and one of `work`.
  std::int64_t needed = 0;
};

// Finds the memory that the phases of a trace need. A phase is the outermost span of the trace's
// marks, or where no span is open, the requests from a mark without an end to the next mark; phases
// of equal name are times of one phase. Each phase is taken to begin on the device after the one
// before, and to make the recorded requests in each order. InvalidArgument for a
// trace without marks, a name in `without` that no phase has, and an invalid alignment; other
// errors are those of ToPlanProblem and MakePlan. Thread-safe. O(n log n) without the plans.
TIDEPOOL_EXPORT absl::StatusOr<PhaseNeeds> FindPhaseNeeds(const Trace& trace,
                                                          const PhaseOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_PHASES_H_
