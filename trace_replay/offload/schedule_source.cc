// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/schedule_source.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule_file.h"
#include "trace_replay/offload/division_options.h"
#include "trace_replay/offload/modnn_options.h"
#include "trace_replay/options.h"
#include "trace_replay/wrong_file.h"

namespace tidepool::tool {
namespace {

absl::Status AboutSchedule(const OffloadCommandOptions& options, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(absl::CHexEscape(options.schedule), ": ", what));
}

// Returns the batches of the rounds, each once, in order.
std::vector<std::int64_t> BatchesOf(const Schedule& schedule) {
  std::vector<std::int64_t> batches;
  for (const ScheduleRound& round : schedule.rounds) {
    const bool is_new = std::find(batches.begin(), batches.end(), round.batch) == batches.end();
    if (round.batch > 0 && is_new) batches.push_back(round.batch);
  }
  return batches;
}

// Returns the graphs of a family that the schedule needs, or the one graph of the file.
absl::StatusOr<std::vector<TaskGraph>> GraphsFor(const OffloadCommandOptions& options,
                                                 const Schedule& schedule, GraphOrFamily read,
                                                 std::int64_t batch) {
  std::vector<TaskGraph> graphs;
  if (auto* graph = std::get_if<TaskGraph>(&read)) {
    graphs.push_back(std::move(*graph));
    return graphs;
  }
  std::vector<std::int64_t> batches = BatchesOf(schedule);
  if (batches.empty() && batch == 0) {
    return AboutSchedule(options, "its rounds name no batch, expected --batch too");
  }
  const std::int64_t samples = SamplesOf(schedule);
  if (batches.empty()) {
    batches = {batch};
  } else if (batch != 0 && batch != samples) {
    return AboutSchedule(options,
                         absl::StrCat("an iteration of ", samples,
                                      " samples: give it as --batch, or leave --batch out"));
  }
  for (const std::int64_t one : batches) {
    absl::StatusOr<TaskGraph> graph = GraphAt(std::get<GraphFamily>(read), one);
    if (!graph.ok()) return AboutSchedule(options, std::string(graph.status().message()));
    graphs.push_back(*std::move(graph));
  }
  return graphs;
}

}  // namespace

void AddScheduleFileOption(CLI::App& app, OffloadCommandOptions& options) {
  app.add_option("--schedule", options.schedule,
                 "Take the schedule from this file, as `tidepool schedule -o` writes it, and the "
                 "machine too, unless options describe another")
      ->type_name("FILE")
      ->group("Policy");
}

absl::Status CheckScheduleFile(const CLI::App& app, const OffloadCommandOptions& options,
                               bool fixes_pages) {
  if (options.schedule.empty()) {
    if (app.count("--memory") > 0) return absl::OkStatus();
    const bool takes_file = app.get_option_no_throw("--schedule") != nullptr;
    return NoGraph(app.get_option("GRAPH")->as<std::string>(),
                   absl::InvalidArgumentError(
                       absl::StrCat("--memory is missing, expected the memory of the device",
                                    takes_file ? ", or a file with --schedule" : "")));
  }
  std::vector<const char*> names = {
      "--policy",    "--offload",   "--algorithms", "--order",       "--align", "--density",
      "--sub-batch", "--devices",   "--host-cores", "--reduction",   "--slots", "--time-limit",
      "--seed",      "--recompute", "--part",       "--host-updates"};
  const bool fixes = fixes_pages && options.choice.memory_kind == ScheduleMemory::kFixed;
  if (!fixes) names.push_back("--memory-kind");
  names.insert(names.end(), kModnnOptions.begin(), kModnnOptions.end());
  return Refuse(app, names,
                "a choice of the policy, but --schedule gives a schedule that is made already: "
                "remove one of the two");
}

absl::Status CheckScheduleOutput(const OffloadCommandOptions& options, const std::string& output) {
  absl::Status status = CheckJsonOutput(options.json, output, "file");
  if (!status.ok()) return status;
  std::error_code error;
  if (!std::filesystem::equivalent(options.graph, output, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("-o: ", absl::CHexEscape(output),
                                                 " is the graph itself, expected another file"));
}

absl::StatusOr<ScheduledGraph> ReadScheduledGraph(const OffloadCommandOptions& options,
                                                  GraphOrFamily read, std::int64_t batch) {
  if (options.choice.placing.placement == kTriesAll) {
    return absl::InvalidArgumentError(
        "--placement best: a choice for new schedules, expected a placement policy with "
        "--schedule");
  }
  absl::StatusOr<ScheduleFile> file = ReadSchedule(options.schedule);
  if (!file.ok()) return NoSchedule(options.schedule, file.status());
  absl::StatusOr<std::vector<TaskGraph>> graphs =
      GraphsFor(options, file->schedule, std::move(read), batch);
  if (!graphs.ok()) return graphs.status();
  absl::Status status = ValidateScheduleFile(*graphs, *file);
  if (!status.ok()) return status;
  if (file->schedule.memory == ScheduleMemory::kFixed) {
    // Addresses must not overlap. Whether they fit is a question to the machine.
    const std::vector<std::int64_t> unlimited(file->schedule.devices, INT64_MAX);
    status = ValidateAddresses(*graphs, file->schedule, unlimited);
    if (!status.ok()) return AboutSchedule(options, std::string(status.message()));
  }
  absl::StatusOr<PolicyChoice> choice = ChoiceOf(options, graphs->front());
  if (!choice.ok()) return choice.status();
  if (file->machine.has_value()) {
    Override(options.machine, *file->machine);
    choice->machine = *std::move(file->machine);
  }
  if (choice->machine.devices.front().memory_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::CHexEscape(options.schedule),
                     ": no memory of the device, expected --memory or a machine in the file"));
  }
  choice->machine.devices.resize(file->schedule.devices, choice->machine.devices.front());
  MadeSchedule made = {.schedule = std::move(file->schedule),
                       .graphs = *std::move(graphs),
                       .machine = choice->machine,
                       .placing = choice->placing};
  const std::int64_t samples = SamplesOf(made.schedule);
  made.batch = samples == 0 ? made.graphs.front().batch : samples;
  made.ideal_seconds = samples == 0 ? TotalsOf(made.graphs.front()).least_seconds
                                    : LeastSecondsOf(made.graphs, made.schedule);
  return ScheduledGraph{.choice = *std::move(choice),
                        .made = std::move(made),
                        .has_machine_of_file = file->machine.has_value()};
}

absl::Status FixPages(ScheduledGraph& scheduled) {
  MadeSchedule& made = scheduled.made;
  if (made.schedule.memory != ScheduleMemory::kPaged) return absl::OkStatus();
  std::vector<std::int64_t> memory_bytes;
  for (const MachineDevice& device : made.machine.devices) {
    memory_bytes.push_back(device.memory_bytes);
  }
  constexpr std::int64_t kAlignment = 512;
  absl::StatusOr<Schedule> fixed =
      FixAddresses(made.graphs, made.schedule, kAlignment, memory_bytes);
  if (!fixed.ok()) return fixed.status();
  made.schedule = *std::move(fixed);
  return absl::OkStatus();
}

}  // namespace tidepool::tool
