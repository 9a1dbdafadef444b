// SPDX-License-Identifier: Apache-2.0
// The policy schedules each part of the iteration as a graph of its own, in which all data that
// lives across rounds is at home on the host. So nothing has memory between two parts.
#include "policies/training/rounds/leaving_rounds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/training/rounds/round_graph.h"

namespace tidepool::rounds {
namespace {

enum class Part : std::uint8_t { kFirstRound, kLaterRound, kUpdates };

bool IsGradient(const GraphData& data) { return data.kind == DataKind::kWeightGradient; }

struct PartGraph {
  TaskGraph graph;
  std::vector<std::size_t> tasks;  // their numbers in the whole graph
};

// A task of a later round adds to gradients that are there.
void AddToGradients(const TaskGraph& graph, GraphTask& task) {
  const auto added = std::stable_partition(task.writes.begin(), task.writes.end(), [&](auto data) {
    return !IsGradient(graph.data[data]);
  });
  task.updates.insert(task.updates.end(), added, task.writes.end());
  task.writes.erase(added, task.writes.end());
}

PartGraph PartOf(const TaskGraph& graph, Part part) {
  PartGraph result = {.graph = graph, .tasks = {}};
  result.graph.tasks.clear();
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const bool is_update = graph.tasks[i].phase == TaskPhase::kUpdate;
    if (is_update != (part == Part::kUpdates)) continue;
    result.tasks.push_back(i);
    result.graph.tasks.push_back(graph.tasks[i]);
    if (part == Part::kLaterRound) AddToGradients(graph, result.graph.tasks.back());
  }
  for (GraphData& data : result.graph.data) {
    if (!IsGradient(data)) continue;
    if (part != Part::kFirstRound) data.before = DataHome::kHost;
    if (part != Part::kUpdates) data.after = DataHome::kHost;
  }
  return result;
}

class Parts {
 public:
  Parts(const requests::OffloadPolicy& policy, const ScheduleRequest& request)
      : policy_(policy), request_(request) {}

  absl::Status Add(const TaskGraph& graph, Part part) {
    const PartGraph of = PartOf(graph, part);
    absl::StatusOr<Schedule> made = policy_.make_round(policy_.name, of.graph, request_);
    if (!made.ok()) return made.status();
    for (ScheduleStep& step : made->steps) {
      if (step.kind == StepKind::kRun) step.index = of.tasks[step.index];
    }
    std::vector<ScheduleStep> steps = std::move(schedule_.steps);
    steps.insert(steps.end(), made->steps.begin(), made->steps.end());
    made->steps = std::move(steps);
    made->rounds = std::move(schedule_.rounds);
    schedule_ = *std::move(made);
    return absl::OkStatus();
  }

  void EndRound(std::int64_t times, std::int64_t batch) {
    schedule_.rounds.push_back({.first_step = begin_,
                                .steps = schedule_.steps.size() - begin_,
                                .times = times,
                                .batch = batch});
    begin_ = schedule_.steps.size();
  }

  Schedule Take(const TaskGraph& graph) {
    schedule_.fingerprint = GraphFingerprint(graph);
    return std::move(schedule_);
  }

 private:
  const requests::OffloadPolicy& policy_;
  const ScheduleRequest& request_;
  Schedule schedule_;
  std::size_t begin_ = 0;  // of the round
};

}  // namespace

bool WeightsMayLeave(const TaskGraph& graph) {
  std::vector<bool> is_read(graph.data.size());
  for (const GraphTask& task : graph.tasks) {
    if (task.phase != TaskPhase::kUpdate) continue;
    for (const std::size_t data : task.reads) is_read[data] = true;
  }
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    const GraphData& data = graph.data[i];
    if (!StaysAcrossRounds(data)) continue;
    const bool is_on_host = data.before == DataHome::kHost && data.after == DataHome::kHost;
    const bool may_leave =
        IsGradient(data) ? is_read[i] && data.after != DataHome::kDevice : is_on_host;
    if (!may_leave) return false;
  }
  return true;
}

absl::StatusOr<Schedule> MakeLeavingRounds(const requests::OffloadPolicy& policy,
                                           absl::Span<const TaskGraph> graphs,
                                           const BatchDivision& division,
                                           const ScheduleRequest& request) {
  const TaskGraph& graph = graphs.front();
  const absl::StatusOr<RoundGraph> round = RoundGraphOf(graph, /*updates_on_host=*/false);
  if (!round.ok()) return round.status();
  Parts parts(policy, request);
  const std::int64_t count = division.rounds();
  absl::Status status;
  if (count > 1) {
    status = parts.Add(graph, Part::kFirstRound);
    parts.EndRound(1, division.sub_batch);
  }
  if (count > 2 && status.ok()) {
    status = parts.Add(graph, Part::kLaterRound);
    parts.EndRound(count - 2, division.sub_batch);
  }
  if (status.ok()) {
    status = parts.Add(graphs.back(), count > 1 ? Part::kLaterRound : Part::kFirstRound);
  }
  if (status.ok()) status = parts.Add(graph, Part::kUpdates);
  if (!status.ok()) return status;
  parts.EndRound(1, division.rest > 0 ? division.rest : division.sub_batch);
  return parts.Take(graph);
}

}  // namespace tidepool::rounds
