// SPDX-License-Identifier: Apache-2.0
// Plans the memory of a schedule.
#include "absl/status/statusor.h"
#include "tidepool/schedule/schedule.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

absl::StatusOr<Plan> PlanFor(const PlanProblem& problem, std::int64_t memory_bytes) {
  constexpr double kSeconds = 1;
  absl::StatusOr<Plan> first = MakePlan(problem, {.time_limit_seconds = 0});
  if (!first.ok() || first->height <= memory_bytes || first->lower_bound > memory_bytes) {
    return first;
  }
  return MakePlan(problem, {.capacity = memory_bytes, .time_limit_seconds = kSeconds});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PlacementPlan>> PlanSchedule(const TaskGraph& graph,
                                                                  const Schedule& schedule,
                                                                  std::int64_t alignment,
                                                                  std::int64_t memory_bytes) {
  const absl::StatusOr<Trace> trace = ScheduleTrace(graph, schedule, Leaving::kAtOnce);
  if (!trace.ok()) return trace.status();
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(*trace, alignment);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Plan> plan = PlanFor(*problem, memory_bytes);
  if (!plan.ok()) return plan.status();
  return ToPlacementPlan(*problem, plan->offsets, problem->buffers.size());
}

}  // namespace tidepool
