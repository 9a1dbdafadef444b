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

// Bytes of gradients that B_maker writes, and that B_reader reads last.
struct Gradient {
  std::size_t maker = 0;
  std::size_t reader = 0;
  std::int64_t bytes = 0;
};

// Takes the latest bytes off `live`, and appends them to `read` with their reader.
void Read(std::int64_t bytes, std::size_t reader, std::vector<Gradient>& live,
          std::vector<Gradient>& read) {
  while (bytes > 0) {
    Gradient& latest = live.back();
    const std::int64_t part = std::min(latest.bytes, bytes);
    read.push_back({latest.maker, reader, part});
    bytes -= part;
    latest.bytes -= part;
    if (latest.bytes == 0) live.pop_back();
  }
}

// Returns the gradients of a chain. Those of y_(i+1) that stay through B_i are a part of y_i. B_L
// makes y_(L+1) and uses it up, so that is workspace.
std::vector<Gradient> GradientsOf(const Chain& chain) {
  std::vector<Gradient> live;
  std::vector<Gradient> read;
  const std::size_t operations = chain.forward_seconds.size();
  for (std::size_t i = operations; i-- > 0;) {
    const bool is_first = i + 1 == operations;
    const std::int64_t stay = is_first ? 0 : std::max<std::int64_t>(0, -chain.backward_extra[i]);
    if (!is_first) Read(chain.y[i + 1] - stay, i, live, read);
    if (chain.y[i] > stay) live.push_back({i, 0, chain.y[i] - stay});
  }
  read.insert(read.end(), live.begin(), live.end());
  return read;
}

class ChainGraph {
 public:
  explicit ChainGraph(const Chain& chain)
      : chain_(chain), y_read_(chain.y.size()), y_written_(chain.y.size()) {}

  absl::StatusOr<TaskGraph> Make();

 private:
  using Number = std::optional<std::size_t>;  // of data; nothing when it has no bytes

  Number AddData(const char* letter, std::size_t i, std::int64_t bytes, DataKind kind);
  std::size_t Order();
  void AddActivation(std::size_t i);
  void AddGradients(const std::vector<Gradient>& gradients);
  void AddBackward(std::size_t i);
  void AddTask(const char* letter, std::size_t i, TaskPhase phase, const std::vector<Number>& reads,
               const std::vector<Number>& writes, const TaskAlgorithm& algorithm);

  const Chain& chain_;
  TaskGraph graph_;
  std::vector<Number> x_;     // the outputs
  std::vector<Number> rest_;  // of the activations
  // By backward operation: the gradients that it reads last, and those that it writes.
  std::vector<std::vector<Number>> y_read_;
  std::vector<std::vector<Number>> y_written_;
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

void ChainGraph::AddGradients(const std::vector<Gradient>& gradients) {
  for (const Gradient& gradient : gradients) {
    std::vector<Number>& written = y_written_[gradient.maker];
    written.push_back(AddData("y", gradient.maker, gradient.bytes, DataKind::kGradient));
    if (written.size() > 1) {
      absl::StrAppend(&graph_.data.back().name, " part ", written.size());
    }
    if (gradient.maker != gradient.reader) y_read_[gradient.reader].push_back(written.back());
  }
}

void ChainGraph::AddBackward(std::size_t i) {
  std::vector<Number> reads = {x_[i], x_[i + 1], rest_[i + 1]};
  reads.insert(reads.end(), y_read_[i].begin(), y_read_[i].end());
  const std::int64_t own = i + 1 == chain_.forward_seconds.size() ? chain_.y[i + 1] : 0;
  const std::int64_t workspace = std::max<std::int64_t>(0, chain_.backward_extra[i] + own);
  AddTask("B", i, TaskPhase::kBackward, reads, y_written_[i],
          {"B", chain_.backward_seconds[i], workspace});
}

absl::StatusOr<TaskGraph> ChainGraph::Make() {
  const std::size_t operations = chain_.forward_seconds.size();
  graph_.name = "chain";
  graph_.link_bytes_per_second = chain_.link_bytes_per_second;
  for (std::size_t i = 0; i <= operations; ++i) AddActivation(i);
  AddGradients(GradientsOf(chain_));
  for (std::size_t i = 0; i < operations; ++i) {
    AddTask("F", i, TaskPhase::kForward, {x_[i]}, {x_[i + 1], rest_[i + 1]},
            {"F", chain_.forward_seconds[i], chain_.forward_extra[i]});
  }
  for (std::size_t i = operations; i-- > 0;) AddBackward(i);
  if (absl::Status status = ValidateGraph(graph_); !status.ok()) return status;
  return std::move(graph_);
}

}  // namespace

absl::StatusOr<TaskGraph> FromChain(const Chain& chain) { return ChainGraph(chain).Make(); }

}  // namespace tidepool
