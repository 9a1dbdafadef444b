// SPDX-License-Identifier: Apache-2.0
// The command `replay`: serves a trace from a pool of a given size, by placement alone or on a
// device.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/plan_answer.h"
#include "trace_replay/commands/planned.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/options.h"
#include "trace_replay/replay/device_replay.h"
#include "trace_replay/replay/learning.h"
#include "trace_replay/replay/live_replay.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct ReplayCommandOptions {
  std::string trace;
  std::string policy = "best-fit";
  std::string pytorch_settings;
  std::string device = "none";
  std::int64_t pool_bytes = -1;  // -1: the height of the plan
  std::string plan;              // a file; empty: the trace is planned
  bool learn = false;            // the pool makes its own plans
  double time_limit_seconds = 10;
  std::int64_t initial_bytes = -1;  // -1: all of the pool
  std::string memory = "auto";
  double growth = PoolOptions().growth;
  bool remap = false;
  std::int64_t alignment = 0;
  std::string recording;
  ReadOptions read;
  bool verify = false;
  bool offsets = false;
  bool json = false;
};

struct TimedReplay {
  ReplayResult result;
  double seconds = 0;
  std::optional<LiveReplay> live;       // its placement is moved to `result`
  std::optional<PlannedCounts> counts;  // of a policy that needs a plan
};

absl::StatusOr<PoolMemory> MemoryOf(const std::string& name) {
  if (name == "auto") return PoolMemory::kAutomatic;
  if (name == "virtual") return PoolMemory::kVirtual;
  if (name == "segments") return PoolMemory::kSegments;
  return absl::InvalidArgumentError(
      absl::StrCat("--memory: '", absl::CHexEscape(name), "', expected auto, virtual or segments"));
}

// `planned`: null for a policy that needs no plan.
absl::StatusOr<TimedReplay> ReplayByPlacement(const ReplayCommandOptions& options,
                                              const MeasuredTrace& measured,
                                              const PlannedTrace* planned) {
  std::unique_ptr<PlacementPolicy> policy;
  const PlannedPlacement* counting = nullptr;
  if (planned == nullptr) {
    policy = MakePlacementPolicy(options.policy).value();
  } else {
    std::unique_ptr<PlannedPlacement> made = PlannedPlacement::Create({planned->placement});
    counting = made.get();
    policy = std::move(made);
  }
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<ReplayResult> result = Replay(measured.trace, *policy,
                                               {.pool_bytes = options.pool_bytes,
                                                .alignment = measured.alignment,
                                                .keep_offsets = options.offsets});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!result.ok()) return AboutFile(options.trace, result.status());
  TimedReplay replay{*std::move(result), elapsed.count(), std::nullopt, std::nullopt};
  if (counting != nullptr) replay.counts = counting->counts();
  return replay;
}

absl::StatusOr<TimedReplay> ReplayFromPool(const ReplayCommandOptions& options,
                                           const MeasuredTrace& measured,
                                           const PlannedTrace* planned) {
  const std::int64_t pool_bytes = options.pool_bytes & -measured.alignment;
  const std::int64_t wanted = options.initial_bytes < 0 ? pool_bytes : options.initial_bytes;
  absl::StatusOr<LiveReplay> live =
      ReplayOnDevice(measured, {.device = options.device,
                                .trace = options.trace,
                                .policy = options.policy,
                                .plan = planned == nullptr ? nullptr : planned->placement,
                                .pool_bytes = options.pool_bytes,
                                .initial_bytes = std::min(wanted, pool_bytes),
                                .memory = *MemoryOf(options.memory),
                                .growth = options.growth,
                                .remap = options.remap,
                                .verify = options.verify,
                                .recording = options.recording});
  if (!live.ok()) return live.status();
  TimedReplay replay{std::move(live->placement), live->seconds, std::nullopt, std::nullopt};
  if (planned != nullptr) replay.counts = {live->pool.planned, live->pool.deviations};
  replay.live = *std::move(live);
  return replay;
}

nlohmann::ordered_json LatencyJson(const std::optional<LatencySummary>& latency) {
  if (!latency.has_value()) return nullptr;
  return {{"median", latency->median_ns}, {"p99", latency->p99_ns}};
}

