// SPDX-License-Identifier: Apache-2.0
// Replays by PyTorch's allocator: the answer of `replay` with policy pytorch.
#include <chrono>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct TimedCachingReplay {
  CachingReplayResult result;
  double seconds = 0;
};

absl::StatusOr<TimedCachingReplay> ReplayWithClock(const PyTorchReplayOptions& options,
                                                   const MeasuredTrace& measured) {
  const absl::StatusOr<CachingAllocatorSettings> settings =
      PyTorchSettings(options.policy, *measured.trace, options.settings);
  if (!settings.ok()) return settings.status();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<CachingReplayResult> result =
      ReplayCaching(*measured.trace, {.settings = *settings, .memory_bytes = options.pool_bytes});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!result.ok()) return result.status();
  return TimedCachingReplay{*std::move(result), elapsed.count()};
}

void PrintCachingJson(const PyTorchReplayOptions& options, const MeasuredTrace& measured,
                      const TimedCachingReplay& replay) {
  const CachingReplayResult& result = replay.result;
  nlohmann::ordered_json json = {
      {"trace", TraceJson(measured)},
      {"history", measured.trace->has_history},
      {"policy", options.policy},
      {"device", "none"},
      {"pool_bytes", options.pool_bytes},
      {"served", result.refused == 0},
      {"refused", result.refused},
      {"recorded_refusals", measured.demand.refused.size()},
      {"high_water_bytes", result.peak_reserved_bytes},
      {"peak_live_bytes", result.peak_allocated_bytes},
      {"peak_reserved_bytes", result.peak_reserved_bytes},
      {"retries", result.retries},
      {"seconds", replay.seconds},
      {"nanoseconds_per_event",
       replay.seconds * 1e9 / static_cast<double>(measured.trace->events.size())}};
  if (result.refused > 0) {
    json["first_refused"] = FirstRefusedJson(FirstRefusedAt(measured, result.first_refused_event));
    json["first_refused"]["bytes"] = result.first_refused_bytes;
    json["first_refused"]["largest_free_bytes"] = result.largest_free_bytes;
    json["first_refused"]["free_reserved_bytes"] = result.free_reserved_bytes;
  }
  PrintJson(json);
}

void PrintCachingTable(const PyTorchReplayOptions& options, const MeasuredTrace& measured,
                       const TimedCachingReplay& replay) {
  const CachingReplayResult& result = replay.result;
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = {
      {"policy", options.policy},
      {"device", "none"},
      {"memory", SizeText(options.pool_bytes)},
      {"served", ServedText(measured, result.refused)},
      {"peak reserved", SizeText(result.peak_reserved_bytes)},
      {"peak allocated", SizeText(result.peak_allocated_bytes)},
      {"releases of the cache", CountText(result.retries)},
      {"time", absl::StrCat(static_cast<std::int64_t>(replay.seconds * 1e6), " us")}};
  if (result.refused > 0) {
    for (auto& row : FirstRefusedRows(FirstRefusedAt(measured, result.first_refused_event)))
      rows.push_back(std::move(row));
    rows.push_back({"  requested", SizeText(result.first_refused_bytes)});
    rows.push_back({"  reserved but free", SizeText(result.free_reserved_bytes)});
    rows.push_back({"  largest free block", SizeText(result.largest_free_bytes)});
  }
  std::cout << TableText(rows);
}

}  // namespace

absl::StatusOr<Answer> ReplayPyTorch(const PyTorchReplayOptions& options,
                                     const MeasuredTrace& measured) {
  const absl::StatusOr<TimedCachingReplay> replay = ReplayWithClock(options, measured);
  if (!replay.ok()) return AboutFile(options.trace, replay.status());
  if (options.json) {
    PrintCachingJson(options, measured, *replay);
  } else {
    PrintCachingTable(options, measured, *replay);
  }
  return replay->result.refused == 0 ? Answer::kYes : Answer::kNo;
}

}  // namespace tidepool::tool
