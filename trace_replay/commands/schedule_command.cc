// SPDX-License-Identifier: Apache-2.0
// The commands `schedule` and `emit`: the schedule of one iteration of a graph, as a file, and as a
// program of its own.
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/training/emit_program.h"
#include "tidepool/training/schedule_file.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/offload/chain_answer.h"
#include "trace_replay/offload/graph_file.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/offload/schedule_source.h"
#include "trace_replay/offload/simulated_iteration.h"
#include "trace_replay/offload/timeline_answer.h"
#include "trace_replay/options.h"

namespace tidepool::tool {
namespace {

struct ScheduleOptions {
  OffloadCommandOptions point;
  std::string output;
  std::int64_t batch = 0;               // 0: the graph's own
  std::vector<std::string> known = {};  // files
  std::string language;                 // of the program that is written; empty: the schedule is
  bool callbacks = false;               // of the program
  const CLI::App* app = nullptr;
};

absl::Status CheckOptions(const ScheduleOptions& options) {
  const OffloadCommandOptions& point = options.point;
  absl::Status status = CheckScheduleFile(*options.app, point);
  if (status.ok() && point.schedule.empty()) {
    status = CheckPolicyOptions(*options.app, point, {point.policy});
  }
  if (status.ok()) status = CheckScheduleOutput(point, options.output);
  if (!status.ok() || options.language.empty() || !options.output.empty()) return status;
  return absl::InvalidArgumentError("no file for the program, expected -o FILE");
}

// Reads the schedules of --known.
absl::StatusOr<std::vector<Schedule>> ReadKnown(const ScheduleOptions& options) {
  std::vector<Schedule> known;
  known.reserve(options.known.size());
  if (!options.known.empty() && options.point.policy != "best") {
    return absl::InvalidArgumentError(absl::StrCat("--known: policy ", options.point.policy,
                                                   " has no such option, expected it with best"));
  }
  for (const std::string& path : options.known) {
    absl::StatusOr<ScheduleFile> file = ReadSchedule(path);
    if (!file.ok()) return file.status();
    known.push_back(std::move(file->schedule));
  }
  return known;
}

// Pages get fixed addresses.
absl::Status WriteProgram(const ScheduleOptions& options, ScheduledGraph& scheduled) {
  if (absl::Status status = FixPages(scheduled); !status.ok()) return status;
  const absl::StatusOr<std::string> program =
      EmitProgram(scheduled.made.graphs, scheduled.schedule(), scheduled.made.machine,
                  {.callbacks = options.callbacks});
  if (!program.ok()) return program.status();
  return WriteFile(options.output, [&](std::ostream& out) {
    out << *program;
    return absl::OkStatus();
  });
}

absl::Status WriteOutput(const ScheduleOptions& options, ScheduledGraph& scheduled) {
  if (!options.language.empty()) return WriteProgram(options, scheduled);
  const ScheduleFile file = {
      .schedule = scheduled.schedule(),
      .graph = scheduled.graph().name,
      .machine = scheduled.made.machine,
      .batch_normalization = NormalizationOf(scheduled.graph(), scheduled.schedule())};
  return WriteSchedule(file, options.output);
}

// Adds chains to the kinds of files that an error expects.
absl::Status OrAChain(const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrReplaceAll(status.message(), {{"expected a task graph: an object",
                                                              "expected a task graph or a chain: "
                                                              "an object"}}));
}

absl::StatusOr<OffloadCommandOptions> PointOf(const ScheduleOptions& options) {
  absl::StatusOr<std::vector<Schedule>> known = ReadKnown(options);
  if (!known.ok()) return known.status();
  OffloadCommandOptions point = options.point;
  point.choice.known = *std::move(known);
  const bool needs_addresses = !options.language.empty() && point.schedule.empty();
  if (needs_addresses && !point.choice.memory_kind.has_value()) {
    point.choice.memory_kind = ScheduleMemory::kFixed;
  }
  if (EndsAtStop(point.policy)) point.choice.chain.stop = StopAtInterrupt();
  return point;
}

absl::StatusOr<Answer> MakeOfGraph(ScheduleOptions options) {
  // A program needs fixed addresses, which the policies of pools do not give.
  const bool is_program = !options.language.empty();
  if (is_program && options.app->count("--policy") == 0) options.point.policy = "best";
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  const absl::StatusOr<GraphOrFamily> graphs =
      options.point.schedule.empty() ? ReadGraphFor(options.point.graph, options.batch)
                                     : ReadGraphFile(options.point.graph);
  if (!graphs.ok()) return graphs.status();
  const absl::StatusOr<OffloadCommandOptions> point = PointOf(options);
  if (!point.ok()) return point.status();
  absl::StatusOr<SimulatedIteration> iteration =
      ScheduleAndSimulate(*point, *graphs, options.batch);
  if (!iteration.ok()) return iteration.status();
  ScheduledGraph& scheduled = iteration->scheduled;
  if (!iteration->timeline.ok()) {
    return PrintDoesNotFit(*point, scheduled, iteration->timeline.status());
  }
  if (!options.output.empty()) {
    if (absl::Status status = WriteOutput(options, scheduled); !status.ok()) return status;
    if (options.output == "/dev/stdout") return Answer::kYes;
  }
  return PrintTimeline(*point, scheduled, *iteration->timeline,
                       {{"steps", scheduled.schedule().steps.size()}, {"output", options.output}});
}

// A chain is answered as by `chain`.
absl::StatusOr<Answer> RunSchedule(const ScheduleOptions& options) {
  if (!IsChainFile(options.point.graph)) {
    absl::StatusOr<Answer> answer = MakeOfGraph(options);
    return answer.ok() ? answer : OrAChain(answer.status());
  }
  if (absl::Status status = CheckTakenByChains(*options.app, options.point.graph); !status.ok()) {
    return status;
  }
  absl::StatusOr<ChainCommandOptions> chain = ChainOptionsOf(*options.app, options.point);
  if (!chain.ok()) return chain.status();
  if (absl::Status status = CheckScheduleOutput(options.point, options.output); !status.ok()) {
    return status;
  }
  chain->answer = options.output;
  return PrintChainSchedule(*chain);
}

void AddGraph(CLI::App& app, ScheduleOptions& options) {
  app.add_option("GRAPH", options.point.graph,
                 "The task graph, a file as `tidepool model -o` writes it")
      ->required();
  AddWholeOption(app, "--batch", options.batch, {.least = 1, .most = INT64_MAX},
                 "Samples of an iteration, for a graph at any batch");
}

void AddPolicies(CLI::App& app, ScheduleOptions& options) {
  AddPointOptions(app, options.point);
  AddDecisionOptions(app, options.point);
  app.add_option("--known", options.known,
                 "A schedule of an earlier search, such as one for less memory: the schedule of "
                 "`best` is never slower. May be given several times")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group("Policy");
}

}  // namespace

