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

// Options of FindPhaseNeeds, and of FindRegionNeeds (region_needs.h).
struct NeedsOptions {
  std::int64_t alignment = 512;  // of sizes and offsets: a power of two up to 1 GiB
  // Phases or regions that are not counted, such as one that fills the rest of the memory with a
  // cache.
  std::vector<std::string> without = {};
  double time_limit_seconds = 10;  // for all plans together; first plans are always made
  std::stop_token stop = {};       // ends the search with the best plans so far
};

// The memory that a phase needs, in bytes. A phase may run several times: each run is a *time*.
struct PhaseNeed {
  std::string name;         // "" for requests outside of all phases
  std::int64_t times = 0;   // runs in the trace; outside of phases, those with requests or frees
  std::int64_t kept = 0;    // the sum, over all times, of allocations that stay for long
  std::int64_t handed = 0;  // the most that one time leaves for one of the next phases to free
  std::int64_t work = 0;    // the highest peak of allocations that the same time frees
  // The sum of the three, if the phase keeps memory and runs only after one that is left out, as
  // the capture of graphs after the allocation of a cache; else 0. A full cache leaves that room.
  std::int64_t beside = 0;
};

struct PhaseNeeds {
  std::vector<PhaseNeed> phases;  // in the order of their first times
  std::int64_t kept = 0;          // the sum of all phases
  std::int64_t handed = 0;        // the most of any phase, beside those that are left out
  // Areas of `handed` bytes for memory that one phase leaves to the next ones: as many as may hold
  // such memory at the same time, 2 to 9; 0 if no phase leaves any.
  std::int64_t areas = 0;
  std::int64_t work = 0;  // the height of the plan for the work of any phase, likewise
  // A pool of this many bytes serves all orders of the phases: `kept`, `areas` of `handed` that
  // take turns, and `work`.
  std::int64_t needed = 0;
  // The height of a plan for the allocations before the first phase that is left out, in the
  // recorded order: the pool needs that too. 0 if none is left out.
  std::int64_t before = 0;
};

// Finds the memory that the phases of a trace need. A phase is the outermost span of the trace's
// marks, or where no span is open, the requests from a mark without an end to the next mark; phases
// of equal name are times of one phase, and requests outside of spans are a phase too.
//
// The answer is for every order of the recorded times, as long as each phase makes its recorded
// requests and begins on the device after the phase before. Memory that is freed within eight
// phases after its own must be freed as many phases later in each order; memory that stays longer
// may be there all at once. Phases that run only before one that is left out, such as the load of a
// model before its cache, never work beside it: of them only memory counts that stays.
// InvalidArgument for a trace without marks, a name in `without` that no phase has, and an invalid
// alignment; other errors are those of ToPlanProblem and MakePlan. Thread-safe. O(n log n) without
// the plan.
TIDEPOOL_EXPORT absl::StatusOr<PhaseNeeds> FindPhaseNeeds(const Trace& trace,
                                                          const NeedsOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_PHASES_H_