void AddLiveJson(const ReplayCommandOptions& options, const LiveReplay& live,
                 nlohmann::ordered_json& json) {
  json["peak_reserved_bytes"] = live.pool.peak_reserved_bytes;
  json["growths"] = live.pool.growths;
  json["remaps"] = live.pool.remaps;
  json["stream_waits"] = live.pool.stream_waits;
  json["event_records"] = live.pool.event_records;
  json["allocate_ns"] = LatencyJson(live.allocate);
  json["free_ns"] = LatencyJson(live.free);
  json["pair_ns"] = LatencyJson(live.pair);
  if (options.verify) json["verified"] = true;  // damage is an error
}

nlohmann::ordered_json LearnedJson(const PoolStats& pool, const std::string& why_no_plans) {
  nlohmann::ordered_json json = {{"plans", pool.plans},
                                 {"planned", pool.planned},
                                 {"deviations", pool.deviations},
                                 {"iterations", pool.iterations},
                                 {"why_no_plans", nullptr}};
  if (!why_no_plans.empty()) json["why_no_plans"] = why_no_plans;
  return json;
}

std::string ReasonOf(const MeasuredTrace& measured, const TimedReplay& replay) {
  return WhyNoPlans(replay.live->pool, measured.trace, measured.alignment);
}

nlohmann::ordered_json PlannedJson(const PlannedTrace& planned, const PlannedCounts& counts) {
  nlohmann::ordered_json json = {{"plan_bytes", planned.placement->height_bytes()},
                                 {"lower_bound_bytes", planned.lower_bound_bytes},
                                 {"optimal", nullptr},
                                 {"seconds", nullptr},
                                 {"interrupted", planned.interrupted},
                                 {"planned", counts.planned},
                                 {"deviations", counts.deviations},
                                 {"streams_wait", nullptr}};
  if (planned.streams_wait.has_value()) json["streams_wait"] = *planned.streams_wait;
  if (planned.optimal.has_value()) json["optimal"] = *planned.optimal;
  if (planned.seconds.has_value()) json["seconds"] = *planned.seconds;
  return json;
}

void PrintReplayJson(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                     const PlannedTrace* planned, const TimedReplay& replay) {
  const ReplayResult& result = replay.result;
  nlohmann::ordered_json json = {
      {"trace", TraceJson(measured)},
      {"policy", options.policy},
      {"device", options.device},
      {"pool_bytes", options.pool_bytes & -measured.alignment},
      {"served", result.refused == 0},
      {"refused", result.refused},
      {"high_water_bytes", result.high_water_bytes},
      {"peak_live_bytes", result.peak_live_bytes},
      {"seconds", replay.seconds},
      {"nanoseconds_per_event",
       replay.seconds * 1e9 / static_cast<double>(measured.trace.events.size())}};
  if (planned != nullptr) json["planned"] = PlannedJson(*planned, *replay.counts);
  if (options.learn) json["planned"] = LearnedJson(replay.live->pool, ReasonOf(measured, replay));
  if (replay.live.has_value()) AddLiveJson(options, *replay.live, json);
  if (result.refused > 0) {
    json["first_refused"] = {{"event", RecordedEvent(measured, result.first_refused_event)},
                             {"bytes", result.first_refused_bytes},
                             {"largest_free_bytes", result.largest_free_bytes}};
  }
  if (options.offsets) json["offsets"] = OfRecorded(measured, result.offsets);
  PrintJson(json);
}

std::vector<std::vector<std::string>> LiveRows(const ReplayCommandOptions& options,
                                               const LiveReplay& live) {
  std::vector<std::vector<std::string>> rows = {
      {"peak live", SizeText(live.pool.peak_live_bytes)},
      {"peak reserved", SizeText(live.pool.peak_reserved_bytes)},
      {"growths", CountText(live.pool.growths)},
      {"remaps", CountText(live.pool.remaps)},
      {"stream waits", CountText(live.pool.stream_waits)},
      {"event records", CountText(live.pool.event_records)}};
  if (options.verify) rows.push_back({"contents", "intact"});
  return rows;
}

std::vector<std::string> LatencyRow(const std::string& name,
                                    const std::optional<LatencySummary>& latency) {
  if (!latency.has_value()) return {name, "-", "-"};
  return {name, CountText(latency->median_ns), CountText(latency->p99_ns)};
}

void PrintLatencies(const LiveReplay& live) {
  std::cout << '\n'
            << TableText({{"latency in ns, with clock", "median", "p99"},
                          LatencyRow("allocate", live.allocate),
                          LatencyRow("free", live.free),
                          LatencyRow("allocate + free", live.pair)});
}

