// SPDX-License-Identifier: Apache-2.0
// BackgroundPlanner: makes plans for iterations on a thread of its own, one at a time.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_BACKGROUND_PLANNER_H_
#define TIDEPOOL_LIB_MEMORY_POOL_BACKGROUND_PLANNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/plan/memory_log.h"
#include "lib/memory/pool/iteration_log.h"
#include "lib/memory/pool/range.h"
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
  std::int64_t base = 0;     // no request gets a lower offset
  std::vector<Range> fixed;  // beyond the base, used before, during and after the iteration
  // Addresses in which nothing is fixed, if the iteration may have addresses to itself.
  std::optional<Range> apart;
  // A plan for iterations that begin alike, and the number of requests that are alike. Or null.
  std::shared_ptr<const PlacementPlan> alike;
  std::size_t requests_alike = 0;
};

// The plans of an iteration: one, or two that iterations follow in turn.
struct IterationPlans {
  PlacementPlans plans;
  std::int64_t ordered_base = 0;  // of the order
  std::int64_t base = 0;          // no request has a lower offset
};

// Plans an iteration that repeats, as RepeatingProblem describes. A buffer that the next iteration
// does not free has its offset to itself. Where fixed ranges leave only small gaps, requests placed
// between them need much more memory than without them. The plans then begin at order.apart: the
// memory between the fixed ranges goes back to the device, so the plans cost addresses, not memory.
// Requests that another plan begins with keep its offsets where possible, because the pool cannot
// know which of the two iterations begins; there is one plan then. Errors are those of
// ToPlanProblem and MakePlan.
absl::StatusOr<IterationPlans> PlanIteration(const PlanOrder& order, std::stop_token stop);

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
  std::vector<IterationPlans> TakeFinished();
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
  std::vector<IterationPlans> finished_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // from the first order on
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_BACKGROUND_PLANNER_H_
