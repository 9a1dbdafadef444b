// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/timeline_answer.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/arithmetic.h"
#include "tidepool/training/lower_bound.h"
#include "tidepool/training/sub_batch.h"
#include "tidepool/training/timeline.h"
#include "trace_replay/offload/division_options.h"
#include "trace_replay/offload/gpu_option.h"
#include "trace_replay/offload/graph_file.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/offload/pools_tried.h"
#include "trace_replay/offload/schedule_source.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

using Reason = TimelineStall::Reason;
constexpr std::array<Reason, 3> kReasons = {Reason::kData, Reason::kMemory, Reason::kSynchronize};

double SecondsOf(const Timeline& timeline, Reason reason) {
  double seconds = 0;
  for (const TimelineStall& stall : timeline.stalls) {
    if (stall.reason == reason) seconds += stall.seconds;
  }
  return seconds;
}

// Whether the schedule takes the time of the bound, or the search for it has proved that none is
// faster.
bool IsProved(const ScheduledGraph& scheduled, double seconds, double lower_bound) {
  return scheduled.made.ended_by == EndedBy::kProof || seconds <= lower_bound * (1 + kEqualSeconds);
}

nlohmann::ordered_json RatioJson(double seconds, double lower_bound) {
  if (lower_bound > 0) return seconds / lower_bound;
  return seconds > 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(1);
}

std::string RatioTextOf(const ScheduledGraph& scheduled, double seconds, double lower_bound) {
  const bool is_proved = IsProved(scheduled, seconds, lower_bound);
  const bool is_equal = seconds <= lower_bound * (1 + kEqualSeconds);
  const std::string ratio = lower_bound > 0 ? RatioText(seconds / lower_bound) : "-";
  return absl::StrCat(is_equal ? "1.000x" : ratio,
                      is_proved ? ", proved in this order of tasks" : "");
}

// Returns a lower bound of all schedules that were asked for, if those may run tasks again and the
// schedule itself does not. The bound of its own order holds for it alone.
std::optional<double> BoundWithReruns(const OffloadCommandOptions& options,
                                      const ScheduledGraph& scheduled) {
  const Schedule& schedule = scheduled.schedule();
  const bool may_run_again = options.policy == "best" && options.schedule.empty() &&
                             scheduled.choice.recompute != "off" && schedule.rounds.empty();
  if (!may_run_again) return std::nullopt;
  Schedule twice = schedule;
  twice.steps.clear();
  for (const ScheduleStep& step : schedule.steps) {
    twice.steps.push_back(step);
    if (step.kind == StepKind::kRun) twice.steps.push_back(step);
  }
  return LowerBoundSeconds(scheduled.made.graphs, twice, scheduled.made.machine);
}

std::int64_t CountOf(const Schedule& schedule, bool compressed_alone) {
  std::int64_t count = 0;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == StepKind::kOffload && (!compressed_alone || step.density >= 0)) ++count;
  }
  return count;
}

// The peak counts aligned sizes, and a pool ends with the last byte of its last block, so the peak
// may be a few bytes larger.
double FragmentationOf(const Timeline& timeline) {
  if (timeline.pool_bytes <= timeline.peak_device_bytes) return 0;
  return 1 -
         static_cast<double>(timeline.peak_device_bytes) / static_cast<double>(timeline.pool_bytes);
}

// Returns the origin of the link's rate: an option, the schedule's file, the graph's GPU, or no
// graph tells one.
std::string LinkSource(const OffloadCommandOptions& options, const ScheduledGraph& scheduled) {
  const TaskGraph& graph = scheduled.graph();
  if (options.machine.has_no_link) return "--link none";
  if (options.machine.link.has_value()) return "--link";
  if (scheduled.has_machine_of_file) return "the schedule";
  if (graph.link_bytes_per_second == 0) return "default, PCIe 3.0 x16";
  return graph.gpu.empty() ? "the graph" : LinkText(graph.gpu);
}

const MachineLink& LinkOf(const ScheduledGraph& scheduled) {
  const Machine& machine = scheduled.made.machine;
  return machine.links[machine.devices.front().link];
}

std::int64_t FirstDeviceMemory(const ScheduledGraph& scheduled) {
  return scheduled.made.machine.devices.front().memory_bytes;
}