Command AddSchedule(CLI::App& app) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* schedule = app.add_subcommand(
      "schedule", "Makes the schedule of a training iteration under an offload policy");
  options->app = schedule;
  schedule->group("Training iterations");
  AddGraph(*schedule, *options);
  schedule
      ->add_option(
          "-o,--output", options->output,
          "Write the schedule to this file, that of a chain as --json prints it; compressed "
          "if the name ends in .gz")
      ->type_name("FILE");
  schedule
      ->add_option("--emit", options->language,
                   "Write a program instead of the schedule, as `tidepool emit` does: cpp")
      ->type_name("LANGUAGE")
      ->check(CLI::IsMember({"cpp"}));
  AddPolicies(*schedule, *options);
  AddScheduleJsonOption(*schedule, options->point.json);
  AddExamples(*schedule, {"tidepool model alexnet --batch 32 -o alexnet.json",
                          "tidepool schedule alexnet.json --memory 1GiB -o alexnet.schedule.json",
                          "tidepool simulate alexnet.json --schedule alexnet.schedule.json",
                          "tidepool model vgg-16 --family -o family.json",
                          ("tidepool schedule family.json --batch 64 --memory 4GiB --policy "
                           "none --sub-batch auto")});
  return {schedule, [options] { return RunSchedule(*options); }};
}

Command AddEmit(CLI::App& app) {
  auto options = std::make_shared<ScheduleOptions>();
  options->language = "cpp";
  options->point.policy = "best";
  CLI::App* emit = app.add_subcommand(
      "emit", "Writes a C++ program that trains by a schedule with cuDNN and cuBLAS on one device");
  options->app = emit;
  emit->group("Training iterations");
  AddGraph(*emit, *options);
  emit->add_option("-o,--output", options->output, "Write the program to this file; needed")
      ->type_name("FILE");
  emit->add_flag("--callbacks", options->callbacks,
                 "Let the program call your own functions in the place of kernels");
  AddScheduleFileOption(*emit, options->point);
  AddPolicies(*emit, *options);
  AddScheduleJsonOption(*emit, options->point.json);
  AddExamples(*emit, {"tidepool model vgg-16 --family -o family.json",
                      ("tidepool emit family.json --batch 64 --memory 4GiB --policy modnn "
                       "--sub-batch auto -o train.cc")});
  return {emit, [options] { return MakeOfGraph(*options); }};
}

}  // namespace tidepool::tool