std::vector<std::vector<std::string>> PlannedRows(const PlannedTrace& planned,
                                                  const PlannedCounts& counts) {
  std::vector<std::vector<std::string>> rows = {
      {"plan", SizeText(planned.placement->height_bytes())},
      {"  smallest possible",
       planned.optimal.value_or(false)
           ? "yes"
           : absl::StrCat("unknown, at least ", SizeText(planned.lower_bound_bytes))}};
  if (planned.streams_wait.has_value()) {
    rows.push_back({"  streams wait in it", *planned.streams_wait ? "yes" : "no"});
  }
  rows.push_back({"as planned", CountText(counts.planned)});
  rows.push_back({"deviations", CountText(counts.deviations)});
  return rows;
}

std::vector<std::vector<std::string>> LearnedRows(const PoolStats& pool) {
  return {{"iterations seen", CountText(pool.iterations)},
          {"plans made", CountText(pool.plans)},
          {"as planned", CountText(pool.planned)},
          {"deviations", CountText(pool.deviations)}};
}

void PrintWhyNoPlans(const std::string& reason) {
  if (!reason.empty()) std::cout << "\n  no plan: " << reason << "\n";
}

void PrintReplayTable(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                      const PlannedTrace* planned, const TimedReplay& replay) {
  const ReplayResult& result = replay.result;
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = {
      {"policy", options.policy},
      {"device", options.device},
      {"pool", SizeText(options.pool_bytes & -measured.alignment)},
      {"served", result.refused == 0 ? "all" : absl::StrCat("all but ", CountText(result.refused))},
      {"high-water mark", SizeText(result.high_water_bytes)},
      {"time", absl::StrCat(static_cast<std::int64_t>(replay.seconds * 1e6), " us")}};
  if (result.refused > 0) {
    rows.push_back(
        {"first refused at event", CountText(RecordedEvent(measured, result.first_refused_event))});
    rows.push_back({"  requested", SizeText(result.first_refused_bytes)});
    rows.push_back({"  largest free block", SizeText(result.largest_free_bytes)});
  }
  const auto append = [&](const std::vector<std::vector<std::string>>& more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  if (planned != nullptr) append(PlannedRows(*planned, *replay.counts));
  if (options.learn) append(LearnedRows(replay.live->pool));
  if (replay.live.has_value()) append(LiveRows(options, *replay.live));
  std::cout << TableText(rows);
  if (options.learn) PrintWhyNoPlans(ReasonOf(measured, replay));
  if (replay.live.has_value()) PrintLatencies(*replay.live);
  if (!options.offsets) return;
  std::cout << '\n';
  for (std::size_t i = 0; i < result.offsets.size(); ++i) {
    std::cout << absl::CHexEscape(std::string(measured.trace.allocation_ids[i])) << ' '
              << result.offsets[i] << '\n';
  }
}

// Returns the first given option that only applies to a pool on a device; empty without one.
std::string OptionOfDevices(const ReplayCommandOptions& options) {
  if (options.verify) return "--verify";
  if (!options.recording.empty()) return "--record";
  if (options.learn) return "--learn";
  if (options.initial_bytes >= 0) return "--initial";
  if (options.remap) return "--remap";
  if (options.memory != "auto") return "--memory";
  return options.growth != PoolOptions().growth ? "--growth" : "";
}

absl::Status CheckPlanOptions(const ReplayCommandOptions& options) {
  if (options.learn && (!NeedsPlan(options.policy) || !options.plan.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--learn: the pool makes its own plans, expected --policy ",
                     NamesThatNeedPlans(), " and no --plan"));
  }
  if (NeedsPlan(options.policy) && (!options.learn || options.pool_bytes >= 0)) {
    return absl::OkStatus();
  }
  if (!options.plan.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--plan: policy ", absl::CHexEscape(options.policy),
                     " follows no plan, expected --policy ", NamesThatNeedPlans()));
  }
  if (options.pool_bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("replay: --pool is missing, expected a size, or --policy ", NamesThatNeedPlans(),
                   " without --learn, which takes the height of its plan"));
}

