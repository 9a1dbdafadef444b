// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/division_options.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/training/graph/least_seconds.h"
#include "trace_replay/options.h"

namespace tidepool::tool {
namespace {

constexpr char kDivision[] = "Division of the batch";
constexpr char kMoreOfDivision[] = "More: division of the batch";

std::int64_t ParseSubBatch(const std::string& text) {
  std::int64_t samples = 0;
  if (text == "auto") return kLargestSubBatch;
  if (absl::SimpleAtoi(text, &samples) && samples >= 1 && samples <= kMostBatch) return samples;
  throw CLI::ValidationError("--sub-batch",
                             absl::StrCat("'", absl::CHexEscape(text), "', expected auto, or 1 to ",
                                          kMostBatch, " samples"));
}

GradientReduction ParseReduction(const std::string& text) {
  for (const GradientReduction reduction :
       {GradientReduction::kAutomatic, GradientReduction::kHost, GradientReduction::kFirstDevice,
        GradientReduction::kRing}) {
    if (text == GradientReductionName(reduction)) return reduction;
  }
  throw CLI::ValidationError("--reduction", absl::StrCat("'", absl::CHexEscape(text),
                                                         "', expected auto, cpu, gpu0 or ring"));
}

}  // namespace

void AddDivisionOptions(CLI::App& app, OffloadCommandOptions& options) {
  app.add_option_function<std::string>(
         "--sub-batch",
         [&options](const std::string& text) { options.sub_batch = ParseSubBatch(text); },
         "Run the batch of a graph at any batch in rounds of N samples; auto: of the most "
         "samples that fit")
      ->type_name("auto|N")
      ->group(kDivision);
  AddWholeOption(app, "--devices", options.devices,
                 {.least = 1, .most = static_cast<int>(kMostMachineDevices)},
                 "Divide the batch into equal parts for N devices on one link")
      ->group(kDivision);
  app.add_flag(
         "--host-updates", options.host_updates,
         "Let the host update the weights of one device too: with --weights host of `tidepool "
         "model`, state of the optimizer stays there")
      ->group(kMoreOfDivision);
  AddWholeOption(app, "--host-cores", options.host_cores,
                 {.least = 1, .most = static_cast<int>(kMostHostCores)},
                 "Cores of the host for updates")
      ->group(kMoreOfDivision);
  AddRateOption(
      app, "--peer-bandwidth", options.machine.peers,
      "Rate at which each device receives from another one, such as 50GB/s; none: devices "
      "reach each other through the host")
      ->group(kMoreOfDivision);
  app.add_flag("--peer-bus", options.machine.has_peer_bus,
               "All devices share that rate, as on one bus")
      ->group(kMoreOfDivision);
  app.add_option_function<std::string>(
         "--reduction",
         [&options](const std::string& text) { options.reduction = ParseReduction(text); },
         "Where the gradients of several devices are added up: on the host, which updates the "
         "weights (cpu); on the first device, which sends the weights on (gpu0); around a ring of "
         "devices, which all update them (ring); auto: the fastest of them by a simulation where "
         "--peer-bandwidth is given, and cpu elsewhere")
      ->type_name("auto|cpu|gpu0|ring")
      ->group(kMoreOfDivision);
}

absl::Status CheckDivisionOptions(const CLI::App& app, const OffloadCommandOptions& options) {
  if (!options.machine.peers.has_value()) {
    absl::Status status = Refuse(app, {"--peer-bus"},
                                 "devices reach each other through the host, expected the rate of "
                                 "the bus with --peer-bandwidth");
    if (!status.ok()) return status;
  }
  if (options.devices > 1) return absl::OkStatus();
  absl::Status status = Refuse(app, {"--reduction", "--peer-bandwidth"},
                               "there is one device, expected several with --devices");
  if (!status.ok() || options.host_updates) return status;
  return Refuse(app, {"--host-cores"},
                "the host updates no weights, expected --host-updates, or several --devices");
}

bool DividesBatch(const OffloadCommandOptions& options) {
  return options.sub_batch != kWholeBatch || options.devices > 1 || options.host_updates;
}

absl::StatusOr<ScheduledGraph> MakeDividedGraph(const OffloadCommandOptions& options,
                                                const GraphFamily& family, std::int64_t batch) {
  absl::StatusOr<PolicyChoice> choice = ChoiceOf(options, family.graph);
  if (!choice.ok()) return choice.status();
  ScheduleRequest request = RequestOf(options.policy, *choice);
  request.batch = batch;
  request.sub_batch = options.sub_batch;
  request.devices = static_cast<std::size_t>(options.devices);
  request.host_updates = options.host_updates;
  request.reduction = options.reduction;
  absl::StatusOr<MadeSchedule> made = MakeSchedule(options.policy, family, request);
  const absl::StatusOr<TaskGraph> whole = GraphAt(family, batch / options.devices);
  absl::StatusOr<ScheduledGraph> scheduled =
      Answered(std::move(made), whole.ok() ? *whole : family.graph, *std::move(choice));
  if (scheduled.ok()) scheduled->made.batch = batch;
  return scheduled;
}

const TaskGraph& GraphOfRound(const std::vector<TaskGraph>& graphs, const ScheduleRound& round) {
  const auto found = std::find_if(graphs.begin(), graphs.end(), [&](const TaskGraph& graph) {
    return graph.batch == round.batch;
  });
  return round.batch == 0 || found == graphs.end() ? graphs.front() : *found;
}

double LeastSecondsOf(const std::vector<TaskGraph>& graphs, const Schedule& schedule) {
  std::vector<ScheduleRound> rounds = schedule.rounds;
  if (rounds.empty()) rounds = {ScheduleRound()};
  const bool updates_on_host =
      std::any_of(schedule.steps.begin(), schedule.steps.end(),
                  [](const ScheduleStep& step) { return step.device == kHostDevice; });
  double seconds = 0;
  for (const ScheduleRound& round : rounds) {
    const bool is_last = &round == &rounds.back();
    for (const GraphTask& task : GraphOfRound(graphs, round).tasks) {
      const bool is_update = task.phase == TaskPhase::kUpdate;
      if (is_update && (!is_last || updates_on_host)) continue;
      seconds += graph::LeastSeconds(task) * static_cast<double>(is_update ? 1 : round.times);
    }
  }
  return seconds;
}

GradientReduction ReductionOf(const Schedule& schedule) {
  GradientReduction reduction = GradientReduction::kHost;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind != StepKind::kAdd) continue;
    if (step.device != 0) return GradientReduction::kRing;
    reduction = GradientReduction::kFirstDevice;
  }
  return reduction;
}

std::int64_t SamplesOf(const Schedule& schedule) {
  std::int64_t samples = 0;
  for (const ScheduleRound& round : schedule.rounds) samples += round.times * round.batch;
  return samples * static_cast<std::int64_t>(schedule.devices);
}

}  // namespace tidepool::tool