std::string PagesText(const Schedule& schedule) {
  if (schedule.memory != ScheduleMemory::kPaged) return "";
  return absl::StrCat(" in pages of ", SizeText(schedule.alignment));
}

std::string LinkLine(const OffloadCommandOptions& options, const ScheduledGraph& scheduled) {
  const MachineLink& link = LinkOf(scheduled);
  const double out = link.out_bytes_per_second;
  const double in = link.in_bytes_per_second;
  return absl::StrCat(
      "link ",
      out == in ? RateText(out) : absl::StrCat(RateText(out), " out, ", RateText(in), " in"), " (",
      absl::CHexEscape(LinkSource(options, scheduled)), ")");
}

nlohmann::ordered_json LinkJson(const OffloadCommandOptions& options,
                                const ScheduledGraph& scheduled) {
  const MachineLink& link = LinkOf(scheduled);
  return {{"out_bytes_per_second", link.out_bytes_per_second},
          {"in_bytes_per_second", link.in_bytes_per_second},
          {"source", LinkSource(options, scheduled)}};
}

std::int64_t RoundCount(const Schedule& schedule) {
  std::int64_t rounds = schedule.rounds.empty() ? 1 : 0;
  for (const ScheduleRound& round : schedule.rounds) rounds += round.times;
  return rounds;
}

// Returns the most samples of a round.
std::int64_t SubBatchOf(const TaskGraph& graph, const Schedule& schedule) {
  std::int64_t most = 0;
  for (const ScheduleRound& round : schedule.rounds) most = std::max(most, round.batch);
  return most == 0 ? graph.batch : most;
}

// Returns the time of tasks that run again in their round, on all devices.
double RecomputedSeconds(const std::vector<TaskGraph>& graphs, const Schedule& schedule) {
  std::vector<ScheduleRound> rounds = schedule.rounds;
  if (rounds.empty()) rounds = {{.steps = schedule.steps.size()}};
  double seconds = 0;
  for (const ScheduleRound& round : rounds) {
    std::set<std::pair<std::size_t, std::size_t>> ran;
    for (std::size_t i = 0; i < round.steps; ++i) {
      const ScheduleStep& step = schedule.steps[round.first_step + i];
      if (step.kind != StepKind::kRun || ran.emplace(step.device, step.index).second) continue;
      seconds += GraphOfRound(graphs, round).tasks[step.index].algorithms[step.algorithm].seconds *
                 static_cast<double>(round.times);
    }
  }
  return seconds;
}

// Returns the order that was taken, or the option where no schedule was found.
std::string OrderText(const OffloadCommandOptions& options, const ScheduledGraph& scheduled) {
  return scheduled.trials.empty()
             ? options.order
             : std::string(AllocationOrderName(scheduled.choice.layerwise.order));
}

// Returns ", 4 rounds of 16 samples, 2 devices", or nothing for one round on one device.
std::string DivisionText(const TaskGraph& graph, const Schedule& schedule) {
  std::string text;
  if (RoundCount(schedule) > 1) {
    text = absl::StrCat(", ", CountText(RoundCount(schedule)), " rounds of ",
                        CountText(SubBatchOf(graph, schedule)), " samples");
  }
  if (NormalizationOf(graph, schedule) == BatchNormalization::kGhost) {
    absl::StrAppend(&text, ", batch normalisation over each of them");
  }
  if (schedule.devices > 1) absl::StrAppend(&text, ", ", schedule.devices, " devices");
  const GradientReduction reduction = ReductionOf(schedule);
  if (reduction == GradientReduction::kRing) text += ", gradients added up around a ring";
  if (reduction == GradientReduction::kFirstDevice) text += ", gradients added up on the first";
  return text;
}

// The choices of a policy that makes them; null for other policies, and for a schedule of a file.
nlohmann::ordered_json BeginJson(const OffloadCommandOptions& options,
                                 const ScheduledGraph& scheduled) {
  const TaskGraph& graph = scheduled.graph();
  const bool is_made = options.schedule.empty();
  const bool is_layerwise = is_made && IsLayerwise(options.policy);
  const auto or_null = [](bool is_given, std::string choice) {
    return is_given ? nlohmann::ordered_json(std::move(choice)) : nullptr;
  };
  return {{"graph", graph.name},
          {"batch", scheduled.made.batch},
          {"tasks", graph.tasks.size()},
          {"policy", is_made ? options.policy : scheduled.schedule().policy},
          {"offload", or_null(is_made && TakesSet(options.policy), options.set)},
          {"algorithms", or_null(is_layerwise || (is_made && scheduled.choice.has_algorithms),
                                 options.algorithms)},
          {"order", or_null(is_layerwise, OrderText(options, scheduled))},
          {"memory_bytes", FirstDeviceMemory(scheduled)},
          {"placement", or_null(is_layerwise, scheduled.made.placing.placement)},
          {"gpu", graph.gpu},
          {"link", LinkJson(options, scheduled)}};
}

