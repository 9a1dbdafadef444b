// Makes plans for iterations on a thread of its own, one at a time.
#ifndef TIDEPOOL_LIB_POOL_BACKGROUND_PLANNER_H_
#define TIDEPOOL_LIB_POOL_BACKGROUND_PLANNER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/plan/memory_log.h"
#include "lib/pool/iteration_log.h"
#include "lib/pool/range.h"
#include "tidepool/planned_placement.h"

namespace tidepool::pool {

// An iteration that is to be planned.
struct PlanOrder {
  plan::MemoryLog iteration;
  std::int64_t alignment = 1;
  double seconds = 0;  // to look for a lower plan than the first
  std::uint64_t signature = 0;
  // What the same iteration before left and this one freed.
  std::vector<CarriedFree> carried_frees;
  std::vector<Range> fixed;  // what is there before, during and after it
  // A plan for iterations that begin alike, and how many requests are. Null: there is none.
  std::shared_ptr<const PlacementPlan> alike;
  std::size_t requests_alike = 0;
};

// The plan of an order, for an iteration that comes again and again: time is a circle, and what is
// left to the next iteration lives across its beginning. It is cut where the least is live. What
// lives across the cut, or is left and not freed in the next iteration, has its place to itself.
// Where it can be, requests that are alike are planned alike, because
// as they come nobody knows which iteration it will be. Errors are those of ToPlanProblem and
// MakePlan.
absl::StatusOr<std::shared_ptr<const PlacementPlan>> PlanIteration(const PlanOrder& order,
                                                                   std::stop_token stop);

// Thread-safe.
class BackgroundPlanner {
 public:
  BackgroundPlanner() = default;
  // Stops what is being planned.
  ~BackgroundPlanner();
  BackgroundPlanner(const BackgroundPlanner&) = delete;
  BackgroundPlanner& operator=(const BackgroundPlanner&) = delete;

  // Takes the place of an order that was not begun.
  void Start(PlanOrder order);
  // Whether an order with this signature waits or is being planned.
  bool IsPlanning(std::uint64_t signature) const;
  // The plans that were finished since the last time.
  PlacementPlans TakeFinished();
  // Waits until no order is left.
  void Await();

 private:
  void Run(const std::stop_token& stop);

  mutable std::mutex mutex_;  // of all but the thread
  std::condition_variable_any changed_;
  std::optional<PlanOrder> waiting_;
  std::optional<std::uint64_t> planning_;  // its signature
  PlacementPlans finished_;
  std::jthread thread_;  // from the first order on
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_BACKGROUND_PLANNER_H_
