// SPDX-License-Identifier: Apache-2.0
// Iterations: where the iterations of a pool begin, their requests, and the plans for them.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_ITERATIONS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_ITERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lib/memory/pool/background_planner.h"
#include "lib/memory/pool/iteration_log.h"
#include "lib/memory/pool/period_finder.h"
#include "lib/memory/pool/plan_next.h"
#include "lib/memory/pool/plan_rest.h"
#include "tidepool/planned_placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// Live memory at the end of an iteration.
struct LiveMemory {
  struct Own {
    Range range;
    std::uint32_t request = 0;  // index in the iteration
  };
  std::vector<Own> own;      // allocated in the iteration
  std::vector<Range> fixed;  // not allocated in it, and offsets that never get memory
};

// The memory that plans of the next iteration need.
struct PlanNeeds {
  Range range;  // of offsets; empty without plans
  // A pool that reserves more bytes than this gives back unused memory outside of the range.
  std::int64_t most_bytes = INT64_MAX;
};

// Not thread-safe, but for AwaitPlans.
class Iterations {
 public:
  // The plan of the options is followed from the first request on. The policy has it already.
  Iterations(PlannedPlacement& policy, const PoolOptions& options);

  // Note a call of the pool. `live_bytes` are live before it.
  void OnAllocate(BlockId block, std::int64_t bytes, std::int64_t live_bytes, std::uint32_t stream);
  void OnFree(BlockId block, std::uint32_t stream) {
    if (is_logging_) log_.Free(block, stream);
  }
  void OnWait(std::uint32_t stream, std::uint32_t awaited) {
    if (is_logging_) log_.Wait(stream, awaited);
  }

  // Notes that the caller marks iterations from now on: they need not be found.
  void Mark();
  // Whether the next request begins an iteration, as far as iterations were found.
  bool IsBoundary() const { return !is_marked_ && (policy_.IsAtEnd() || until_boundary_ == 0); }

  // Ends an iteration. Returns whether Plan must be called before Begin.
  bool End();
  bool IsOwn(BlockId block) const { return log_.Has(block); }
  std::uint32_t RequestOf(BlockId own) const { return log_.RequestOf(own); }
  // Makes or orders the plans that the ended iteration calls for.
  void Plan(LiveMemory live);
  // Begins the next iteration.
  PlanNeeds Begin();

  // Waits until no plan is being made. Thread-safe.
  void AwaitPlans() { planner_.Await(); }

  // Fills the counts of plans and iterations.
  void AddCounts(PoolStats& stats) const;

 private:
  // A plan assumes the memory that the plan before it leaves to it. It begins with the first
  // iteration that finds memory at these offsets, and after this many that do not it begins
  // nevertheless.
  static constexpr int kMostTries = 4;
  // The first iterations have no plan, so their memory lies outside of the later plans. The first
  // marks with plans that give it back.
  static constexpr int kGiveBacksAtFirst = 4;

  struct Known {
    PlacementPlans plans;     // one, or three as PlanIteration returns them
    std::size_t turn = 0;     // of the plan for the next iteration of the kind
    bool is_offered = false;  // whether this iteration could follow it
    int tries = kMostTries;   // to begin it with memory where it expects it
    int failures = 0;         // in a row: iterations of its kind that it did not serve wholly
    int patience = 1;         // failures after which it is made again; doubled each time
    bool is_used = false;

    const std::shared_ptr<const PlacementPlan>& next() const { return plans[turn]; }
    const PlacementPlan& last() const { return *plans.back(); }
    void TakeTurn() { turn = (turn + 1) % plans.size(); }
  };

  void Compare();
  void CountForRest();
  void BeginRest();
  bool WantsPlan(std::uint64_t signature, std::size_t requests);
  bool WantsNext() const;
  void OrderPlan(const LiveMemory& live);
  void MakeNext(LiveMemory live);
  void MakeNextFor(Known& known, NextOrder& order);
  std::vector<LeftRange> LeftRanges(std::vector<LiveMemory::Own> own) const;
  std::vector<Range> BeyondBase(const std::vector<Range>& ranges) const;
  std::optional<Range> Apart(const LiveMemory& live) const;
  void Take(IterationPlans made);
  void AddPlans(PlacementPlans plans);
  std::int64_t MostBytes(std::int64_t planned_bytes);
  std::deque<Known>::iterator FindKnown(std::uint64_t signature);
  bool WasSeen(std::uint64_t signature);
  void FindAlike(PlanOrder& order) const;
  void FindPeriod(std::int64_t bytes, std::int64_t live_bytes);

  static constexpr std::size_t kUnknown = SIZE_MAX;

  PlannedPlacement& policy_;
  const std::int64_t alignment_;
  const double seconds_;
  const std::size_t most_plans_;
  const std::int64_t max_bytes_;
  const std::int64_t address_bytes_;  // 0 where plans may not have addresses of their own
  bool is_marked_ = false;
  bool is_logging_ = false;
  IterationLog log_;
  PeriodFinder finder_;
  std::size_t until_boundary_ = kUnknown;
  std::deque<Known> known_;         // the plan used last is the first
  std::deque<std::uint64_t> seen_;  // signatures of iterations that were not planned
  int unlike_ = 0;              // iterations that were not as planned, less iterations that were
  std::size_t unused_ = 0;      // plans in a row that were never used
  PlannedCounts counts_;        // at the beginning of the iteration
  std::int64_t base_ = 0;       // no plan has a lower offset
  std::int64_t most_live_ = 0;  // bytes
  int give_backs_ = kGiveBacksAtFirst;  // marks at which memory that no plan needs is given back
  std::int64_t plans_made_ = 0;
  std::int64_t iterations_ = 0;  // that were seen from their start to their end
  bool wants_plan_ = false;      // of the ended iteration
  bool wants_next_ = false;
  std::shared_ptr<const PlacementPlan> next_;  // made for this iteration alone, or null
  int unused_next_ = 0;  // such plans in a row that no iteration followed wholly
  PlanRest rest_;        // at rest there are no plans, and requests are placed as by best-fit
  BackgroundPlanner planner_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_ITERATIONS_H_
