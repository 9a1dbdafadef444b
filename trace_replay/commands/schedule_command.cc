// SPDX-License-Identifier: Apache-2.0
// The command `schedule`: the schedule of one iteration under an offload policy, as a file.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/schedule/schedule_file.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/offload/schedule_source.h"
#include "trace_replay/offload/simulated_iteration.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct ScheduleOptions {
  OffloadCommandOptions point;
  std::string output;
};

absl::Status CheckOutput(const ScheduleOptions& options) {
  if (absl::Status status = CheckJsonOutput(options.point.json, options.output, "schedule");
      !status.ok()) {
    return status;
  }
  std::error_code error;
  if (!std::filesystem::equivalent(options.point.graph, options.output, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("-o: ", absl::CHexEscape(options.output),
                                                 " is the graph itself, expected another file"));
}

absl::StatusOr<Answer> MakeScheduleFile(const ScheduleOptions& options) {
  if (absl::Status status = CheckOutput(options); !status.ok()) return status;
  const absl::StatusOr<TaskGraph> graph = ReadGraph(options.point.graph);
  if (!graph.ok()) return graph.status();
  const absl::StatusOr<SimulatedIteration> iteration = SimulateIteration(options.point, *graph);
  if (!iteration.ok()) return iteration.status();
  const ScheduledGraph& scheduled = iteration->scheduled;
  if (!iteration->timeline.ok()) {
    return PrintDoesNotFit(options.point, scheduled, iteration->timeline.status());
  }
  if (!options.output.empty()) {
    const ScheduleFile file = {*scheduled.schedule, scheduled.graph.name,
                               MachineOf(scheduled.offload.machine)};
    if (absl::Status status = WriteSchedule(file, options.output); !status.ok()) return status;
    if (options.output == "/dev/stdout") return Answer::kYes;
  }
  return PrintTimeline(options.point, scheduled, *iteration->timeline,
                       {{"steps", scheduled.schedule->steps.size()}, {"output", options.output}});
}

}  // namespace

Command AddSchedule(CLI::App& app) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* schedule = app.add_subcommand(
      "schedule", "Makes the schedule of a training iteration under an offload policy");
  schedule->group("Training iterations");
  schedule
      ->add_option("GRAPH", options->point.graph,
                   "The task graph, a file as `tidepool model -o` writes it")
      ->required();
  AddPointOptions(*schedule, options->point);
  schedule->get_option("--memory")->required();
  AddDecisionOptions(*schedule, options->point);
  schedule
      ->add_option("-o,--output", options->output,
                   "Write the schedule to this file; compressed if the name ends in .gz")
      ->type_name("FILE");
  AddJsonOption(*schedule, options->point.json);
  AddExamples(*schedule, {"tidepool model alexnet --batch 32 -o alexnet.json",
                          "tidepool schedule alexnet.json --memory 1GiB -o alexnet.schedule.json",
                          "tidepool simulate alexnet.json --schedule alexnet.schedule.json"});
  return {schedule, [options] { return MakeScheduleFile(*options); }};
}

}  // namespace tidepool::tool
