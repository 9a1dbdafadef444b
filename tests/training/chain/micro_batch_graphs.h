// SPDX-License-Identifier: Apache-2.0
// Networks with gradients that add up over several micro-batches.
#ifndef TIDEPOOL_TESTS_TRAINING_CHAIN_MICRO_BATCH_GRAPHS_H_
#define TIDEPOOL_TESTS_TRAINING_CHAIN_MICRO_BATCH_GRAPHS_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/training/chain/lasting_graphs.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tidepool/training/graph.h"

namespace tidepool::testing {

// Appends the data that each micro-batch has of its own, and returns the numbers of all data.
inline std::vector<std::size_t> AddOwnData(TaskGraph& graph, std::size_t count,
                                           const std::string& suffix) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    GraphData data = graph.data[i];
    const bool is_own = data.kind == DataKind::kInput || data.kind == DataKind::kActivation ||
                        data.kind == DataKind::kGradient;
    numbers.push_back(is_own ? graph.data.size() : i);
    if (!is_own) continue;
    data.name += suffix;
    graph.data.push_back(std::move(data));
  }
  return numbers;
}

// A task of a later micro-batch adds to the gradients of weights that the first one has written.
inline GraphTask TaskOfLater(const TaskGraph& graph, GraphTask task,
                             const std::vector<std::size_t>& numbers, const std::string& suffix) {
  task.name += suffix;
  for (auto* list : {&task.reads, &task.updates, &task.writes}) {
    for (std::size_t& data : *list) data = numbers[data];
  }
  const std::vector<std::size_t> writes = std::exchange(task.writes, {});
  for (const std::size_t data : writes) {
    const bool is_sum = graph.data[data].kind == DataKind::kWeightGradient;
    (is_sum ? task.updates : task.writes).push_back(data);
  }
  return task;
}

// Returns the graph with the tasks before its updates `count` times.
inline TaskGraph WithMicroBatches(const TaskGraph& graph, std::size_t count) {
  TaskGraph result = graph;
  const std::size_t update = FirstOf(graph, TaskPhase::kUpdate);
  result.tasks.resize(update);
  for (std::size_t k = 1; k < count; ++k) {
    const std::string suffix = absl::StrCat(" of ", k);
    const std::vector<std::size_t> numbers = AddOwnData(result, graph.data.size(), suffix);
    for (std::size_t i = 0; i < update; ++i) {
      result.tasks.push_back(TaskOfLater(result, graph.tasks[i], numbers, suffix));
    }
  }
  result.tasks.insert(result.tasks.end(), graph.tasks.begin() + static_cast<std::ptrdiff_t>(update),
                      graph.tasks.end());
  return result;
}

// Returns random layers with all updates at the end, several times, and with a task that changes a
// weight somewhere.
inline TaskGraph RandomMicroBatches(RandomGraphs& random) {
  TaskGraph layers = RandomTraining(random).Make(5 + random.Below(6));
  std::stable_partition(layers.tasks.begin(), layers.tasks.end(),
                        [](const GraphTask& task) { return task.phase != TaskPhase::kUpdate; });
  TaskGraph graph = WithMicroBatches(layers, 1 + random.Below(3));
  std::size_t weight = 0;
  while (graph.data[weight].kind != DataKind::kWeight) ++weight;
  graph.tasks.insert(
      graph.tasks.begin() + 1 + static_cast<std::ptrdiff_t>(random.Below(graph.tasks.size() - 1)),
      {.name = "normalize",
       .phase = random.Chance(0.5) ? TaskPhase::kForward : TaskPhase::kBackward,
       .updates = {weight},
       .algorithms = {{"only", 1, 0}}});
  return graph;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_CHAIN_MICRO_BATCH_GRAPHS_H_
