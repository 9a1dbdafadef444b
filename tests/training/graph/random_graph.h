// SPDX-License-Identifier: Apache-2.0
// Random task graphs: valid ones, and randomly changed ones.
#ifndef TIDEPOOL_TESTS_TRAINING_GRAPH_RANDOM_GRAPH_H_
#define TIDEPOOL_TESTS_TRAINING_GRAPH_RANDOM_GRAPH_H_

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::testing {

class RandomGraphs {
 public:
  explicit RandomGraphs(std::uint64_t seed) : random_(seed) {}

  std::size_t Below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

  TaskGraph Valid(std::size_t tasks) {
    TaskGraph graph;
    graph.name = "random";
    graph.batch = static_cast<std::int64_t>(Below(100));
    AddData(graph, DataKind::kInput);
    if (Chance(0.5)) AddData(graph, DataKind::kWeight);
    for (std::size_t i = 0; i < tasks; ++i) AddTask(graph, i == 0);
    ReadWhatNobodyRead(graph);
    return graph;
  }

  // Returns a valid graph with everything that version 2 of the format has.
  TaskGraph ValidVersion2(std::size_t tasks) {
    TaskGraph graph = Valid(tasks);
    for (GraphData& data : graph.data) {
      data.type = static_cast<DataType>(Below(10));
      if (Chance(0.5)) continue;
      data.after = DataHome::kHost;
      if (ExistsBefore(data)) data.before = DataHome::kHost;
    }
    for (GraphTask& task : graph.tasks) AddLayer(graph.batch, task);
    return graph;
  }

  // Lets data that exists before an iteration begin on the host.
  void MoveHomes(TaskGraph& graph) {
    for (GraphData& data : graph.data) {
      if (!ExistsBefore(data) || Chance(0.6)) continue;
      data.before = DataHome::kHost;
      if (ExistsAfter(data)) data.after = DataHome::kHost;
    }
  }

  void Shuffle(TaskGraph& graph) { std::shuffle(graph.tasks.begin(), graph.tasks.end(), random_); }

  // Changes something; the graph may be valid still.
  void Change(TaskGraph& graph) {
    GraphTask& task = graph.tasks[Below(graph.tasks.size())];
    GraphTask& other = graph.tasks[Below(graph.tasks.size())];
    GraphData& data = graph.data[Below(graph.data.size())];
    std::vector<std::size_t>& uses = UsesOf(task);
    switch (Below(17)) {
      case 0:
        return uses.push_back(Below(graph.data.size()));
      case 1:
        if (!uses.empty()) uses.pop_back();
        return;
      case 2:
        if (!uses.empty()) uses[0] = Below(graph.data.size() + 1);
        return;
      case 3:
        return std::swap(task, other);
      case 4:
        data.kind = static_cast<DataKind>(Below(6));
        data.before = HomeBefore(data.kind);
        data.after = HomeAfter(data.kind);
        return;
      case 5:
        data.bytes = Chance(0.5) ? 0 : std::int64_t{1} << (45 + Below(18));
        return;
      case 6:
        task.name = other.name;
        return;
      case 7:
        data.name = graph.data[Below(graph.data.size())].name;
        return;
      case 8:
        task.algorithms.push_back({"more", 1, static_cast<std::int64_t>(Below(3)) * 700});
        return;
      case 9:
        task.algorithms[0].seconds = Chance(0.5) ? -1e-9 : 1e300;
        return;
      case 10:
        task.phase = static_cast<TaskPhase>(Below(3));
        return;
      case 11:
        return AddData(graph, static_cast<DataKind>(Below(6)));
      case 12:
        data.before = static_cast<DataHome>(Below(3));
        return;
      case 13:
        data.after = static_cast<DataHome>(Below(3));
        return;
      case 14:
        task.may_rerun = true;
        return;
      case 15:
        return AddConfiguration(graph.batch + static_cast<std::int64_t>(Below(3)) - 1, task);
      default:
        task.algorithms.clear();
        return;
    }
  }

 private:
  void AddData(TaskGraph& graph, DataKind kind) {
    graph.data.push_back({"d" + std::to_string(graph.data.size()),
                          static_cast<std::int64_t>(1 + Below(1 << 20)), kind});
  }

  std::vector<std::size_t>& UsesOf(GraphTask& task) {
    const std::size_t which = Below(3);
    return which == 0 ? task.reads : which == 1 ? task.writes : task.updates;
  }

  std::int64_t Number() { return static_cast<std::int64_t>(1 + Below(1000)); }

  LayerParameters Layer() {
    switch (Below(10)) {
      case 0:
        return {};
      case 1:
        return LinearParameters{.n = 2, .inputs = Number(), .outputs = Number(), .bias = 1};
      case 2:
        return MatrixProductParameters{
            .count = 3, .rows = Number(), .inner = Number(), .columns = Number()};
      case 3:
        return PoolingParameters{.c = Number(), .h = 9, .w = 8, .r = 3, .s = 2, .round_up = 1};
      case 4:
        return NormalizationParameters{.n = 1, .c = 8, .h = Number(), .w = 1, .groups = 4};
      case 5:
        return AttentionParameters{.n = 1,
                                   .heads = 8,
                                   .key_heads = 2,
                                   .queries = Number(),
                                   .keys = 5,
                                   .features = 64,
                                   .causal = 1};
      case 6:
        return ElementwiseParameters{.elements = Number()};
      case 7:
        return EmbeddingParameters{.n = 5, .vocabulary = Number(), .features = 3};
      case 8:
        return RecurrentParameters{.steps = Number(), .inputs = 4, .hidden = 4, .layers = 2};
      default:
        return ConvolutionParameters{.n = 4,
                                     .c = 6,
                                     .h = Number(),
                                     .w = 7,
                                     .k = 4,
                                     .r = 3,
                                     .s = 3,
                                     .stride_height = 2,
                                     .padding_width = 1,
                                     .dilation_height = 2,
                                     .groups = 2};
    }
  }

  void AddLayer(std::int64_t batch, GraphTask& task) {
    if (Chance(0.2)) AddConfiguration(batch, task);
    if (task.phase == TaskPhase::kBackward) {
      task.gradients = static_cast<TaskGradients>(Below(3));
    }
    task.may_rerun = task.updates.empty() && task.phase != TaskPhase::kUpdate && Chance(0.5);
    task.parameters = Layer();
    task.data_type = static_cast<DataType>(Below(10));
    task.compute_type = static_cast<DataType>(Below(10));
  }

  // Adds micro-batches that have `samples` together.
  void AddConfiguration(std::int64_t samples, GraphTask& task) {
    TaskAlgorithm more = {"parts", 0.5, 4096};
    while (samples > 0) {
      const auto part = static_cast<std::int64_t>(1 + Below(static_cast<std::size_t>(samples)));
      more.micro_batches.push_back({"a", part});
      samples -= part;
    }
    task.algorithms.push_back(std::move(more));
  }

  void AddTask(TaskGraph& graph, bool is_first) {
    GraphTask task;
    task.name = "t" + std::to_string(graph.tasks.size());
    task.layer = "layer";
    task.phase = static_cast<TaskPhase>(Below(3));
    const std::size_t there = graph.data.size();
    for (std::size_t data = there > 12 ? there - 12 : 0; data < there; ++data) {
      if ((is_first && data == 0) || Chance(0.15)) {
        task.reads.push_back(data);
      } else if (Chance(0.1)) {
        task.updates.push_back(data);
      }
    }
    const std::size_t writes = Below(3) + (task.updates.empty() ? 1 : 0);
    for (std::size_t i = 0; i < writes; ++i) {
      task.writes.push_back(graph.data.size());
      AddData(graph, static_cast<DataKind>(2 + Below(3)));
    }
    task.algorithms = {{"a", 1e-3 * static_cast<double>(Below(1000)), 0}};
    if (Chance(0.3)) task.algorithms.push_back({"b", 0.25, 512});
    graph.tasks.push_back(std::move(task));
  }

  void ReadWhatNobodyRead(TaskGraph& graph) {
    std::vector<bool> are_used(graph.data.size());
    for (const GraphTask& task : graph.tasks) {
      for (const std::size_t data : task.reads) are_used[data] = true;
      for (const std::size_t data : task.updates) are_used[data] = true;
    }
    GraphTask last;
    last.name = "last";
    for (std::size_t data = 0; data < are_used.size(); ++data) {
      if (!are_used[data]) last.reads.push_back(data);
    }
    last.writes.push_back(graph.data.size());
    AddData(graph, DataKind::kActivation);
    last.algorithms = {{"a", 1, 0}};
    graph.tasks.push_back(std::move(last));
  }

  std::mt19937_64 random_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_GRAPH_RANDOM_GRAPH_H_
