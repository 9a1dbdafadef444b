// Plans the memory of a schedule.
#include "absl/status/statusor.h"
#include "tidepool/plan.h"
#include "tidepool/schedule.h"

namespace tidepool {

absl::StatusOr<std::shared_ptr<const PlacementPlan>> PlanSchedule(const TaskGraph& graph,
                                                                  const Schedule& schedule,
                                                                  std::int64_t alignment) {
  // Plans of iterations are at the lower bound as a rule, and then the search ends at once.
  constexpr double kSeconds = 0.2;
  const absl::StatusOr<Trace> trace = ScheduleTrace(graph, schedule, Leaving::kAtOnce);
  if (!trace.ok()) return trace.status();
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(*trace, alignment);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Plan> plan = MakePlan(*problem, {.time_limit_seconds = kSeconds});
  if (!plan.ok()) return plan.status();
  return ToPlacementPlan(*problem, plan->offsets, problem->buffers.size());
}

}  // namespace tidepool
