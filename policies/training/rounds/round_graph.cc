// SPDX-License-Identifier: Apache-2.0
#include "policies/training/rounds/round_graph.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/training/graph/task_uses.h"
#include "policies/training/requests/option_names.h"

namespace tidepool::rounds {
namespace {

absl::Status CheckUpdate(const TaskGraph& graph, const GraphTask& task) {
  const auto error = [&](const char* verb, std::size_t data) {
    return absl::InvalidArgumentError(absl::StrCat(
        "task ", requests::InQuotes(task.name), verb, requests::InQuotes(graph.data[data].name),
        ", expected updates that read and update weights, their gradients and optimizer state "
        "alone: they run once for all rounds"));
  };
  for (const std::size_t data : graph::InputsOf(task)) {
    if (!StaysAcrossRounds(graph.data[data])) return error(" uses ", data);
  }
  return task.writes.empty() ? absl::OkStatus() : error(" writes ", task.writes.front());
}

// The next round has data of its own in the same place.
absl::Status CheckHomes(const TaskGraph& graph) {
  for (const GraphData& data : graph.data) {
    if (StaysAcrossRounds(data) || data.after != DataHome::kDevice) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data ", requests::InQuotes(data.name),
                     " stays on the device after the iteration, expected the host or nowhere: "
                     "each round has data of its own"));
  }
  return absl::OkStatus();
}

// An input that no task reads takes no memory of a device.
void LeaveHostDataOut(TaskGraph& round) {
  std::vector<bool> is_used(round.data.size());
  for (const GraphTask& task : round.tasks) {
    for (const std::size_t data : graph::UsesOf(task)) is_used[data] = true;
  }
  for (std::size_t i = 0; i < round.data.size(); ++i) {
    GraphData& data = round.data[i];
    const bool is_at_home = data.before == DataHome::kHost && data.after == DataHome::kHost;
    if (StaysAcrossRounds(data) && is_at_home && !is_used[i]) data.kind = DataKind::kInput;
  }
}

}  // namespace

bool StaysAcrossRounds(const GraphData& data) {
  return data.kind == DataKind::kWeight || data.kind == DataKind::kWeightGradient ||
         data.kind == DataKind::kOptimizerState;
}

// Lets data that stays across rounds be at home on the device: no task of a round need read it.
static void StayOnDevice(TaskGraph& round) {
  for (GraphData& data : round.data) {
    if (StaysAcrossRounds(data)) data.before = data.after = DataHome::kDevice;
  }
}

absl::StatusOr<RoundGraph> RoundGraphOf(const TaskGraph& graph, bool updates_on_host) {
  if (absl::Status status = CheckHomes(graph); !status.ok()) return status;
  RoundGraph round;
  round.graph = graph;
  round.graph.tasks.clear();
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    if (task.phase == TaskPhase::kUpdate) {
      if (absl::Status status = CheckUpdate(graph, task); !status.ok()) return status;
      round.updates.push_back(i);
    } else {
      round.tasks.push_back(i);
      round.graph.tasks.push_back(task);
    }
  }
  if (updates_on_host) LeaveHostDataOut(round.graph);
  StayOnDevice(round.graph);
  if (absl::Status status = ValidateGraph(round.graph); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("without its updates the graph is not valid: ", status.message()));
  }
  return round;
}

GraphFamily WithoutUpdates(const GraphFamily& family) {
  GraphFamily rounds = family;
  rounds.graph.tasks.clear();
  rounds.costs.clear();
  for (std::size_t i = 0; i < family.graph.tasks.size(); ++i) {
    if (family.graph.tasks[i].phase == TaskPhase::kUpdate) continue;
    rounds.graph.tasks.push_back(family.graph.tasks[i]);
    if (!family.costs.empty()) rounds.costs.push_back(family.costs[i]);
  }
  LeaveHostDataOut(rounds.graph);
  StayOnDevice(rounds.graph);
  return rounds;
}

}  // namespace tidepool::rounds
