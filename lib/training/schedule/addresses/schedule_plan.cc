// SPDX-License-Identifier: Apache-2.0
// Plans the memory of a schedule.
#include "absl/status/statusor.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

absl::StatusOr<std::shared_ptr<const PlacementPlan>> PlanSchedule(const TaskGraph& graph,
                                                                  const Schedule& schedule,
                                                                  std::int64_t alignment,
                                                                  std::int64_t memory_bytes) {
  const absl::StatusOr<Trace> trace = ScheduleTrace(graph, schedule, Leaving::kAtOnce);
  if (!trace.ok()) return trace.status();
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(*trace, alignment);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Plan> plan = schedule::PlanBuffersWithin(*problem, memory_bytes);
  if (!plan.ok()) return plan.status();
  return ToPlacementPlan(*problem, plan->offsets, problem->buffers.size());
}

}  // namespace tidepool
