// SPDX-License-Identifier: Apache-2.0
// Walks through a graph, with data there from its writer to its last use.
#include "lib/training/chain/graph_walk.h"

#include <algorithm>
#include <numeric>

#include "lib/training/graph/data_users.h"
#include "lib/training/graph/task_uses.h"

namespace tidepool::chain {
namespace {

std::vector<DataUses> FindUses(const TaskGraph& graph, std::size_t forward_tasks) {
  const graph::DataUsers users(graph);
  std::vector<DataUses> all(graph.data.size());
  for (std::size_t data = 0; data < all.size(); ++data) {
    DataUses& uses = all[data];
    uses.last_forward = users.LastBefore(data, forward_tasks);
    uses.first_backward = users.FirstFrom(data, forward_tasks);
    if (uses.first_backward != kNoTask) uses.last_backward = users.Last(data);
  }
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : graph.tasks[i].writes) all[data].writer = i;
    for (const std::size_t data : graph.tasks[i].updates) {
      DataUses& uses = all[data];
      if (i < forward_tasks) uses.last_forward_update = i;
      if (i >= forward_tasks && uses.first_backward_update == kNoTask) {
        uses.first_backward_update = i;
      }
    }
  }
  return all;
}

// Memory over the walk, in two sums.
struct Sums {
  std::int64_t chain = 0;
  std::int64_t gradients = 0;  // the part of `chain` that backward tasks have written
  std::int64_t resident = 0;
};

void AddTo(Sums& sums, const GraphData& data, bool is_gradient, std::int64_t sign) {
  if (IsResident(data)) {
    sums.resident += sign * data.bytes;
    return;
  }
  sums.chain += sign * data.bytes;
  if (is_gradient) sums.gradients += sign * data.bytes;
}

}  // namespace

bool IsResident(const GraphData& data) {
  return data.kind == DataKind::kWeight || data.kind == DataKind::kWeightGradient ||
         data.kind == DataKind::kOptimizerState;
}

bool IsLeftOut(const GraphTask& task, const std::vector<bool>& resident) {
  for (const std::size_t data : graph::ChangesOf(task)) {
    if (data >= resident.size() || !resident[data]) return false;
  }
  return true;
}

GraphWalk WalkGraph(const TaskGraph& graph, const std::vector<std::size_t>& algorithms) {
  GraphWalk walk;
  while (walk.forward_tasks < graph.tasks.size() &&
         graph.tasks[walk.forward_tasks].phase == TaskPhase::kForward) {
    ++walk.forward_tasks;
  }
  walk.uses = FindUses(graph, walk.forward_tasks);
  std::vector<std::vector<std::size_t>> ends(graph.tasks.size());
  Sums sums;
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    if (ExistsBefore(graph.data[i])) AddTo(sums, graph.data[i], false, 1);
    const DataUses& uses = walk.uses[i];
    const std::size_t last = uses.last_backward != kNoTask ? uses.last_backward : uses.last_forward;
    if (last != kNoTask && !ExistsAfter(graph.data[i])) ends[last].push_back(i);
  }
  const auto is_gradient = [&](std::size_t data) {
    const std::size_t writer = walk.uses[data].writer;
    return writer != kNoTask && writer >= walk.forward_tasks;
  };
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    for (const std::size_t data : task.writes) {
      if (!ExistsBefore(graph.data[data])) AddTo(sums, graph.data[data], is_gradient(data), 1);
    }
    walk.bytes.push_back(sums.chain + task.algorithms[algorithms[i]].workspace_bytes);
    walk.resident_peak = std::max(walk.resident_peak, sums.resident);
    for (const std::size_t data : ends[i]) AddTo(sums, graph.data[data], is_gradient(data), -1);
    walk.gradients_after.push_back(sums.gradients);
  }
  return walk;
}

std::vector<std::int64_t> NeededBytesBefore(const TaskGraph& graph, const GraphWalk& walk) {
  std::vector<std::int64_t> bytes(walk.forward_tasks + 1);
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    const DataUses& uses = walk.uses[data];
    const bool is_needed = uses.writer < walk.forward_tasks && uses.first_backward != kNoTask;
    if (!is_needed || IsResident(graph.data[data])) continue;
    bytes[uses.writer + 1] += graph.data[data].bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return bytes;
}

}  // namespace tidepool::chain
