// SPDX-License-Identifier: Apache-2.0
// A model of graph.h, in the slowest and plainest way.
#ifndef TIDEPOOL_TESTS_TRAINING_GRAPH_SLOW_GRAPH_H_
#define TIDEPOOL_TESTS_TRAINING_GRAPH_SLOW_GRAPH_H_

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::testing {

inline bool Holds(const std::vector<std::size_t>& uses, std::size_t data) {
  return std::find(uses.begin(), uses.end(), data) != uses.end();
}

inline bool UsesThere(const GraphTask& task, std::size_t data) {
  return Holds(task.reads, data) || Holds(task.updates, data);
}

inline bool SlowMicroBatchesAreValid(const TaskAlgorithm& algorithm, std::int64_t batch) {
  std::int64_t sum = 0;
  for (const MicroBatch& part : algorithm.micro_batches) {
    if (part.samples < 1) return false;
    sum += part.samples;
  }
  return algorithm.micro_batches.empty() || sum == batch;
}

inline bool SlowAlgorithmsAreValid(const GraphTask& task, std::int64_t batch) {
  std::set<std::string> names;
  std::int64_t before = 0;
  for (const TaskAlgorithm& algorithm : task.algorithms) {
    if (algorithm.name.empty() || !names.insert(algorithm.name).second) return false;
    if (algorithm.workspace_bytes < before || algorithm.workspace_bytes > kMostDataBytes) {
      return false;
    }
    if (!SlowMicroBatchesAreValid(algorithm, batch)) return false;
    if (!(algorithm.seconds >= 0) || algorithm.seconds > kMostTaskSeconds) return false;
    before = algorithm.workspace_bytes;
  }
  return !task.algorithms.empty();
}

inline bool SlowTaskIsValid(const TaskGraph& graph, const GraphTask& task) {
  std::multiset<std::size_t> uses(task.reads.begin(), task.reads.end());
  uses.insert(task.writes.begin(), task.writes.end());
  uses.insert(task.updates.begin(), task.updates.end());
  for (const std::size_t data : uses) {
    if (data >= graph.data.size() || uses.count(data) > 1) return false;
  }
  if (task.may_rerun && (!task.updates.empty() || task.phase == TaskPhase::kUpdate)) return false;
  return task.writes.size() + task.updates.size() > 0 && SlowAlgorithmsAreValid(task, graph.batch);
}

// Returns whether a task other than its writer needs data that `task` writes.
inline bool SlowHasUsedResult(const TaskGraph& graph, const GraphTask& task) {
  for (const std::size_t data : task.writes) {
    for (const GraphTask& other : graph.tasks) {
      if (UsesThere(other, data)) return true;
    }
  }
  return false;
}

// Lists the homes that the kinds may have.
inline bool SlowHomesAreValid(const GraphData& data) {
  using enum DataHome;
  const std::pair<DataHome, DataHome> homes = {data.before, data.after};
  const std::set<std::pair<DataHome, DataHome>> stays = {{kDevice, kDevice}, {kHost, kHost}};
  if (stays.contains(homes)) return true;
  switch (data.kind) {
    case DataKind::kInput:
      return data.before != kNowhere && data.after == kNowhere;
    case DataKind::kWeight:
    case DataKind::kOptimizerState:
      return false;
    default:
      return data.before == kNowhere;
  }
}

inline bool SlowDataIsValid(const TaskGraph& graph, std::size_t data) {
  const GraphData& its = graph.data[data];
  const bool is_there_before = its.before != DataHome::kNowhere;
  std::vector<std::size_t> writers;
  std::vector<std::size_t> users;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (Holds(graph.tasks[i].writes, data)) writers.push_back(i);
    if (UsesThere(graph.tasks[i], data)) users.push_back(i);
  }
  if (!SlowHomesAreValid(its) || writers.size() > 1) return false;
  if (writers.empty() && !is_there_before) return false;
  const bool may_be_written = !is_there_before || its.kind == DataKind::kWeightGradient;
  if (!writers.empty() && !may_be_written) return false;
  if (!writers.empty() && !users.empty() && users.front() <= writers.front()) return false;
  if (!users.empty() || its.after != DataHome::kNowhere) return true;
  return !is_there_before && !SlowHasUsedResult(graph, graph.tasks[writers.front()]);
}

inline bool SlowIsValid(const TaskGraph& graph) {
  std::set<std::string> task_names;
  std::set<std::string> data_names;
  __extension__ __int128 sum = 0;
  for (const GraphTask& task : graph.tasks) {
    if (task.name.empty() || !task_names.insert(task.name).second) return false;
    if (!SlowTaskIsValid(graph, task)) return false;
  }
  for (const GraphData& data : graph.data) {
    if (data.name.empty() || !data_names.insert(data.name).second) return false;
    if (data.bytes < 1 || data.bytes > kMostDataBytes) return false;
    sum += data.bytes;
  }
  if (sum > kMostGraphBytes || graph.tasks.empty() || graph.batch < 0) return false;
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (!SlowDataIsValid(graph, data)) return false;
  }
  return true;
}

// Returns whether `task` must wait for `other`, which has not run yet.
inline bool SlowMustWait(const TaskGraph& graph, std::size_t task, std::size_t other) {
  const GraphTask& its = graph.tasks[task];
  const GraphTask& first = graph.tasks[other];
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (UsesThere(its, data) && Holds(first.writes, data)) return true;
    if (other >= task || !UsesThere(its, data) || !UsesThere(first, data)) continue;
    if (Holds(its.updates, data) || Holds(first.updates, data)) return true;
  }
  return false;
}

// Returns the names of the tasks in the order that SortTasks documents; no value for a cycle.
inline std::optional<std::vector<std::string>> SlowOrder(const TaskGraph& graph) {
  std::vector<bool> has_run(graph.tasks.size());
  std::vector<std::string> order;
  const auto can_run = [&](std::size_t task) {
    if (has_run[task]) return false;
    for (std::size_t other = 0; other < graph.tasks.size(); ++other) {
      if (!has_run[other] && SlowMustWait(graph, task, other)) return false;
    }
    return true;
  };
  while (order.size() < graph.tasks.size()) {
    std::size_t next = 0;
    while (next < graph.tasks.size() && !can_run(next)) ++next;
    if (next == graph.tasks.size()) return std::nullopt;
    has_run[next] = true;
    order.push_back(graph.tasks[next].name);
  }
  return order;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_GRAPH_SLOW_GRAPH_H_
