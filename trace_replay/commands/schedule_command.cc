// SPDX-License-Identifier: Apache-2.0
// The command `schedule`: the schedule of one iteration under a policy; of a graph, as a file.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/schedule/chain.h"
#include "tidepool/schedule/schedule_file.h"
#include "trace_replay/offload/chain_answer.h"
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
  ChainPolicyOptions chain;
  const CLI::App* app = nullptr;
};

// The options that only chains take, and those that chains take too.
constexpr std::array<std::string_view, 3> kChainOptions = {"--slots", "--time-limit", "--seed"};
constexpr std::array<std::string_view, 4> kOptionsOfBoth = {"FILE", "--memory", "--policy",
                                                            "--json"};

template <std::size_t kCount>
bool IsOneOf(const std::array<std::string_view, kCount>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Refuses options that are given and would do nothing.
absl::Status CheckOptionsFor(const ScheduleOptions& options, bool is_chain) {
  for (const CLI::Option* option : options.app->get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || IsOneOf(kOptionsOfBoth, name)) continue;
    if (is_chain == IsOneOf(kChainOptions, name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": an option for ", is_chain ? "graphs" : "chains", ", and ",
                     absl::CHexEscape(options.point.graph),
                     is_chain ? " is a chain" : " is a graph", ", expected none"));
  }
  return absl::OkStatus();
}

bool IsGiven(const ScheduleOptions& options, const std::string& name) {
  return options.app->get_option(name)->count() > 0;
}

absl::StatusOr<Answer> ScheduleChain(const ScheduleOptions& options) {
  if (absl::Status status = CheckOptionsFor(options, true); !status.ok()) return status;
  ChainCommandOptions chain = {
      .path = options.point.graph, .choices = options.chain, .json = options.point.json};
  if (IsGiven(options, "--policy")) chain.policy = options.point.policy;
  if (IsGiven(options, "--memory")) chain.memory_bytes = options.point.offload.machine.memory_bytes;
  return PrintChainSchedule(chain);
}

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
  if (absl::Status status = CheckOptionsFor(options, false); !status.ok()) return status;
  if (absl::Status status = CheckOutput(options); !status.ok()) return status;
  const absl::StatusOr<TaskGraph> graph = ReadGraph(options.point.graph);
  if (!graph.ok()) return graph.status();
  if (!IsGiven(options, "--memory")) {
    return absl::InvalidArgumentError("--memory is missing, expected the memory of the device");
  }
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

void AddChainOptions(CLI::App& app, ChainPolicyOptions& options) {
  const std::string group = "Chains";
  AddWholeOption(app, "--slots", options.slots, {0, 1'000'000},
                 "Divide the memory into so many slots, where a policy computes in slots; 0: the "
                 "policy's choice")
      ->group(group);
  AddSecondsOption(app, "--time-limit", options.time_limit_seconds,
                   "Time that a policy may search, where it searches that long")
      ->default_str("2s")
      ->group(group);
  app.add_option("--seed", options.seed, "Seed of a random search")
      ->type_name("NUMBER")
      ->capture_default_str()
      ->group(group);
}

}  // namespace

Command AddSchedule(CLI::App& app) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* schedule = app.add_subcommand(
      "schedule", "Makes the schedule of a training iteration under an offload policy");
  schedule->group("Training iterations");
  schedule
      ->add_option("FILE", options->point.graph,
                   "The task graph, a file as `tidepool model -o` writes it; or a chain")
      ->required();
  AddPointOptions(*schedule, options->point);
  schedule->get_option("--memory")
      ->description("Memory of the device; a chain has one of its own, a graph needs the option");
  schedule->get_option("--policy")
      ->description(absl::StrCat(PolicyHelp(),
                                 "; of a chain: ", absl::StrJoin(ChainPolicyNames(), ", "),
                                 ", without this option ", kDefaultChainPolicy));
  AddDecisionOptions(*schedule, options->point);
  schedule
      ->add_option("-o,--output", options->output,
                   "Write the schedule to this file; compressed if the name ends in .gz")
      ->type_name("FILE");
  AddChainOptions(*schedule, options->chain);
  AddJsonOption(*schedule, options->point.json);
  AddExamples(*schedule, {"tidepool model alexnet --batch 32 -o alexnet.json",
                          "tidepool schedule alexnet.json --memory 1GiB -o alexnet.schedule.json",
                          "tidepool simulate alexnet.json --schedule alexnet.schedule.json",
                          "tidepool schedule examples/chains/resnet-18.json --policy dynprog"});
  options->app = schedule;
  return {schedule, [options] {
            return IsChainFile(options->point.graph) ? ScheduleChain(*options)
                                                     : MakeScheduleFile(*options);
          }};
}

}  // namespace tidepool::tool
