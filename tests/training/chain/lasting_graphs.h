// SPDX-License-Identifier: Apache-2.0
// Networks with data that stays on the device through an iteration, as programs have it.
#ifndef TIDEPOOL_TESTS_TRAINING_CHAIN_LASTING_GRAPHS_H_
#define TIDEPOOL_TESTS_TRAINING_CHAIN_LASTING_GRAPHS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/training/graph.h"

namespace tidepool::testing {

inline std::size_t FirstOf(const TaskGraph& graph, TaskPhase phase) {
  const auto first = std::find_if(graph.tasks.begin(), graph.tasks.end(),
                                  [&](const GraphTask& task) { return task.phase == phase; });
  return static_cast<std::size_t>(first - graph.tasks.begin());
}

// Has the gradients of weights made in the iteration, as a program has it that lets go of them
// before it. Returns their bytes.
inline std::int64_t MakeGradientsInIteration(TaskGraph& graph) {
  std::int64_t all = 0;
  for (GraphData& data : graph.data) {
    if (data.kind != DataKind::kWeightGradient) continue;
    data.before = DataHome::kNowhere;
    all += data.bytes;
  }
  return all;
}

// Adds a mask of random bits to every fifth forward task, as dropout has it: a task that may not
// run again writes it, and the forward task and the last backward task of its layer read it.
// Returns the bytes of all masks.
inline std::int64_t AddMasks(TaskGraph& graph, std::int64_t bytes) {
  std::int64_t all = 0;
  for (std::size_t i = FirstOf(graph, TaskPhase::kBackward); i-- > 1;) {
    const std::string layer = graph.tasks[i].layer;
    const auto last =
        std::find_if(graph.tasks.rbegin(), graph.tasks.rend(), [&](const GraphTask& task) {
          return task.phase == TaskPhase::kBackward && task.layer == layer;
        });
    if (i % 5 != 0 || last == graph.tasks.rend()) continue;
    const std::size_t mask = graph.data.size();
    graph.data.push_back({.name = absl::StrCat("mask ", i), .bytes = bytes});
    all += bytes;
    graph.tasks[i].reads.push_back(mask);
    last->reads.push_back(mask);
    GraphTask task;
    task.name = absl::StrCat("mask of ", i);
    task.layer = layer;
    task.writes = {mask};
    task.algorithms = {{"only", 0, 0}};
    graph.tasks.insert(graph.tasks.begin() + static_cast<std::ptrdiff_t>(i), std::move(task));
  }
  return all;
}

// A network of blocks as a Llama in bfloat16 has them: each block and the next one read the sum of
// the blocks before, and backward tasks read a copy of it and the data inside of the block.
inline TaskGraph ResidualGraph(std::size_t blocks, std::int64_t sum_bytes,
                               std::int64_t inside_bytes) {
  TaskGraph graph;
  const auto add_data = [&](const char* name, std::size_t i, std::int64_t bytes, DataKind kind) {
    graph.data.push_back({.name = absl::StrCat(name, i), .bytes = bytes, .kind = kind});
    return graph.data.size() - 1;
  };
  const auto add_task = [&](const char* name, std::size_t i, TaskPhase phase,
                            std::vector<std::size_t> reads, std::size_t writes) {
    GraphTask task;
    task.name = absl::StrCat(name, i);
    task.phase = phase;
    task.reads = std::move(reads);
    task.writes = {writes};
    task.algorithms = {{"only", 1, 0}};
    task.may_rerun = true;
    graph.tasks.push_back(std::move(task));
    return writes;
  };
  constexpr DataKind kActivation = DataKind::kActivation;
  std::size_t sum = add_task("embedding", 0, TaskPhase::kForward, {},
                             add_data("sum ", 0, sum_bytes, kActivation));
  std::vector<std::size_t> copies;
  std::vector<std::size_t> insides;
  for (std::size_t i = 0; i < blocks; ++i) {
    copies.push_back(add_task("copy ", i, TaskPhase::kForward, {sum},
                              add_data("copied ", i, 2 * sum_bytes, kActivation)));
    insides.push_back(add_task("layer ", i, TaskPhase::kForward, {copies.back()},
                               add_data("inside ", i, inside_bytes, kActivation)));
    sum = add_task("add ", i, TaskPhase::kForward, {sum, insides.back()},
                   add_data("sum ", i + 1, sum_bytes, kActivation));
  }
  std::size_t gradient = add_task("loss ", 0, TaskPhase::kBackward, {sum},
                                  add_data("gradient ", blocks, sum_bytes, DataKind::kGradient));
  for (std::size_t i = blocks; i-- > 0;) {
    gradient = add_task("back ", i, TaskPhase::kBackward, {copies[i], insides[i], gradient},
                        add_data("gradient ", i, sum_bytes, DataKind::kGradient));
  }
  return graph;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_CHAIN_LASTING_GRAPHS_H_
