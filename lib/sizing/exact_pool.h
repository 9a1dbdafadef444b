// The smallest pool that serves a trace at all, and whether every larger one does, by simulating
// all pool sizes at once.
#ifndef TIDEPOOL_LIB_SIZING_EXACT_POOL_H_
#define TIDEPOOL_LIB_SIZING_EXACT_POOL_H_

#include <cstdint>
#include <vector>

#include "lib/plan/budget.h"
#include "lib/sizing/pool_set.h"
#include "lib/sizing/steps.h"
#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"

namespace tidepool::sizing {

// What is known before: a pool that serves the trace, and whether a larger one is known to fail.
struct PoolQuestion {
  std::int64_t serving_pool = 0;
  bool larger_fails = false;
};

// What became of the pools from the peak of live bytes on, but for the serving one of the question:
// each serves the trace, or was given up at a limit of the search, or, if in neither set, fails.
// Once a larger pool than the serving one fails, nothing more is said about larger pools.
struct PoolOutcome {
  PoolSet serving;
  PoolSet unknown;
  bool larger_fails = false;
  ExactLimit limit = ExactLimit::kNone;  // the first at which pools were given up
  std::int64_t pieces = 0;               // the most at a time, before any were given up
};

// How many arenas are kept from one event to the next, one a piece: at least 1.
std::int64_t MostPieces(const TraceLoad& load, const MinimumPoolOptions& options);

// Simulates at most options.most_steps events, summed over the arenas that are alive at a time.
// When they run out, or there are more arenas than MostPieces, the largest pools are given
// up first; when `deadline` has passed, all. `policy` has no memory; ManyPoolsArena::Addresses is
// not 0.
PoolOutcome SimulateAllPools(const std::vector<Step>& steps, const TraceLoad& load,
                             PlacementPolicy& policy, const MinimumPoolOptions& options,
                             const PoolQuestion& question, plan::Deadline& deadline);

}  // namespace tidepool::sizing

#endif  // TIDEPOOL_LIB_SIZING_EXACT_POOL_H_