nlohmann::ordered_json StallsJson(const TaskGraph& graph, const Timeline& timeline) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const TimelineStall& stall : timeline.stalls) {
    json.push_back({{"task", graph.tasks[stall.task].name},
                    {"start", stall.start},
                    {"seconds", stall.seconds},
                    {"reason", StallReasonName(stall.reason)},
                    {"data", graph.data[stall.data].name}});
  }
  return json;
}

void PrintTimelineTable(const OffloadCommandOptions& options, const ScheduledGraph& scheduled,
                        const Timeline& timeline) {
  const TaskGraph& graph = scheduled.graph();
  const Schedule& schedule = scheduled.schedule();
  const double ideal = scheduled.made.ideal_seconds;
  const double lower_bound =
      LowerBoundSeconds(scheduled.made.graphs, schedule, scheduled.made.machine);
  const double stalled = SecondsOf(timeline, Reason::kData) + SecondsOf(timeline, Reason::kMemory) +
                         SecondsOf(timeline, Reason::kSynchronize);
  std::vector<std::vector<std::string>> rows = {
      {"iteration", MillisecondsText(timeline.seconds)},
      {"  ideal, all data in memory", MillisecondsText(ideal)},
      {"  slowdown", ideal > 0 ? RatioText(timeline.seconds / ideal) : "-"},
      {"  lower bound for this order of tasks", MillisecondsText(lower_bound)},
      {"    iteration by bound", RatioTextOf(scheduled, timeline.seconds, lower_bound)},
      {"computing", MillisecondsText(timeline.compute_seconds)},
      {"stalled", MillisecondsText(stalled)},
      {"  for data", MillisecondsText(SecondsOf(timeline, Reason::kData))},
      {"  for memory", MillisecondsText(SecondsOf(timeline, Reason::kMemory))},
      {"  for copies at the end of a layer",
       MillisecondsText(SecondsOf(timeline, Reason::kSynchronize))},
      {absl::StrCat("copied to the host, ", CountOf(schedule, false), " buffers"),
       SizeText(timeline.bytes_out)},
      {"  compressed", CountText(CountOf(schedule, true))},
      {"  kept on the device, host memory full", CountText(timeline.stayed)},
      {"copied to the device", SizeText(timeline.bytes_in)},
      {"peak on the device", SizeText(timeline.peak_device_bytes)},
      {"peak on the host", SizeText(timeline.peak_host_bytes)},
      {"pool", SizeText(timeline.pool_bytes)},
      {"  fragmentation", absl::StrFormat("%.1f %%", FragmentationOf(timeline) * 100)}};
  if (const std::optional<double> bound = BoundWithReruns(options, scheduled); bound.has_value()) {
    constexpr std::ptrdiff_t kAfterTheBound = 5;
    rows.insert(rows.begin() + kAfterTheBound,
                {"  lower bound where tasks run again", MillisecondsText(*bound)});
  }
  const std::string early_end = IsProved(scheduled, timeline.seconds, lower_bound)
                                    ? ""
                                    : EarlyEndText(scheduled.made.ended_by);
  std::cout << absl::CHexEscape(graph.name) << "\n  " << KnownBatchText(scheduled.made.batch)
            << CountText(static_cast<std::int64_t>(graph.tasks.size())) << " tasks, "
            << absl::CHexEscape(schedule.policy) << DivisionText(graph, schedule) << ", "
            << "memory " << SizeText(FirstDeviceMemory(scheduled)) << PagesText(schedule) << ",\n  "
            << LinkLine(options, scheduled)
            << (early_end.empty() ? "" : absl::StrCat(",\n  ", early_end)) << "\n\n"
            << TableText(rows);
}

