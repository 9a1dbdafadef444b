// SPDX-License-Identifier: Apache-2.0
// The command `schedule`: the schedule of one iteration under a policy; of a graph, as a file.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tidepool/schedule/chain.h"
#include "tidepool/schedule/schedule_file.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/offload/chain_answer.h"
#include "trace_replay/offload/chain_file.h"
#include "trace_replay/offload/emit_options.h"
#include "trace_replay/offload/front_options.h"
#include "trace_replay/offload/graph_file.h"
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
  EmitCommandOptions emit;
  FrontCommandOptions front;
  std::int64_t batch = 0;               // 0: the graph's own
  std::vector<std::string> known = {};  // files
  ChainFileOptions chain = {};
  const CLI::App* app = nullptr;
};

// The options that chains take.
constexpr std::array<std::string_view, 16> kChainOptions = {
    "FILE",           "--memory",    "--policy", "--json",        "--slots",   "--time-limit",
    "--seed",         "--recompute", "--duplex", "--latency",     "--density", "--compressor",
    "--decompressor", "--part",      "--chain",  "--chain-format"};

// Refuses options that are given and would do nothing for a chain.
absl::Status CheckChainOptions(const ScheduleOptions& options) {
  for (const CLI::Option* option : options.app->get_options()) {
    const std::string name = option->get_name();
    const bool is_known =
        std::find(kChainOptions.begin(), kChainOptions.end(), name) != kChainOptions.end();
    if (option->count() == 0 || is_known) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, ": an option for graphs, and ",
                                                   absl::CHexEscape(options.point.graph),
                                                   " is a chain, expected none"));
  }
  return absl::OkStatus();
}

bool IsGiven(const ScheduleOptions& options, const std::string& name) {
  return options.app->get_option(name)->count() > 0;
}

absl::Status SetCompressor(const OffloadCommandOptions& point, ChainCopies& copies) {
  if (point.compressor.has_value() != point.density.has_value()) {
    return absl::InvalidArgumentError(
        "--compressor and --density: one of them compresses nothing, expected both or none");
  }
  const absl::StatusOr<CopyCompressor> compressor = CompressorOf(point);
  if (!compressor.ok()) return compressor.status();
  copies.compressor = *compressor;
  copies.density = point.density.value_or(1);
  return absl::OkStatus();
}

absl::StatusOr<Answer> ScheduleChain(const ScheduleOptions& options) {
  if (absl::Status status = CheckChainOptions(options); !status.ok()) return status;
  absl::Status file = CheckChainFile(*options.app, options.chain, options.point, options.output);
  if (!file.ok()) return file;
  ChainCommandOptions chain = {.path = options.point.graph,
                               .choices = options.point.offload.chain,
                               .file = options.chain,
                               .json = options.point.json};
  if (IsGiven(options, "--policy")) chain.policy = options.point.policy;
  if (IsGiven(options, "--recompute") && chain.policy != "best") {
    return absl::InvalidArgumentError(absl::StrCat("--recompute: policy ",
                                                   absl::CHexEscape(chain.policy),
                                                   " has no such option, expected it with best"));
  }
  chain.choices.stop = StopAtInterrupt();
  if (absl::Status status = SetCompressor(options.point, chain.choices.copies); !status.ok()) {
    return status;
  }
  chain.choices.copies.part_bytes = options.point.offload.part_bytes;
  chain.choices.copies.latency_seconds = options.point.offload.machine.transfer_latency_seconds;
  chain.choices.recomputes = options.point.offload.recompute == "on";
  if (IsGiven(options, "--memory")) chain.memory_bytes = options.point.offload.machine.memory_bytes;
  return PrintChainSchedule(chain);
}

// Adds chains to the kinds of files that an error expects.
absl::Status OrAChain(const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrReplaceAll(status.message(), {{"expected a task graph: an object",
                                                              "expected a task graph or a chain: "
                                                              "an object"}}));
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

