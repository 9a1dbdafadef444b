// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/steps/rounds.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"

namespace tidepool::schedule {
namespace {

bool IsSameData(const GraphData& a, const GraphData& b) {
  return a.name == b.name && a.kind == b.kind && a.before == b.before && a.after == b.after;
}

bool IsSameTask(const GraphTask& a, const GraphTask& b) {
  return a.name == b.name && a.phase == b.phase && a.reads == b.reads && a.writes == b.writes &&
         a.updates == b.updates && a.algorithms.size() == b.algorithms.size() &&
         a.may_rerun == b.may_rerun;
}

bool AreOfOneFamily(const TaskGraph& a, const TaskGraph& b) {
  return std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end(), IsSameData) &&
         std::equal(a.tasks.begin(), a.tasks.end(), b.tasks.begin(), b.tasks.end(), IsSameTask);
}

absl::Status CheckGraphs(absl::Span<const TaskGraph> graphs) {
  for (const TaskGraph& graph : graphs.subspan(1)) {
    if (AreOfOneFamily(graphs.front(), graph)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph at batch ", graph.batch, " has other tasks or data than that at batch ",
        graphs.front().batch, ", expected graphs of one family"));
  }
  return absl::OkStatus();
}

template <typename... Parts>
absl::Status WrongRound(std::size_t round, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("round ", round, ": ", parts...));
}

}  // namespace

std::vector<ScheduleRound> RoundsOf(const Schedule& schedule) {
  if (!schedule.rounds.empty()) return schedule.rounds;
  return {{.first_step = 0, .steps = schedule.steps.size()}};
}

const TaskGraph* GraphOf(absl::Span<const TaskGraph> graphs, const ScheduleRound& round) {
  if (round.batch == 0) return &graphs.front();
  const auto graph = std::find_if(graphs.begin(), graphs.end(),
                                  [&](const TaskGraph& one) { return one.batch == round.batch; });
  return graph == graphs.end() ? nullptr : &*graph;
}

absl::Status CheckRounds(absl::Span<const TaskGraph> graphs, const Schedule& schedule) {
  if (absl::Status status = CheckGraphs(graphs); !status.ok()) return status;
  std::size_t next = 0;
  for (std::size_t i = 0; i < schedule.rounds.size(); ++i) {
    const ScheduleRound& round = schedule.rounds[i];
    if (round.first_step != next || round.steps > schedule.steps.size() - next) {
      return WrongRound(i, round.steps, " steps from step ", round.first_step,
                        ", expected steps from ", next, " to at most ", schedule.steps.size());
    }
    if (round.times < 1 || round.times > kMostRoundTimes) {
      return WrongRound(i, round.times, " times, expected 1 to ", kMostRoundTimes);
    }
    if (GraphOf(graphs, round) == nullptr) {
      return WrongRound(i, "no graph at batch ", round.batch,
                        ", expected the batch of a graph, or 0 for that of the first");
    }
    next += round.steps;
  }
  if (schedule.rounds.empty() || next == schedule.steps.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the rounds have ", next, " steps, expected all ",
                                                 schedule.steps.size(), " of the schedule"));
}

}  // namespace tidepool::schedule
