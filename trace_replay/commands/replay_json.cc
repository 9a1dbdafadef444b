// SPDX-License-Identifier: Apache-2.0
// The answer of the command `replay` as JSON.
#include <optional>
#include <string>

#include "trace_replay/commands/replay_answer.h"

namespace tidepool::tool {
namespace {

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

nlohmann::ordered_json PlannedJson(const MeasuredTrace& measured, const PlannedTrace& planned,
                                   const PlannedCounts& counts) {
  nlohmann::ordered_json json = {{"plan_bytes", planned.placement->height_bytes()},
                                 {"lower_bound_bytes", planned.lower_bound_bytes},
                                 {"optimal", nullptr},
                                 {"seconds", nullptr},
                                 {"interrupted", planned.interrupted},
                                 {"planned", counts.planned},
                                 {"deviations", counts.deviations},
                                 {"streams_wait", nullptr}};
  if (planned.streams_wait.has_value()) json["streams_wait"] = *planned.streams_wait;
  if (planned.optimal.has_value() && measured.trace->has_history)
    json["optimal"] = *planned.optimal;
  if (planned.seconds.has_value()) json["seconds"] = *planned.seconds;
  return json;
}

}  // namespace

void PrintReplayJson(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                     const PlannedTrace* planned, const TimedReplay& replay) {
  const ReplayResult& result = replay.result;
  nlohmann::ordered_json json = {
      {"trace", TraceJson(measured)},
      {"history", measured.trace->has_history},
      {"policy", options.policy},
      {"device", options.device},
      {"pool_bytes", options.pool_bytes & -measured.alignment},
      {"served", result.refused == 0},
      {"refused", result.refused},
      {"recorded_refusals", measured.demand.refused.size()},
      {"high_water_bytes", result.high_water_bytes},
      {"peak_live_bytes", result.peak_live_bytes},
      {"seconds", replay.seconds},
      {"nanoseconds_per_event",
       replay.seconds * 1e9 / static_cast<double>(measured.trace->events.size())}};
  if (planned != nullptr) json["planned"] = PlannedJson(measured, *planned, *replay.counts);
  if (options.learn) json["planned"] = LearnedJson(replay.live->pool, ReasonOf(measured, replay));
  if (replay.live.has_value()) AddLiveJson(options, *replay.live, json);
  if (result.refused > 0) {
    json["first_refused"] = FirstRefusedJson(FirstRefusedAt(measured, result.first_refused_event));
    json["first_refused"]["bytes"] = result.first_refused_bytes;
    json["first_refused"]["largest_free_bytes"] = result.largest_free_bytes;
  }
  if (options.offsets) json["offsets"] = OfRecorded(measured, result.offsets);
  PrintJson(json);
}

}  // namespace tidepool::tool
