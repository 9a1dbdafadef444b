// SPDX-License-Identifier: Apache-2.0
// Makes the task graph of a chain.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/training/chain.h"

namespace tidepool {
namespace {

class ChainGraph {
 public:
  explicit ChainGraph(const Chain& chain) : chain_(chain) {}

  absl::StatusOr<TaskGraph> Make();

 private:
  using Number = std::optional<std::size_t>;  // of data; nothing when it has no bytes

  Number AddData(const char* letter, std::size_t i, std::int64_t bytes, DataKind kind);
  std::size_t Order();
  void AddActivation(std::size_t i);
  void AddTask(const char* letter, std::size_t i, TaskPhase phase, const std::vector<Number>& reads,
               const std::vector<Number>& writes, const TaskAlgorithm& algorithm);

  const Chain& chain_;
  TaskGraph graph_;
  std::vector<Number> x_;     // the outputs
  std::vector<Number> rest_;  // of the activations
  std::vector<Number> y_;
  Number order_;
};

ChainGraph::Number ChainGraph::AddData(const char* letter, std::size_t i, std::int64_t bytes,
                                       DataKind kind) {
  if (bytes == 0) return std::nullopt;
  graph_.data.push_back({.name = absl::StrCat(letter, i), .bytes = bytes, .kind = kind});
  return graph_.data.size() - 1;
}

// Returns the weight that tasks without results update, because each task must do something.
std::size_t ChainGraph::Order() {
  if (!order_.has_value()) {
    graph_.data.push_back({.name = "order", .bytes = 1, .kind = DataKind::kWeight});
    order_ = graph_.data.size() - 1;
  }
  return *order_;
}

void ChainGraph::AddTask(const char* letter, std::size_t i, TaskPhase phase,
                         const std::vector<Number>& reads, const std::vector<Number>& writes,
                         const TaskAlgorithm& algorithm) {
  GraphTask task;
  task.name = absl::StrCat(letter, i);
  task.layer = absl::StrCat("layer", i);
  task.operation = "chain";
  task.phase = phase;
  for (const Number& data : reads) {
    if (data.has_value()) task.reads.push_back(*data);
  }
  for (const Number& data : writes) {
    if (data.has_value()) task.writes.push_back(*data);
  }
  if (task.writes.empty()) task.updates.push_back(Order());
  task.algorithms = {algorithm};
  const bool runs_once = std::binary_search(chain_.runs_once.begin(), chain_.runs_once.end(), i);
  task.may_rerun = phase == TaskPhase::kForward && task.updates.empty() && !runs_once;
  graph_.tasks.push_back(std::move(task));
}

void ChainGraph::AddActivation(std::size_t i) {
  const DataKind kind = i == 0 ? DataKind::kInput : DataKind::kActivation;
  const std::int64_t output = chain_.output.empty() || i == 0 ? chain_.x[i] : chain_.output[i];
  x_.push_back(AddData("x", i, output, kind));
  rest_.push_back(AddData("rest", i, chain_.x[i] - output, kind));
}

absl::StatusOr<TaskGraph> ChainGraph::Make() {
  const std::size_t operations = chain_.forward_seconds.size();
  graph_.name = "chain";
  graph_.link_bytes_per_second = chain_.link_bytes_per_second;
  for (std::size_t i = 0; i <= operations; ++i) {
    AddActivation(i);
    // B_L makes y_(L+1) and uses it up, so it is workspace.
    const bool is_last = i == operations;
    y_.push_back(is_last ? std::nullopt : AddData("y", i, chain_.y[i], DataKind::kGradient));
  }
  for (std::size_t i = 0; i < operations; ++i) {
    AddTask("F", i, TaskPhase::kForward, {x_[i]}, {x_[i + 1], rest_[i + 1]},
            {"F", chain_.forward_seconds[i], chain_.forward_extra[i]});
  }
  for (std::size_t i = operations; i-- > 0;) {
    const std::int64_t own = i + 1 == operations ? chain_.y[operations] : 0;
    AddTask("B", i, TaskPhase::kBackward, {x_[i], x_[i + 1], rest_[i + 1], y_[i + 1]}, {y_[i]},
            {"B", chain_.backward_seconds[i], chain_.backward_extra[i] + own});
  }
  if (absl::Status status = ValidateGraph(graph_); !status.ok()) return status;
  return std::move(graph_);
}

}  // namespace

absl::StatusOr<TaskGraph> FromChain(const Chain& chain) { return ChainGraph(chain).Make(); }

}  // namespace tidepool
