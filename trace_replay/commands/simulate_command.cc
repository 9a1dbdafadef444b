// SPDX-License-Identifier: Apache-2.0
// The command `simulate`: training iterations under offload policies, on a virtual clock.
#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tidepool/trace/output_file.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/offload/division_options.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/offload/schedule_source.h"
#include "trace_replay/offload/simulated_iteration.h"
#include "trace_replay/offload/sweep.h"
#include "trace_replay/offload/sweep_options.h"
#include "trace_replay/offload/sweep_output.h"
#include "trace_replay/offload/timeline_answer.h"
#include "trace_replay/report/sweep_drawing.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct SimulateOptions {
  OffloadCommandOptions point;
  GraphSource source;
  SweepOptions sweep;
};

std::int64_t OnlyBatch(const SweepOptions& sweep) {
  return sweep.batches.values.empty() ? 0 : sweep.batches.values.front();
}

// A schedule from a file may have rounds.
bool NeedsFamily(const OffloadCommandOptions& options) {
  return DividesBatch(options) || !options.schedule.empty();
}

absl::StatusOr<Answer> SimulateOne(SimulateOptions options) {
  options.point.policy = options.sweep.policies.values.front();
  options.point.set = options.sweep.sets.values.front();
  if (!options.sweep.memories.values.empty()) {
    options.point.machine.memory_bytes = options.sweep.memories.values.front();
  }
  if (EndsAtStop(options.point.policy)) options.point.choice.chain.stop = StopAtInterrupt();
  const std::int64_t batch = OnlyBatch(options.sweep);
  const absl::StatusOr<GraphOrFamily> graphs =
      GraphOf(options.source, batch, NeedsFamily(options.point));
  if (!graphs.ok()) return graphs.status();
  const absl::StatusOr<SimulatedIteration> iteration =
      ScheduleAndSimulate(options.point, *graphs, batch);
  if (!iteration.ok()) return iteration.status();
  if (!iteration->timeline.ok()) {
    return PrintDoesNotFit(options.point, iteration->scheduled, iteration->timeline.status());
  }
  // Only a pool has requests to serve.
  if (iteration->scheduled.schedule().memory != ScheduleMemory::kPool) {
    return PrintTimeline(options.point, iteration->scheduled, *iteration->timeline,
                         nlohmann::ordered_json::object());
  }
  const absl::StatusOr<SmallestPools> pools = SizePools(*iteration);
  if (!pools.ok()) return pools.status();
  absl::StatusOr<Answer> answer =
      PrintTimeline(options.point, iteration->scheduled, *iteration->timeline,
                    {{"smallest_pools", SmallestPoolsJson(*pools)}});
  if (!answer.ok() || options.point.json || options.point.timeline == "/dev/stdout") return answer;
  std::cout << '\n'
            << TableText({{"smallest pools for the iteration", ""},
                          {"  live at the peak", SizeText(pools->peak_live_bytes)},
                          {"  best-fit", SizeText(pools->best_fit_bytes)},
                          {"  planned", SizeText(pools->planned_bytes)}});
  return answer;
}

std::vector<SweepCurve> CurvesOf(const std::vector<SweepPoint>& points) {
  std::vector<SweepCurve> curves;
  for (const SweepPoint& point : points) {
    const std::string name = SeriesText(point.series);
    auto curve = std::find_if(curves.begin(), curves.end(),
                              [&](const SweepCurve& one) { return one.name == name; });
    if (curve == curves.end()) curve = curves.insert(curves.end(), {name, {}});
    if (point.fits) {
      curve->points.emplace_back(static_cast<double>(point.memory_bytes), point.seconds);
    }
  }
  for (SweepCurve& curve : curves) std::sort(curve.points.begin(), curve.points.end());
  return curves;
}

absl::Status Draw(const SweepOptions& sweep, const std::vector<SweepPoint>& points) {
  const auto memories =
      std::minmax_element(sweep.memories.values.begin(), sweep.memories.values.end());
  const bool has_one_graph = sweep.batches.values.size() <= 1;
  return WriteFile(sweep.drawing, [&](std::ostream& out) {
    WriteSweepDrawing(
        absl::StrCat(points.front().graph, ": time of an iteration over the memory of the device"),
        CurvesOf(points), static_cast<double>(*memories.first),
        static_cast<double>(*memories.second), has_one_graph ? points.front().ideal_seconds : 0,
        out);
    return absl::OkStatus();
  });
}

