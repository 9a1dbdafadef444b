// SPDX-License-Identifier: Apache-2.0
// Random graphs of a few tasks, with times and sizes in whole seconds and units, for SearchExactly.
#ifndef TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_SMALL_GRAPHS_H_
#define TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_SMALL_GRAPHS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/exact_search/exact_training.h"
#include "tidepool/training/graph.h"

namespace tidepool::testing {

struct SmallGraphShape {
  std::size_t layers = 2;  // tasks forward, and as many backward
  std::int64_t unit = 512;
  bool has_loss = true;    // a task between forward and backward
  bool has_skips = false;  // tasks that read the output of an earlier layer too
  bool has_workspaces = false;
  bool has_weights = false;  // a weight for each layer, its gradient and its update
  DataHome input = DataHome::kHost;
  bool has_input = true;    // or one of the weights in its place
  bool has_labels = false;  // an input of the device for the task after those forward
};

// Makes a chain of layers, each with an output that its backward task, or also the one before it,
// reads again. Forward tasks may run again.
class SmallGraphs {
 public:
  explicit SmallGraphs(std::uint64_t seed) : random_(seed) {}

  int From(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool Chance(int percent) { return From(1, 100) <= percent; }

  TaskGraph Make(const SmallGraphShape& shape) {
    shape_ = shape;
    graph_ = TaskGraph();
    graph_.name = "small";
    graph_.batch = 1;
    outputs_ = {Add("x0", shape.has_input ? DataKind::kInput : DataKind::kWeight, From(1, 8))};
    if (shape.has_input) graph_.data[0].before = shape.input;
    for (std::size_t i = 0; i < shape.layers; ++i) AddForward(i);
    std::size_t slope = outputs_.back();
    if (shape.has_loss) {
      slope = Add("loss", DataKind::kGradient, From(1, 4));
      AddTask("loss", TaskPhase::kBackward, {outputs_.back()}, slope);
    }
    for (std::size_t i = shape.layers; i-- > 0;) slope = AddBackward(i, slope);
    if (shape.has_weights) AddUpdates();
    if (shape.has_labels) {
      graph_.tasks[shape.layers].reads.push_back(Add("labels", DataKind::kInput, From(1, 4)));
      graph_.data.back().before = DataHome::kDevice;
    }
    return std::move(graph_);
  }

 private:
  std::size_t Add(std::string name, DataKind kind, std::int64_t units) {
    graph_.data.push_back({std::move(name), units * shape_.unit, kind});
    return graph_.data.size() - 1;
  }

  void AddTask(const std::string& name, TaskPhase phase, std::vector<std::size_t> reads,
               std::size_t written) {
    GraphTask task = {.name = name, .phase = phase, .reads = std::move(reads), .writes = {written}};
    const bool has_workspace = shape_.has_workspaces && Chance(35);
    task.algorithms = {{"only",
                        static_cast<double>(From(1, phase == TaskPhase::kForward ? 12 : 16)),
                        has_workspace ? From(1, 4) * shape_.unit : 0}};
    task.may_rerun = phase == TaskPhase::kForward;
    graph_.tasks.push_back(std::move(task));
  }

  void AddForward(std::size_t i) {
    const std::string number = std::to_string(i);
    std::vector<std::size_t> reads = {outputs_[i]};
    skips_.resize(i + 1);
    skips_[i] = shape_.has_skips && i >= 2 && Chance(40) ? outputs_[i - 2] : outputs_[i];
    if (skips_[i] != outputs_[i]) reads.push_back(skips_[i]);
    if (shape_.has_weights) {
      weights_.resize(i + 1);
      reads.push_back(weights_[i] = Add("w" + number, DataKind::kWeight, 2 * From(1, 2)));
    }
    outputs_.push_back(Add("x" + std::to_string(i + 1), DataKind::kActivation, From(1, 8)));
    AddTask("forward" + number, TaskPhase::kForward, std::move(reads), outputs_.back());
  }

  std::size_t AddBackward(std::size_t i, std::size_t slope) {
    const std::string number = std::to_string(i);
    std::vector<std::size_t> reads = {slope};
    const auto read = [&](std::size_t data) {
      if (std::ranges::count(reads, data) == 0) reads.push_back(data);
    };
    read(outputs_[i]);
    if (Chance(30)) read(outputs_[i + 1]);
    read(skips_[i]);
    if (shape_.has_weights) {
      const std::size_t gradient = Add("dw" + number, DataKind::kWeightGradient,
                                       graph_.data[weights_[i]].bytes / shape_.unit);
      gradients_.resize(std::max(gradients_.size(), i + 1));
      gradients_[i] = gradient;
      if (i == 0) {
        AddTask("backward" + number, TaskPhase::kBackward, std::move(reads), gradient);
        return gradient;
      }
      const std::size_t made =
          Add("dx" + number, DataKind::kGradient, graph_.data[outputs_[i]].bytes / shape_.unit);
      reads.push_back(weights_[i]);
      AddTask("backward" + number, TaskPhase::kBackward, std::move(reads), made);
      graph_.tasks.back().writes.push_back(gradient);
      return made;
    }
    const std::int64_t units = i > 0 ? graph_.data[outputs_[i]].bytes / shape_.unit : 1;
    const std::size_t made = Add("dx" + number, DataKind::kGradient, units);
    AddTask("backward" + number, TaskPhase::kBackward, std::move(reads), made);
    return made;
  }

  void AddUpdates() {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      graph_.tasks.push_back({.name = "update" + std::to_string(i),
                              .phase = TaskPhase::kUpdate,
                              .reads = {gradients_[i]},
                              .updates = {weights_[i]},
                              .algorithms = {{"only", static_cast<double>(From(1, 4)), 0}}});
    }
  }

  std::mt19937_64 random_;
  SmallGraphShape shape_;
  TaskGraph graph_;
  std::vector<std::size_t> outputs_;  // the input, and the output of each layer
  std::vector<std::size_t> skips_;    // by layer: the other datum that it reads
  std::vector<std::size_t> weights_;
  std::vector<std::size_t> gradients_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_SMALL_GRAPHS_H_