absl::Status CheckOptions(const ReplayCommandOptions& options) {
  if (options.device != "none" && options.device != "host" && options.device != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("--device: '", absl::CHexEscape(options.device),
                                                   "', expected none, host or cuda"));
  }
  if (options.device == "cuda" && options.verify) {
    return absl::InvalidArgumentError(
        "--verify: the host cannot look into the memory of a GPU, expected --device host");
  }
  if (absl::Status status = CheckPlanOptions(options); !status.ok()) return status;
  if (absl::Status status = MemoryOf(options.memory).status(); !status.ok()) return status;
  if (absl::Status status = CheckPyTorchSettings(options.pytorch_settings, {options.policy});
      !status.ok()) {
    return status;
  }
  const std::string option = OptionOfDevices(options);
  if (options.device == "none" && !option.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": --device none is placement alone, expected --device host"));
  }
  return absl::OkStatus();
}

// Returns a plan that fits into the pool because streams wait; no value without such a plan.
std::optional<PlannedTrace> PlannedWithWaits(const ReplayCommandOptions& options,
                                             const MeasuredTrace& measured) {
  const absl::StatusOr<Plan> plan =
      PlanTrace(measured, StreamWaits::kAllowed, options.pool_bytes, options.time_limit_seconds);
  if (!plan.ok() || plan->height > options.pool_bytes) return std::nullopt;
  PlannedTrace planned = ToPlanned(measured, *plan);
  planned.streams_wait = true;
  return planned;
}

absl::StatusOr<PlannedTrace> PlannedOf(const ReplayCommandOptions& options,
                                       const MeasuredTrace& measured) {
  if (!options.plan.empty()) return ReadPlanned(options.plan, measured);
  const absl::StatusOr<Plan> plan =
      PlanTrace(measured, StreamWaits::kNone, std::nullopt, options.time_limit_seconds);
  if (!plan.ok()) return AboutFile(options.trace, plan.status());
  PlannedTrace planned = ToPlanned(measured, *plan);
  const absl::StatusOr<PlanProblem> problem = ProblemOf(measured, StreamWaits::kNone);
  if (!problem.ok() || !HasOrderedStreams(*problem)) return planned;
  planned.streams_wait = false;
  if (options.pool_bytes < 0 || plan->height <= options.pool_bytes) return planned;
  return PlannedWithWaits(options, measured).value_or(planned);
}

// Checks options that depend on the size of the pool.
absl::Status CheckPool(const ReplayCommandOptions& options, const PlannedTrace* planned) {
  if (options.initial_bytes > options.pool_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--initial: ", ExactSizeText(options.initial_bytes),
                     ", expected at most the pool, ", ExactSizeText(options.pool_bytes)));
  }
  if (planned == nullptr || options.device == "none") return absl::OkStatus();
  const std::int64_t height = planned->placement->height_bytes();
  if (options.pool_bytes >= height) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--pool: ", ExactSizeText(options.pool_bytes), ", expected at least the plan's height, ",
      ExactSizeText(height), ", for a pool on a device"));
}

// Checks options for PyTorch's allocator, which has segments of a device instead of a pool.
absl::Status CheckPyTorch(const ReplayCommandOptions& options) {
  if (options.device != "none") {
    return absl::InvalidArgumentError(absl::StrCat("--device: ", options.device,
                                                   " serves pools, and policy ", options.policy,
                                                   " models PyTorch's allocator, expected none"));
  }
  const std::string refused = options.offsets         ? "--offsets"
                              : options.alignment > 0 ? "--align"
                                                      : "";
  if (refused.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(refused, ": policy ", options.policy,
                   " has segments and sizes of its own, expected a placement policy"));
}