void PrintLongestStalls(const TaskGraph& graph, const Timeline& timeline) {
  constexpr std::size_t kMost = 5;
  std::vector<TimelineStall> stalls = timeline.stalls;
  std::stable_sort(
      stalls.begin(), stalls.end(),
      [](const TimelineStall& a, const TimelineStall& b) { return a.seconds > b.seconds; });
  if (stalls.empty()) return;
  if (stalls.size() > kMost) stalls.resize(kMost);
  std::vector<std::vector<std::string>> rows = {{"longest stalls", "time", "for", ""}};
  for (const TimelineStall& stall : stalls) {
    rows.push_back({absl::CHexEscape(graph.tasks[stall.task].name), MillisecondsText(stall.seconds),
                    std::string(StallReasonName(stall.reason)),
                    absl::CHexEscape(graph.data[stall.data].name)});
  }
  std::cout << '\n' << TableText(rows);
}

// Returns null for a schedule of a file, which no search has made.
nlohmann::ordered_json EndedByJson(const OffloadCommandOptions& options,
                                   const ScheduledGraph& scheduled, bool is_proved) {
  if (!options.schedule.empty()) return nullptr;
  return EndedByName(is_proved ? EndedBy::kProof : scheduled.made.ended_by);
}

bool HasConvolutions(const TaskGraph& graph) {
  return std::any_of(graph.tasks.begin(), graph.tasks.end(),
                     [](const GraphTask& task) { return task.operation == "conv"; });
}

// Returns the cure for an iteration that does not fit; "" where none is known.
std::string Advice(const OffloadCommandOptions& options, const ScheduledGraph& scheduled) {
  if (!scheduled.fits.ok() || CountOf(scheduled.schedule(), false) > 0) return "";
  if (IsLayerwise(options.policy) && !TakesSet(options.policy)) {
    return absl::StrCat("nothing was offloaded: --policy ", options.policy,
                        "; try --policy vdnn++ --offload dynamic");
  }
  if (HasConvolutions(scheduled.graph())) return "";
  return "nothing was offloaded: this graph has no convolutions; try --offload all";
}

}  // namespace

std::string EarlyEndText(EndedBy ended_by) {
  if (ended_by == EndedBy::kInterrupt) return "the best before the interrupt";
  return ended_by == EndedBy::kClock ? "the best within the time limit" : "";
}

BatchNormalization NormalizationOf(const TaskGraph& graph, const Schedule& schedule) {
  if (!NormalizesOverBatch(graph)) return BatchNormalization::kUnknown;
  return RoundCount(schedule) > 1 ? BatchNormalization::kGhost : BatchNormalization::kBatch;
}

nlohmann::ordered_json NormalizationJson(const TaskGraph& graph, const Schedule& schedule) {
  const BatchNormalization normalization = NormalizationOf(graph, schedule);
  if (normalization == BatchNormalization::kUnknown) return nullptr;
  return BatchNormalizationName(normalization);
}

nlohmann::ordered_json TimelineAnswerJson(const OffloadCommandOptions& options,
                                          const ScheduledGraph& scheduled, const Timeline& timeline,
                                          const nlohmann::ordered_json& more) {
  const TaskGraph& graph = scheduled.graph();
  const Schedule& schedule = scheduled.schedule();
  const double ideal = scheduled.made.ideal_seconds;
  nlohmann::ordered_json json = BeginJson(options, scheduled);
  json["fits"] = true;
  json["schedule"] = schedule.policy;
  json["memory_kind"] = ScheduleMemoryName(schedule.memory);
  json["seconds"] = timeline.seconds;
  json["ideal_seconds"] = ideal;
  const double lower_bound =
      LowerBoundSeconds(scheduled.made.graphs, schedule, scheduled.made.machine);
  json["lower_bound_seconds"] = lower_bound;
  const std::optional<double> bound_with_reruns = BoundWithReruns(options, scheduled);
  json["rerun_lower_bound_seconds"] =
      bound_with_reruns.has_value() ? nlohmann::ordered_json(*bound_with_reruns) : nullptr;
  json["ratio"] = RatioJson(timeline.seconds, lower_bound);
  const bool is_proved = IsProved(scheduled, timeline.seconds, lower_bound);
  json["proved"] = is_proved;
  json["interrupted"] = scheduled.made.ended_by == EndedBy::kInterrupt;
  json["ended_by"] = EndedByJson(options, scheduled, is_proved);
  json["overhead"] = ideal > 0 ? timeline.seconds / ideal : 1;
  json["compute_seconds"] = timeline.compute_seconds;
  json["recomputed_seconds"] = RecomputedSeconds(scheduled.made.graphs, schedule);
  json["sub_batch"] = SubBatchOf(graph, schedule);
  json["rounds"] = RoundCount(schedule);
  json["batch_normalization"] = NormalizationJson(graph, schedule);
  json["devices"] = schedule.devices;
  if (schedule.devices > 1) json["reduction"] = GradientReductionName(ReductionOf(schedule));
  for (const Reason reason : kReasons) {
    json["stall_seconds"][std::string(StallReasonName(reason))] = SecondsOf(timeline, reason);
  }
  json["stalls"] = StallsJson(graph, timeline);
  json["offloads"] = CountOf(schedule, false);
  json["compressed"] = CountOf(schedule, true);
  json["stayed"] = timeline.stayed;
  json["bytes_out"] = timeline.bytes_out;
  json["bytes_in"] = timeline.bytes_in;
  if (schedule.devices > 1) json["bytes_received"] = timeline.bytes_received;
  json["peak_device_bytes"] = timeline.peak_device_bytes;
  json["peak_host_bytes"] = timeline.peak_host_bytes;
  json["pool_bytes"] = timeline.pool_bytes;
  json["fragmentation"] = FragmentationOf(timeline);
  if (!scheduled.trials.empty()) json["pools_tried"] = TrialsJson(scheduled.trials);
  json.update(more);
  return json;
}

