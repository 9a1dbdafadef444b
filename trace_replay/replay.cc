// tidepool replay: serves a trace from a pool of a given size, by placement alone or on a device.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"
#include "trace_replay/device_replay.h"
#include "trace_replay/live_replay.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct ReplayCommandOptions {
  std::string trace;
  std::string policy = "best-fit";
  std::string device = "none";
  std::int64_t pool_bytes = 0;
  std::int64_t initial_bytes = -1;  // all of the pool
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
  std::optional<LiveReplay> live;  // without what is above
};

absl::StatusOr<PoolMemory> MemoryOf(const std::string& name) {
  if (name == "auto") return PoolMemory::kAutomatic;
  if (name == "virtual") return PoolMemory::kVirtual;
  if (name == "segments") return PoolMemory::kSegments;
  return absl::InvalidArgumentError(
      absl::StrCat("--memory: '", absl::CHexEscape(name), "', expected auto, virtual or segments"));
}

absl::StatusOr<TimedReplay> ReplayByPlacement(const ReplayCommandOptions& options,
                                              const MeasuredTrace& measured,
                                              PlacementPolicy& policy) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<ReplayResult> result = Replay(measured.trace, policy,
                                               {.pool_bytes = options.pool_bytes,
                                                .alignment = measured.alignment,
                                                .keep_offsets = options.offsets});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!result.ok()) return AboutFile(options.trace, result.status());
  return TimedReplay{*std::move(result), elapsed.count(), std::nullopt};
}

absl::StatusOr<TimedReplay> ReplayFromPool(const ReplayCommandOptions& options,
                                           const MeasuredTrace& measured) {
  const std::int64_t pool_bytes = options.pool_bytes & -measured.alignment;
  const std::int64_t wanted = options.initial_bytes < 0 ? pool_bytes : options.initial_bytes;
  absl::StatusOr<LiveReplay> live =
      ReplayOnDevice(measured, {.device = options.device,
                                .trace = options.trace,
                                .policy = options.policy,
                                .pool_bytes = options.pool_bytes,
                                .initial_bytes = std::min(wanted, pool_bytes),
                                .memory = *MemoryOf(options.memory),
                                .growth = options.growth,
                                .remap = options.remap,
                                .verify = options.verify,
                                .recording = options.recording});
  if (!live.ok()) return live.status();
  TimedReplay replay{std::move(live->placement), live->seconds, std::nullopt};
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
  if (options.verify) json["verified"] = true;  // it is an error otherwise
}

void PrintReplayJson(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                     const TimedReplay& replay) {
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
  if (replay.live.has_value()) AddLiveJson(options, *replay.live, json);
  if (result.refused > 0) {
    json["first_refused"] = {{"event", result.first_refused_event},
                             {"bytes", result.first_refused_bytes},
                             {"largest_free_bytes", result.largest_free_bytes}};
  }
  if (options.offsets) json["offsets"] = result.offsets;
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
            << TableText({{"ns, clock included", "median", "p99"},
                          LatencyRow("allocate", live.allocate),
                          LatencyRow("free", live.free),
                          LatencyRow("allocate + free", live.pair)});
}

void PrintReplayTable(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                      const TimedReplay& replay) {
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
    rows.push_back({"first refused at event", CountText(result.first_refused_event)});
    rows.push_back({"  it asked for", SizeText(result.first_refused_bytes)});
    rows.push_back({"  largest free block", SizeText(result.largest_free_bytes)});
  }
  if (replay.live.has_value()) {
    const std::vector<std::vector<std::string>> live_rows = LiveRows(options, *replay.live);
    rows.insert(rows.end(), live_rows.begin(), live_rows.end());
  }
  std::cout << TableText(rows);
  if (replay.live.has_value()) PrintLatencies(*replay.live);
  if (!options.offsets) return;
  std::cout << '\n';
  for (std::size_t i = 0; i < result.offsets.size(); ++i) {
    std::cout << absl::CHexEscape(std::string(measured.trace.allocation_ids[i])) << ' '
              << result.offsets[i] << '\n';
  }
}