bool HasAnswer(const std::vector<SweepAnswer>& answers) {
  return std::any_of(answers.begin(), answers.end(),
                     [](const SweepAnswer& answer) { return answer.best.has_value(); });
}

// A question without any answer is a no, and so is a sweep in which no point fits.
Answer AnswerOf(const SweepOptions& sweep, const std::vector<SweepPoint>& points,
                const SweepAnswers& answers) {
  const bool any_fits =
      std::any_of(points.begin(), points.end(), [](const SweepPoint& point) { return point.fits; });
  const bool is_no = !any_fits ||
                     (sweep.smallest_memory && !HasAnswer(answers.smallest_memories)) ||
                     (sweep.largest_batch && !HasAnswer(answers.largest_batches));
  return is_no ? Answer::kNo : Answer::kYes;
}

absl::StatusOr<Answer> SimulateSweep(const SimulateOptions& options) {
  const SweepOptions& sweep = options.sweep;
  const absl::StatusOr<std::vector<SweepPoint>> points =
      RunSweep(options.point, sweep, [&](std::int64_t batch) {
        return GraphOf(options.source, batch, NeedsFamily(options.point));
      });
  if (!points.ok()) return points.status();
  SweepAnswers answers;
  if (sweep.smallest_memory) {
    answers.smallest_memories = SmallestMemories(*points, sweep.most_slowdown);
  }
  if (sweep.largest_batch) answers.largest_batches = LargestBatches(*points, sweep.most_slowdown);
  if (!sweep.drawing.empty()) {
    if (absl::Status status = Draw(sweep, *points); !status.ok()) return status;
  }
  if (options.point.json) {
    PrintJson(SweepJson(sweep, *points, answers));
  } else if (sweep.csv) {
    std::cout << SweepCsv(*points);
  } else if (sweep.drawing != "/dev/stdout") {
    std::cout << SweepText(sweep, *points, answers);
  }
  return AnswerOf(sweep, *points, answers);
}

absl::StatusOr<Answer> RunSimulate(const CLI::App& app, const SimulateOptions& options) {
  absl::Status status = CheckScheduleFile(app, options.point);
  if (status.ok()) status = CheckSweepOptions(app, options.sweep, options.point);
  if (status.ok() && options.point.schedule.empty()) {
    status = CheckPolicyOptions(app, options.point, options.sweep.policies.values);
  }
  if (status.ok() && !options.point.schedule.empty() && options.sweep.is_sweep()) {
    status = absl::InvalidArgumentError(
        "--schedule: a file for one iteration, expected one memory and no batches");
  }
  if (status.ok()) status = CheckTimelineFile(options.point);
  if (!status.ok()) return status;
  return options.sweep.is_sweep() ? SimulateSweep(options) : SimulateOne(options);
}

}  // namespace

Command AddSimulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Predicts the time of training iterations under offload policies");
  simulate->group("Training iterations");
  simulate
      ->add_option("GRAPH", options->source.graph,
                   "The task graph, a file as `tidepool model -o` writes it; with --batch, a graph "
                   "at any batch or the name of a network")
      ->required();
  AddSweepOptions(*simulate, options->sweep);
  AddOffloadOptions(*simulate, options->point);
  AddGraphOptions(*simulate, options->source, options->sweep);
  AddExamples(*simulate,
              {"tidepool simulate vgg-16 --batch 64 --memory 8GiB --offload dynamic",
               "tidepool model vgg-16 --batch 64 -o vgg.json",
               "tidepool simulate vgg.json --memory 8GiB --link 25GB/s --timeline vgg.trace.json",
               ("tidepool simulate vgg.json --memory 2GiB..8GiB/1GiB --policy none,vdnn,vdnn++ "
                "--svg vgg.svg"),
               ("tidepool simulate vgg.json --memory 2GiB..8GiB/1GiB --offload dynamic "
                "--smallest-memory --slowdown 1.5"),
               "tidepool simulate vgg-16 --batch 16..128/16 --memory 8GiB,16GiB --largest-batch"});
  return {simulate, [simulate, options] {
            options->point.graph = options->source.graph;
            return RunSimulate(*simulate, *options);
          }};
}

}  // namespace tidepool::tool
