// SPDX-License-Identifier: Apache-2.0
// BackgroundPlanner: makes plans for iterations on a thread of its own, one at a time.
#ifndef TIDEPOOL_LIB_POOL_BACKGROUND_PLANNER_H_
#define TIDEPOOL_LIB_POOL_BACKGROUND_PLANNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/locks/mutex.h"
#include "lib/plan/memory_log.h"
#include "lib/pool/iteration_log.h"
#include "lib/pool/range.h"
#include "tidepool/planned_placement.h"

namespace tidepool::pool {

// The order to plan an iteration.
struct PlanOrder {
  plan::MemoryLog iteration;
  std::int64_t alignment = 1;
  double seconds = 0;  // to search for a lower plan than the first
  std::uint64_t signature = 0;
  // Frees, in this iteration, of requests that the same iteration before it left live.
  std::vector<CarriedFree> carried_frees;
  std::vector<Range> fixed;  // used before, during and after the iteration
  // A plan for iterations that begin alike, and the number of requests that are alike. Or null.
  std::shared_ptr<const PlacementPlan> alike;
  std::size_t requests_alike = 0;
};

// Plans an iteration that repeats, as RepeatingProblem describes. A buffer that the next iteration
// does not free has its offset to itself. Returns one plan, or two that iterations follow in turn.
// Requests that another plan begins with keep its offsets where possible, because the pool cannot
// know which of the two iterations begins; there is one plan then. Errors are those of
// ToPlanProblem and MakePlan.
absl::StatusOr<PlacementPlans> PlanIteration(const PlanOrder& order, std::stop_token stop);

// Thread-safe.
class BackgroundPlanner {
 public:
  BackgroundPlanner() = default;
  // Stops the search for a plan.
  ~BackgroundPlanner();
  BackgroundPlanner(const BackgroundPlanner&) = delete;
  BackgroundPlanner& operator=(const BackgroundPlanner&) = delete;

  // Starts an order. It replaces an order that was not begun.
  void Start(PlanOrder order);
  // Whether an order with this signature waits or is being planned.
  bool IsPlanning(std::uint64_t signature) const;
  // Returns the plans that were finished since the last call. Those of an order are together.
  std::vector<PlacementPlans> TakeFinished();
  // Waits until no order is left.
  void Await();

 private:
  void Run(const std::stop_token& stop);

  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !waiting_.has_value() && !planning_.has_value();
  }

  mutable locks::Mutex mutex_;
  locks::CondVar changed_;
  std::optional<PlanOrder> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> planning_ ABSL_GUARDED_BY(mutex_);  // its signature
  std::vector<PlacementPlans> finished_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // from the first order on
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_BACKGROUND_PLANNER_H_