// The first option given that only a pool on a device can do something about.
std::string OptionOfDevices(const ReplayCommandOptions& options) {
  if (options.verify) return "--verify";
  if (!options.recording.empty()) return "--record";
  if (options.initial_bytes >= 0) return "--initial";
  if (options.remap) return "--remap";
  if (options.memory != "auto") return "--memory";
  return options.growth != PoolOptions().growth ? "--growth" : "";
}

absl::Status CheckOptions(const ReplayCommandOptions& options) {
  if (options.device != "none" && options.device != "host" && options.device != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("--device: '", absl::CHexEscape(options.device),
                                                   "', expected none, host or cuda"));
  }
  if (options.device == "cuda" && options.verify) {
    return absl::InvalidArgumentError(
        "--verify: the host cannot look into the memory of a GPU, expected --device host beside "
        "it");
  }
  if (absl::Status status = MemoryOf(options.memory).status(); !status.ok()) return status;
  const std::string option = OptionOfDevices(options);
  if (options.device == "none" && !option.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": --device none is placement alone, expected --device host beside it"));
  }
  if (options.initial_bytes > options.pool_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--initial: ", options.initial_bytes, ", expected at most the pool, ", options.pool_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Answer> RunReplay(const ReplayCommandOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(options.policy);
  if (!policy.ok()) return policy.status();
  const absl::StatusOr<MeasuredTrace> measured =
      ReadMeasured(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  const absl::StatusOr<TimedReplay> replay = options.device == "none"
                                                 ? ReplayByPlacement(options, *measured, **policy)
                                                 : ReplayFromPool(options, *measured);
  if (!replay.ok()) return replay.status();
  if (options.json) {
    PrintReplayJson(options, *measured, *replay);
  } else {
    PrintReplayTable(options, *measured, *replay);
  }
  return replay->result.refused == 0 ? Answer::kYes : Answer::kNo;
}

}  // namespace

Command AddReplay(CLI::App& app) {
  auto options = std::make_shared<ReplayCommandOptions>();
  CLI::App* replay = app.add_subcommand("replay", "Serve a trace from a pool of a given size");
  replay->add_option("trace", options->trace, "The trace")->required();
  AddSizeOption(*replay, "--pool", options->pool_bytes, "Size of the pool")->required();
  replay->add_option("--policy", options->policy, "The placement policy")->capture_default_str();
  replay
      ->add_option("--device", options->device,
                   "none: placement alone; host: a live pool on a device made of the host, with "
                   "the latency of each call, reading the clock included; cuda: the same on the "
                   "first GPU. Traces with one stream "
                   "get the same offsets from both; with several a live pool prefers blocks that "
                   "no stream must wait for")
      ->capture_default_str();
  AddAlignOption(*replay, options->alignment);
  AddTraceDeviceOption(*replay, options->read, DeviceAlias::kTaken);
  replay->add_flag("--offsets", options->offsets,
                   "Also print the offset of every allocation, -1 = refused");
  replay->add_flag("--verify", options->verify,
                   "Write every buffer, and check it before its free (not with --device none)");
  replay
      ->add_option("--record", options->recording,
                   "Record what the pool is asked for to a native trace (not with --device none)")
      ->type_name("FILE");
  AddSizeOption(*replay, "--initial", options->initial_bytes,
                "What the pool takes from the device at once (default: all of it; not with "
                "--device none)");
  replay
      ->add_option("--growth", options->growth,
                   "The part of its size by which it then grows at least (not with --device none)")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  replay
      ->add_option("--memory", options->memory,
                   "virtual: the pool maps memory to one range of addresses; segments: it takes "
                   "whole allocations of the device; auto: segments where there is no virtual "
                   "memory (not with --device none)")
      ->capture_default_str();
  replay->add_flag("--remap", options->remap,
                   "Move free memory to where a request fits, 2 MiB at a time, instead of refusing "
                   "it (not with --device none)");
  replay->add_flag("--json", options->json, "One JSON object");
  return {replay, [options] { return RunReplay(*options); }};
}

}  // namespace tidepool::tool