nlohmann::ordered_json DoesNotFitJson(const OffloadCommandOptions& options,
                                      const ScheduledGraph& scheduled, const absl::Status& why) {
  nlohmann::ordered_json json = BeginJson(options, scheduled);
  json["fits"] = false;
  json["why"] = std::string(why.message());
  for (const char* key : {"schedule",
                          "memory_kind",
                          "seconds",
                          "lower_bound_seconds",
                          "rerun_lower_bound_seconds",
                          "ratio",
                          "overhead",
                          "compute_seconds",
                          "recomputed_seconds",
                          "sub_batch",
                          "rounds",
                          "batch_normalization",
                          "devices",
                          "stall_seconds",
                          "stalls",
                          "offloads",
                          "compressed",
                          "stayed",
                          "bytes_out",
                          "bytes_in",
                          "peak_device_bytes",
                          "peak_host_bytes",
                          "pool_bytes",
                          "fragmentation"}) {
    json[key] = nullptr;
  }
  json["ideal_seconds"] = scheduled.made.ideal_seconds;
  json["proved"] = false;
  json["interrupted"] = scheduled.made.ended_by == EndedBy::kInterrupt;
  json["ended_by"] = EndedByJson(options, scheduled, /*is_proved=*/false);
  const std::string advice = Advice(options, scheduled);
  if (!advice.empty()) json["advice"] = advice;
  return json;
}

Answer PrintDoesNotFit(const OffloadCommandOptions& options, const ScheduledGraph& scheduled,
                       const absl::Status& why) {
  if (options.json) {
    PrintJson(DoesNotFitJson(options, scheduled, why));
    return Answer::kNo;
  }
  std::cout << absl::CHexEscape(scheduled.graph().name) << "\n  does not fit in "
            << SizeText(FirstDeviceMemory(scheduled)) << ": " << why.message() << '\n';
  const std::string advice = Advice(options, scheduled);
  if (!advice.empty()) std::cout << "  " << advice << '\n';
  return Answer::kNo;
}

absl::StatusOr<Answer> PrintTimeline(const OffloadCommandOptions& options,
                                     const ScheduledGraph& scheduled, const Timeline& timeline,
                                     const nlohmann::ordered_json& more) {
  if (!options.timeline.empty()) {
    if (absl::Status status = WriteTimeline(scheduled.graph(), timeline, options.timeline);
        !status.ok()) {
      return status;
    }
    if (options.timeline == "/dev/stdout") return Answer::kYes;
  }
  if (options.json) {
    PrintJson(TimelineAnswerJson(options, scheduled, timeline, more));
  } else {
    PrintTimelineTable(options, scheduled, timeline);
    PrintLongestStalls(scheduled.graph(), timeline);
    if (!scheduled.trials.empty()) std::cout << '\n' << TrialsText(scheduled);
  }
  return Answer::kYes;
}

}  // namespace tidepool::tool
