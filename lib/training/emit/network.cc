// SPDX-License-Identifier: Apache-2.0
#include "lib/training/emit/network.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"

namespace tidepool::emit {
namespace {

bool IsForward(const GraphTask& task, const char* operation) {
  return task.phase == TaskPhase::kForward && task.operation == operation;
}

// Returns the deviation of He et al. for a layer's weights, and 0 for other layers.
double DeviationOf(const LayerParameters& parameters) {
  double inputs = 0;
  if (const auto* c = std::get_if<ConvolutionParameters>(&parameters)) {
    const std::int64_t channels = c->c / c->groups;
    inputs = static_cast<double>(channels * c->r * c->s);
  } else if (const auto* linear = std::get_if<LinearParameters>(&parameters)) {
    inputs = static_cast<double>(linear->inputs);
  }
  return inputs > 0 ? std::sqrt(2 / inputs) : 0;
}

// Notes how the weights of a layer begin: scales with 1, shifts and biases with 0.
void AddFills(const TaskGraph& graph, const GraphTask& task, std::vector<WeightFill>& fills) {
  const bool normalizes = std::holds_alternative<NormalizationParameters>(task.parameters);
  bool is_first = true;
  for (const std::size_t data : task.reads) {
    if (graph.data[data].kind != DataKind::kWeight) continue;
    if (is_first && normalizes) fills[data].value = fills[data].second_half = 1;
    if (is_first && !normalizes) fills[data].deviation = DeviationOf(task.parameters);
    is_first = false;
  }
  for (const std::size_t data : task.updates) {
    if (graph.data[data].kind == DataKind::kWeight) fills[data].second_half = 1;
  }
}

bool IsAdam(const TaskGraph& graph, const GraphTask& task) {
  const auto count = [&](DataKind kind) {
    return std::ranges::count(task.updates, kind,
                              [&](std::size_t data) { return graph.data[data].kind; });
  };
  const auto states = count(DataKind::kOptimizerState);
  return task.phase == TaskPhase::kUpdate && states > 0 && states == 2 * count(DataKind::kWeight);
}

absl::Status FindLoss(const TaskGraph& graph, Network& network) {
  const auto loss = std::ranges::find(graph.tasks, "loss", &GraphTask::operation);
  if (loss == graph.tasks.end()) {
    return absl::InvalidArgumentError(
        "the graph has no task of the operation 'loss', expected one after a softmax");
  }
  for (const std::size_t data : loss->reads) {
    if (graph.data[data].kind == DataKind::kInput) network.labels = data;
    for (const GraphTask& task : graph.tasks) {
      if (!IsForward(task, "softmax") || task.writes.empty() || task.writes.front() != data) {
        continue;
      }
      const auto* shape = std::get_if<NormalizationParameters>(&task.parameters);
      if (shape == nullptr) return AboutTask(task, "has no layer parameters, expected a softmax's");
      network.log_probabilities = data;
      network.classes = shape->c;
      network.positions = shape->h * shape->w;
    }
  }
  if (network.classes > 0) return absl::OkStatus();
  return AboutTask(*loss, "reads no output of a softmax, expected the loss of a softmax");
}

absl::Status FindInput(const TaskGraph& graph, Network& network) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    if (graph.data[i].kind != DataKind::kInput || network.labels == i) continue;
    network.input = i;
    ++found;
  }
  if (found == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the graph has ", found, " inputs besides labels, expected 1"));
}

}  // namespace

absl::Status AboutTask(const GraphTask& task, const std::string& fault) {
  return absl::InvalidArgumentError(absl::StrCat("task ", text::Quoted(task.name), " ", fault));
}

absl::StatusOr<Network> FindNetwork(const TaskGraph& graph) {
  Network network;
  if (absl::Status status = FindLoss(graph, network); !status.ok()) return status;
  if (absl::Status status = FindInput(graph, network); !status.ok()) return status;
  network.fills.resize(graph.data.size());
  for (const GraphTask& task : graph.tasks) {
    if (task.phase == TaskPhase::kForward) AddFills(graph, task, network.fills);
    if (IsForward(task, "dropout")) network.dropouts.push_back(task.layer);
    network.has_adam = network.has_adam || IsAdam(graph, task);
  }
  return network;
}

}  // namespace tidepool::emit
