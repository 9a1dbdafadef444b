// SPDX-License-Identifier: Apache-2.0
// The answer of the command `replay` as tables.
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/commands/replay_answer.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

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

std::vector<std::vector<std::string>> PlannedRows(const MeasuredTrace& measured,
                                                  const PlannedTrace& planned,
                                                  const PlannedCounts& counts) {
  std::vector<std::vector<std::string>> rows = {
      {"plan", SizeText(planned.placement->height_bytes())}};
  if (measured.trace->has_history) {
    rows.push_back({"  smallest possible",
                    planned.optimal.value_or(false)
                        ? "yes"
                        : absl::StrCat("unknown, at least ", SizeText(planned.lower_bound_bytes))});
  }
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

}  // namespace

void PrintReplayTable(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                      const PlannedTrace* planned, const TimedReplay& replay) {
  const ReplayResult& result = replay.result;
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = {
      {"policy", options.policy},
      {"device", options.device},
      {"pool", SizeText(options.pool_bytes & -measured.alignment)},
      {"served", ServedText(measured, result.refused)},
      {"high-water mark", SizeText(result.high_water_bytes)},
      {"time", absl::StrCat(static_cast<std::int64_t>(replay.seconds * 1e6), " us")}};
  if (result.refused > 0) {
    for (auto& row : FirstRefusedRows(FirstRefusedAt(measured, result.first_refused_event)))
      rows.push_back(std::move(row));
    rows.push_back({"  requested", SizeText(result.first_refused_bytes)});
    rows.push_back({"  largest free block", SizeText(result.largest_free_bytes)});
  }
  const auto append = [&](const std::vector<std::vector<std::string>>& more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  if (planned != nullptr) append(PlannedRows(measured, *planned, *replay.counts));
  if (options.learn) append(LearnedRows(replay.live->pool));
  if (replay.live.has_value()) append(LiveRows(options, *replay.live));
  std::cout << TableText(rows);
  if (options.learn) PrintWhyNoPlans(ReasonOf(measured, replay));
  if (replay.live.has_value()) PrintLatencies(*replay.live);
  if (!options.offsets) return;
  std::cout << '\n';
  for (std::size_t i = 0; i < result.offsets.size(); ++i) {
    std::cout << absl::CHexEscape(std::string(measured.trace->allocation_ids[i])) << ' '
              << result.offsets[i] << '\n';
  }
}

}  // namespace tidepool::tool
