// SPDX-License-Identifier: Apache-2.0
// Schedules, simulates and sizes an iteration.
#include "trace_replay/offload/simulated_iteration.h"

#include <memory>
#include <utility>

#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_plan.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::tool {

absl::StatusOr<SimulatedIteration> SimulateScheduled(ScheduledGraph scheduled) {
  absl::StatusOr<Timeline> timeline =
      scheduled.fits.ok() ? Simulate(scheduled.made) : absl::StatusOr<Timeline>(scheduled.fits);
  if (!timeline.ok() && !absl::IsResourceExhausted(timeline.status())) return timeline.status();
  return SimulatedIteration{std::move(scheduled), std::move(timeline)};
}

absl::StatusOr<SimulatedIteration> ScheduleAndSimulate(const OffloadCommandOptions& options,
                                                       const GraphOrFamily& graphs,
                                                       std::int64_t batch) {
  absl::StatusOr<ScheduledGraph> scheduled = MakeScheduledGraph(options, graphs, batch);
  if (!scheduled.ok()) return scheduled.status();
  return SimulateScheduled(*std::move(scheduled));
}

absl::StatusOr<SmallestPools> SizePools(const SimulatedIteration& iteration) {
  const ScheduledGraph& scheduled = iteration.scheduled;
  const std::int64_t alignment = scheduled.made.placing.alignment;
  const absl::StatusOr<Trace> trace =
      ScheduleTrace(scheduled.graph(), iteration.timeline->resolved);
  if (!trace.ok()) return trace.status();
  const absl::StatusOr<TraceLoad> load = MeasureLoad(*trace, alignment);
  if (!load.ok()) return load.status();
  const std::unique_ptr<PlacementPolicy> policy = MakePlacementPolicy("best-fit").value();
  const absl::StatusOr<MinimumPoolResult> pool = MinimumPool(
      *trace, *policy, {.alignment = alignment, .most_steps = 0, .most_restart_steps = 3'000'000});
  if (!pool.ok()) return pool.status();
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(*trace, alignment);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Plan> plan = MakePlan(*problem, {.time_limit_seconds = 1});
  if (!plan.ok()) return plan.status();
  return SmallestPools{load->peak_live_bytes, pool->pool_bytes, plan->height};
}

nlohmann::ordered_json SmallestPoolsJson(const SmallestPools& pools) {
  return {{"peak_live_bytes", pools.peak_live_bytes},
          {"best_fit_bytes", pools.best_fit_bytes},
          {"planned_bytes", pools.planned_bytes}};
}

}  // namespace tidepool::tool
