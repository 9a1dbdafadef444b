// SPDX-License-Identifier: Apache-2.0
// Finds the smallest pool that serves a trace at all, and whether every larger pool does, by
// simulating all pool sizes at once.
#ifndef TIDEPOOL_LIB_TRACE_SIZING_EXACT_POOL_H_
#define TIDEPOOL_LIB_TRACE_SIZING_EXACT_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/budget/budget.h"
#include "lib/trace/sizing/pool_set.h"
#include "lib/trace/sizing/steps.h"
#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"

namespace tidepool::sizing {

// Known facts before the search: a pool that serves the trace, and whether a larger one is known to
// fail.
struct PoolQuestion {
  std::int64_t serving_pool = 0;
  bool larger_fails = false;
};

// The outcome for the pools from the peak of live bytes on, except the serving pool of the
// question. Each pool serves the trace, or was dropped at a limit of the search, or, if in neither
// set, fails. Once a pool larger than the serving one fails, the outcome says nothing more about
// larger pools.
struct PoolOutcome {
  PoolSet serving;
  PoolSet unknown;
  bool larger_fails = false;
  ExactLimit limit = ExactLimit::kNone;  // the first limit at which pools were dropped
  std::int64_t pieces = 0;               // the most at a time, before any were dropped
};

// The offsets of live allocations that a search keeps from one event to the next, over all its
// pieces; the smallest piece always. An offset takes 50 to 100 bytes, for a moment twice that, so
// the limit is about 30 MB.
inline constexpr std::int64_t kMostPlaces = 300'000;

// Returns the number of arenas, one per piece, to keep from one event to the next: at least 1.
std::int64_t MostPieces(const TraceLoad& load, std::int64_t most_places);

// Simulates at most options.most_steps events, summed over the arenas that exist at a time. When
// the steps run out, or there are more than `most_pieces` arenas, the largest pools are dropped
// first; at the end of the budget, all. `policy` has no memory; ManyPoolsArena::Addresses is not 0.
PoolOutcome SimulateAllPools(const std::vector<Step>& steps, const TraceLoad& load,
                             PlacementPolicy& policy, const MinimumPoolOptions& options,
                             std::int64_t most_pieces, const PoolQuestion& question,
                             budget::Budget& budget);

// MinimumPool with a limit of its own for the offsets, which tests reach with small traces.
absl::StatusOr<MinimumPoolResult> MinimumPoolWithin(const Trace& trace, PlacementPolicy& policy,
                                                    const MinimumPoolOptions& options,
                                                    std::int64_t most_places);

}  // namespace tidepool::sizing

#endif  // TIDEPOOL_LIB_TRACE_SIZING_EXACT_POOL_H_