absl::Status WriteOutput(const ScheduleOptions& options, ScheduledGraph& scheduled) {
  if (!options.emit.language.empty()) {
    return WriteProgram(options.emit, scheduled, options.output);
  }
  const ScheduleFile file = {
      .schedule = *scheduled.schedule,
      .graph = scheduled.graph().name,
      .machine = MachineFor(scheduled),
      .batch_normalization = NormalizationOf(scheduled.graph(), *scheduled.schedule)};
  return WriteSchedule(file, options.output);
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

absl::StatusOr<Answer> MakeFrontOfGraph(const ScheduleOptions& options) {
  if (absl::Status status = CheckOutput(options); !status.ok()) return status;
  const absl::StatusOr<GraphOrFamily> graphs = ReadGraphFor(options.point.graph, options.batch);
  if (!graphs.ok()) return graphs.status();
  return PrintFront(*options.app, options.front, options.point, *graphs, options.batch,
                    options.output);
}

absl::StatusOr<Answer> MakeScheduleFile(const ScheduleOptions& options) {
  if (absl::Status status = CheckFrontOptions(*options.app, options.front, options.point);
      !status.ok()) {
    return status;
  }
  if (options.front.is_asked) return MakeFrontOfGraph(options);
  if (IsGiven(options, "--duplex")) {
    return absl::InvalidArgumentError(
        "--duplex: an option for chains, expected none for a graph, which copies in both "
        "directions at once without --one-way");
  }
  if (absl::Status status = CheckPolicyOptions(*options.app, {options.point.policy}); !status.ok())
    return status;
  if (absl::Status status = CheckOutput(options); !status.ok()) return status;
  absl::Status file = CheckChainFile(*options.app, options.chain, options.point, options.output);
  if (!file.ok()) return file;
  if (absl::Status status = CheckEmitOptions(options.emit, options.point, options.output);
      !status.ok()) {
    return status;
  }
  const absl::StatusOr<GraphOrFamily> graphs =
      options.point.schedule.empty() ? ReadGraphFor(options.point.graph, options.batch)
                                     : ReadGraphOrFamily(options.point.graph);
  if (!graphs.ok()) return OrAChain(graphs.status());
  if (absl::Status status = CheckScheduleFile(*options.app, options.point); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::vector<Schedule>> known = ReadKnown(options);
  if (!known.ok()) return known.status();
  absl::Status chain = WriteChainFile(options.chain, options.point, *graphs, options.batch);
  if (!chain.ok()) return chain;
  if (options.chain.path == "/dev/stdout") return Answer::kYes;
  OffloadCommandOptions point = options.point;
  point.offload.known = *std::move(known);
  const bool needs_addresses = !options.emit.language.empty() && point.schedule.empty();
  if (needs_addresses && !point.offload.memory_kind.has_value()) {
    point.offload.memory_kind = ScheduleMemory::kFixed;
  }
  if (EndsAtStop(point.policy)) point.offload.chain.stop = StopAtInterrupt();
  absl::StatusOr<SimulatedIteration> iteration = SimulateIteration(point, *graphs, options.batch);
  if (!iteration.ok()) return iteration.status();
  ScheduledGraph& scheduled = iteration->scheduled;
  if (!iteration->timeline.ok()) {
    return PrintDoesNotFit(options.point, scheduled, iteration->timeline.status());
  }
  if (!options.output.empty()) {
    if (absl::Status status = WriteOutput(options, scheduled); !status.ok()) return status;
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
      ->add_option("FILE", options->point.graph,
                   "The task graph, a file as `tidepool model -o` writes it; or a chain")
      ->required();
  AddWholeOption(*schedule, "--batch", options->batch, {.least = 1, .most = INT64_MAX},
                 "Samples of an iteration, for a graph at any batch");
  AddPointOptions(*schedule, options->point);
  schedule->get_option("--memory")
      ->description("Memory of the device; a chain has one of its own, a graph needs the option");
  schedule->get_option("--policy")
      ->description(absl::StrCat(PolicyHelp(),
                                 "; of a chain: ", absl::StrJoin(ChainPolicyNames(), ", "),
                                 ", without this option ", kDefaultChainPolicy));
  AddDecisionOptions(*schedule, options->point);
  schedule
      ->add_option("--known", options->known,
                   "A schedule from before, such as one for less memory: `best` is no slower. May "
                   "be given several times")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group("Policies that search");
  schedule
      ->add_flag("--duplex", options->point.offload.chain.copies.full_duplex,
                 "Copy in both directions at once for a chain, which has one transfer at a time "
                 "without the option; `best` alone takes it, and --latency")
      ->group("Machine");
  schedule
      ->add_option("-o,--output", options->output,
                   "Write the schedule to this file; compressed if the name ends in .gz")
      ->type_name("FILE");
  AddChainFileOptions(*schedule, options->chain);
  AddScheduleFileOption(*schedule, options->point);
  schedule->get_option("--schedule")
      ->description(
          "With --emit, take the schedule from this file, as `tidepool schedule -o` writes it");
  AddEmitOptions(*schedule, options->emit);
  AddFrontOptions(*schedule, options->front);
  AddScheduleJsonOption(*schedule, options->point.json);
  AddExamples(*schedule, {"tidepool model alexnet --batch 32 -o alexnet.json",
                          "tidepool schedule alexnet.json --memory 1GiB -o alexnet.schedule.json",
                          "tidepool simulate alexnet.json --schedule alexnet.schedule.json",
                          "tidepool model vgg-16 --family -o family.json",
                          ("tidepool schedule family.json --batch 64 --memory 4GiB --policy "
                           "none --sub-batch auto"),
                          ("tidepool schedule family.json --batch 64 --memory 4GiB --policy "
                           "modnn --sub-batch auto --emit cpp -o train.cc"),
                          ("tidepool schedule family.json --batch 64 --memory 4GiB --front "
                           "--time-limit 1s --svg front.svg"),
                          "tidepool schedule examples/chains/resnet-18.json --policy dynprog",
                          ("tidepool schedule alexnet.json --memory 1GiB --policy pofo --chain "
                           "alexnet.chain.json --chain-format rotor")});
  options->app = schedule;
  return {schedule, [options] {
            return IsChainFile(options->point.graph) ? ScheduleChain(*options)
                                                     : MakeScheduleFile(*options);
          }};
}

}  // namespace tidepool::tool
