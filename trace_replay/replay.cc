// tidepool replay: serves a trace from a pool of a given size, by placement alone.
#include <chrono>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct ReplayCommandOptions {
  std::string trace;
  std::string policy = "best-fit";
  std::string device = "none";
  std::int64_t pool_bytes = 0;
  std::int64_t alignment = 0;
  bool offsets = false;
  bool json = false;
};

struct TimedReplay {
  ReplayResult result;
  double seconds = 0;
};

absl::StatusOr<TimedReplay> ReplayTimed(const Trace& trace, PlacementPolicy& policy,
                                        const ReplayOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<ReplayResult> result = Replay(trace, policy, options);
  if (!result.ok()) return result.status();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return TimedReplay{*std::move(result), elapsed.count()};
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
  if (result.refused > 0) {
    json["first_refused"] = {{"event", result.first_refused_event},
                             {"bytes", result.first_refused_bytes},
                             {"largest_free_bytes", result.largest_free_bytes}};
  }
  if (options.offsets) json["offsets"] = result.offsets;
  PrintJson(json);
}

void PrintReplayTable(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                      const TimedReplay& replay) {
  const ReplayResult& result = replay.result;
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = {
      {"policy", options.policy},
      {"pool", SizeText(options.pool_bytes & -measured.alignment)},
      {"served", result.refused == 0 ? "all" : absl::StrCat("all but ", CountText(result.refused))},
      {"high-water mark", SizeText(result.high_water_bytes)},
      {"time", absl::StrCat(static_cast<std::int64_t>(replay.seconds * 1e6), " us")}};
  if (result.refused > 0) {
    rows.push_back({"first refused at event", CountText(result.first_refused_event)});
    rows.push_back({"  it asked for", SizeText(result.first_refused_bytes)});
    rows.push_back({"  largest free block", SizeText(result.largest_free_bytes)});
  }
  std::cout << TableText(rows);
  if (!options.offsets) return;
  std::cout << '\n';
  for (std::size_t i = 0; i < result.offsets.size(); ++i) {
    std::cout << absl::CHexEscape(std::string(measured.trace.allocation_ids[i])) << ' '
              << result.offsets[i] << '\n';
  }
}

absl::StatusOr<Answer> RunReplay(const ReplayCommandOptions& options) {
  if (options.device != "none") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", absl::CHexEscape(options.device),
                     "', expected none: this version replays placement alone"));
  }
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(options.policy);
  if (!policy.ok()) return policy.status();
  const absl::StatusOr<MeasuredTrace> measured = ReadMeasured(options.trace, options.alignment);
  if (!measured.ok()) return measured.status();
  const absl::StatusOr<TimedReplay> replay = ReplayTimed(measured->trace, **policy,
                                                         {.pool_bytes = options.pool_bytes,
                                                          .alignment = measured->alignment,
                                                          .keep_offsets = options.offsets});
  if (!replay.ok()) return AboutFile(options.trace, replay.status());
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
  replay->add_option("--device", options->device, "none: placement alone")->capture_default_str();
  AddAlignOption(*replay, options->alignment);
  replay->add_flag("--offsets", options->offsets,
                   "Also print the offset of every allocation, -1 = refused");
  replay->add_flag("--json", options->json, "One JSON object");
  return {replay, [options] { return RunReplay(*options); }};
}

}  // namespace tidepool::tool
