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
#include "lib/pool/range.h"
#include "tidepool/planned_placement.h"
#include "tidepool/trace.h"

namespace tidepool::pool {

// An iteration that is to be planned.
struct PlanOrder {
  Trace iteration;
  std::int64_t alignment = 1;
  double seconds = 0;  // to look for a lower plan than the first
  std::uint64_t signature = 0;
  std::vector<Range> fixed;  // what is there before, during and after it
  // A plan for iterations that begin alike, and how many requests are. Null: there is none.
  std::shared_ptr<const PlacementPlan> alike;
  std::size_t requests_alike = 0;
};

// The plan of an order: what the iteration does not free may stay until the next one frees it, and
// so has its place to itself. Where it can be, requests that are alike are planned alike, because
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
