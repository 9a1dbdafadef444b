// SPDX-License-Identifier: Apache-2.0
// The command `simulate`: one training iteration under an offload policy, on a virtual clock.
#include <iostream>

#include "tidepool/schedule/timeline.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_plan.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

// The smallest pools that serve the requests of the iteration in their order.
struct SmallestPools {
  std::int64_t peak_live_bytes = 0;
  std::int64_t best_fit_bytes = 0;  // by the restart search
  std::int64_t planned_bytes = 0;
};

absl::StatusOr<SmallestPools> SizePools(const ScheduledGraph& scheduled, const Timeline& timeline) {
  const TimelineOptions& machine = scheduled.offload.machine;
  const absl::StatusOr<Trace> trace = ScheduleTrace(scheduled.graph, timeline.resolved);
  if (!trace.ok()) return trace.status();
  const absl::StatusOr<TraceLoad> load = MeasureLoad(*trace, machine.alignment);
  if (!load.ok()) return load.status();
  const std::unique_ptr<PlacementPolicy> policy = MakePlacementPolicy("best-fit").value();
  const absl::StatusOr<MinimumPoolResult> pool = MinimumPool(
      *trace, *policy,
      {.alignment = machine.alignment, .most_steps = 0, .most_restart_steps = 3'000'000});
  if (!pool.ok()) return pool.status();
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(*trace, machine.alignment);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Plan> plan = MakePlan(*problem, {.time_limit_seconds = 1});
  if (!plan.ok()) return plan.status();
  return SmallestPools{load->peak_live_bytes, pool->pool_bytes, plan->height};
}

absl::StatusOr<Answer> RunSimulate(const OffloadCommandOptions& options) {
  const absl::StatusOr<ScheduledGraph> scheduled = MakeScheduledGraph(options);
  if (!scheduled.ok()) return scheduled.status();
  const auto does_not_fit = [&](const absl::Status& why) {
    return PrintDoesNotFit(options, *scheduled, why);
  };
  if (!scheduled->schedule.ok()) return does_not_fit(scheduled->schedule.status());
  const absl::StatusOr<Timeline> timeline =
      Simulate(scheduled->graph, *scheduled->schedule, scheduled->offload.machine);
  if (absl::IsResourceExhausted(timeline.status())) return does_not_fit(timeline.status());
  if (!timeline.ok()) return timeline.status();
  const absl::StatusOr<SmallestPools> pools = SizePools(*scheduled, *timeline);
  if (!pools.ok()) return pools.status();
  absl::StatusOr<Answer> answer = PrintTimeline(options, *scheduled, *timeline,
                                                {{"smallest_pools",
                                                  {{"peak_live_bytes", pools->peak_live_bytes},
                                                   {"best_fit_bytes", pools->best_fit_bytes},
                                                   {"planned_bytes", pools->planned_bytes}}}});
  if (!answer.ok() || options.json || options.timeline == "/dev/stdout") return answer;
  std::cout << '\n'
            << TableText({{"smallest pools for the iteration", ""},
                          {"  live at the peak", SizeText(pools->peak_live_bytes)},
                          {"  best-fit", SizeText(pools->best_fit_bytes)},
                          {"  planned", SizeText(pools->planned_bytes)}});
  return answer;
}

}  // namespace

Command AddSimulate(CLI::App& app) {
  auto options = std::make_shared<OffloadCommandOptions>();
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Predicts the time of one training iteration under an offload policy");
  simulate->group("Training iterations");
  AddOffloadOptions(*simulate, *options);
  AddExamples(*simulate, {"tidepool model vgg-16 --batch 64 -o vgg.json",
                          "tidepool simulate vgg.json --memory 8GiB --offload dynamic",
                          "tidepool simulate vgg.json --memory 8GiB --link 25GB/s --latency 10us "
                          "--timeline vgg.trace.json"});
  return {simulate, [options] { return RunSimulate(*options); }};
}

}  // namespace tidepool::tool
