// SPDX-License-Identifier: Apache-2.0
// Sums over graphs.
#include <vector>

#include "lib/training/graph/least_seconds.h"
#include "lib/training/graph/task_uses.h"
#include "tidepool/training/graph.h"

namespace tidepool {
namespace {

std::int64_t BytesOfTask(const TaskGraph& graph, const GraphTask& task) {
  std::int64_t bytes = task.algorithms.front().workspace_bytes;
  for (const std::size_t data : graph::UsesOf(task)) bytes += graph.data[data].bytes;
  return bytes;
}

std::vector<bool> AreKept(const TaskGraph& graph) {
  std::vector<bool> are_kept(graph.data.size());
  for (const GraphTask& task : graph.tasks) {
    if (task.phase != TaskPhase::kBackward) continue;
    for (const std::size_t data : graph::InputsOf(task)) are_kept[data] = true;
  }
  return are_kept;
}

void AddData(const TaskGraph& graph, GraphTotals& totals) {
  const std::vector<bool> are_kept = AreKept(graph);
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    const GraphData& data = graph.data[i];
    if (data.kind == DataKind::kInput) totals.inputs += data.bytes;
    if (data.kind == DataKind::kWeight) totals.weights += data.bytes;
    if (data.kind != DataKind::kActivation) continue;
    totals.activations += data.bytes;
    if (are_kept[i]) totals.kept_activations += data.bytes;
  }
}

}  // namespace

GraphTotals TotalsOf(const TaskGraph& graph) {
  GraphTotals totals;
  AddData(graph, totals);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    totals.least_seconds += graph::LeastSeconds(task);
    totals.least_workspace_seconds += task.algorithms.front().seconds;
    const std::int64_t bytes = BytesOfTask(graph, task);
    if (bytes <= totals.largest_task) continue;
    totals.largest_task = bytes;
    totals.largest_task_index = i;
  }
  return totals;
}

}  // namespace tidepool
