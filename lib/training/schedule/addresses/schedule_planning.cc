// SPDX-License-Identifier: Apache-2.0
// Plans the memory of a schedule.
#include "lib/training/schedule/addresses/schedule_planning.h"

#include <algorithm>
#include <utility>

#include "lib/base/budget/budget.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/layered_plan.h"
#include "lib/memory/plan/planner.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {
namespace {

// Whether the search in layers takes the problem: one stream, and one alignment of all that is not
// fixed.
bool HasLayers(const PlanProblem& problem) {
  const std::uint32_t stream = problem.buffers.front().stream;
  std::int64_t alignment = 0;
  return std::all_of(problem.buffers.begin(), problem.buffers.end(), [&](const PlanBuffer& one) {
    if (one.stream != stream || one.free_stream != stream) return false;
    if (plan::IsFixed(one)) return true;
    if (alignment == 0) alignment = one.alignment;
    return one.alignment == alignment;
  });
}

}  // namespace

absl::StatusOr<Plan> PlanBuffersWithin(const PlanProblem& problem, std::int64_t memory_bytes,
                                       const PlanEffort& effort) {
  absl::StatusOr<Plan> best = MakePlan(problem, {.time_limit_seconds = 0});
  const auto is_enough = [&] {
    return !best.ok() || best->height <= memory_bytes || best->lower_bound > memory_bytes;
  };
  const auto take = [&](Plan plan) {
    if (plan.height < best->height) best = std::move(plan);
  };
  budget::Budget budget(effort.most_seconds, effort.stop);
  if (!is_enough() && HasLayers(problem)) {
    Plan layered = plan::PlanInLayers(
        problem,
        {.capacity = memory_bytes, .work = StepsIn(effort.work_seconds), .seed = effort.seed},
        budget);
    absl::Status status = ValidatePlan(problem, layered.offsets, layered.height);
    if (!status.ok()) return absl::InternalError(status.message());
    take(std::move(layered));
  } else if (!is_enough()) {
    // All heuristics take milliseconds.
    take(plan::MakePlanIn(problem, {.capacity = memory_bytes}, 0, budget));
  }
  if (!is_enough() && effort.whole_seconds > 0) {
    absl::StatusOr<Plan> whole = MakePlan(problem, {.capacity = memory_bytes,
                                                    .time_limit_seconds = effort.whole_seconds,
                                                    .seed = effort.seed,
                                                    .stop = effort.stop});
    if (!whole.ok()) return whole;
    take(*std::move(whole));
  }
  return best;
}

}  // namespace tidepool::schedule

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