absl::StatusOr<Answer> RunPyTorch(const ReplayCommandOptions& options) {
  if (absl::Status status = CheckPyTorch(options); !status.ok()) return status;
  const absl::StatusOr<MeasuredTrace> measured =
      ReadRequests(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  return ReplayPyTorch({.trace = options.trace,
                        .policy = options.policy,
                        .pool_bytes = options.pool_bytes,
                        .settings = options.pytorch_settings,
                        .json = options.json},
                       *measured);
}

absl::StatusOr<Answer> RunReplay(ReplayCommandOptions options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (IsPyTorchPolicy(options.policy)) return RunPyTorch(options);
  if (absl::Status status = MakePlacementPolicy(options.policy).status(); !status.ok()) {
    return status;
  }
  const absl::StatusOr<MeasuredTrace> measured =
      ReadRequests(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  std::optional<PlannedTrace> made;
  if (NeedsPlan(options.policy) && !options.learn) {
    absl::StatusOr<PlannedTrace> planned = PlannedOf(options, *measured);
    if (!planned.ok()) return planned.status();
    made = *std::move(planned);
    if (options.pool_bytes < 0) options.pool_bytes = made->placement->height_bytes();
  }
  const PlannedTrace* const planned = made.has_value() ? &*made : nullptr;
  if (absl::Status status = CheckPool(options, planned); !status.ok()) return status;
  const absl::StatusOr<TimedReplay> replay = options.device == "none"
                                                 ? ReplayByPlacement(options, *measured, planned)
                                                 : ReplayFromPool(options, *measured, planned);
  if (!replay.ok()) return replay.status();
  if (options.json) {
    PrintReplayJson(options, *measured, planned, *replay);
  } else {
    PrintReplayTable(options, *measured, planned, *replay);
  }
  return replay->result.refused == 0 ? Answer::kYes : Answer::kNo;
}

void AddPlacementOptions(CLI::App& app, ReplayCommandOptions& options) {
  AddSizeOption(app, "--pool", options.pool_bytes,
                "Size of the pool (default with --policy planned: the height of the plan)");
  app.add_option("--policy", options.policy,
                 "Placement policy; or pytorch or pytorch-expandable, PyTorch's own allocator on a "
                 "device of that memory, with --device none")
      ->type_name("NAME")
      ->capture_default_str();
  AddPyTorchSettingsOption(app, options.pytorch_settings);
}

void AddPlanOptions(CLI::App& app, ReplayCommandOptions& options) {
  const std::string group = "With --policy planned";
  app.add_option("--plan", options.plan,
                 "Follow the plan in this file, from `tidepool plan -o` (default: plan the trace "
                 "first)")
      ->type_name("FILE")
      ->group(group);
  AddTimeLimitOption(app, options.time_limit_seconds,
                     "Stop the search for a plan after this time with the best plan so far")
      ->group(group);
  app.add_flag("--learn", options.learn,
               "Let the pool plan iterations that it sees while the trace runs, instead of the "
               "whole trace: marks named `iteration`, or repeated requests; not with --device none")
      ->group(group);
}

void AddPoolMemoryOptions(CLI::App& app, ReplayCommandOptions& options, const std::string& group) {
  AddSizeOption(app, "--initial", options.initial_bytes,
                "Memory that the pool reserves at the start (default: all of --pool)")
      ->group(group);
  AddNumberOption(app, "--growth", options.growth, {.least = 0, .most = 1},
                  "Grow by at least this part of the pool's size")
      ->group(group);
  app.add_option("--memory", options.memory,
                 "virtual: one range of addresses, to which the pool maps memory; segments: whole "
                 "allocations of the device; auto: virtual where the device has it")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--remap", options.remap,
               "Move free memory, 2 MiB at a time, to where a request fits instead of refusing it")
      ->group(group);
}

void AddDeviceOptions(CLI::App& app, ReplayCommandOptions& options) {
  const std::string group = "On a device (not with --device none)";
  app.add_option("--device", options.device,
                 "none: placement alone; host: a live pool on a device made of the host; cuda: a "
                 "live pool on the first GPU. A live pool reports latencies. With several streams "
                 "its offsets may differ: it prefers blocks that no stream must wait for")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--verify", options.verify,
               "Write each buffer, and check its contents before its free; host only")
      ->group(group);
  app.add_option("--record", options.recording, "Record the pool's requests to this native trace")
      ->type_name("FILE")
      ->group(group);
  AddPoolMemoryOptions(app, options, group);
}

}  // namespace

Command AddReplay(CLI::App& app) {
  auto options = std::make_shared<ReplayCommandOptions>();
  CLI::App* replay = app.add_subcommand(
      "replay", "Serves a trace from a pool of a given size, on a device or not");
  replay->group("Traces");
  AddTraceArgument(*replay, options->trace);
  AddPlacementOptions(*replay, *options);
  AddPlanOptions(*replay, *options);
  AddDeviceOptions(*replay, *options);
  replay->add_flag("--offsets", options->offsets,
                   "Also print the offset of each allocation; -1: refused");
  AddAlignOption(*replay, options->alignment);
  AddTraceDeviceOption(*replay, options->read, DeviceAlias::kTaken);
  AddJsonOption(*replay, options->json);
  AddExamples(*replay, {"tidepool replay examples/traces/vgg16-b4-sgd.rmm.csv.gz --pool 900MiB",
                        "tidepool replay step.tide --policy planned",
                        "tidepool replay step.tide --pool 8GiB --device host --verify"});
  return {replay, [options] { return RunReplay(*options); }};
}

}  // namespace tidepool::tool
