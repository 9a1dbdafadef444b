// SPDX-License-Identifier: Apache-2.0
// Derives the backward pass from the layers.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/models/network_builder.h"

namespace tidepool::models {
namespace {

const char* Suffix(TaskGradients gradients) {
  switch (gradients) {
    case TaskGradients::kData:
      return ".backward-data";
    case TaskGradients::kWeights:
      return ".backward-weights";
    case TaskGradients::kAll:
      break;
  }
  return ".backward";
}

}  // namespace

std::size_t NetworkBuilder::NewGradient(std::size_t data) {
  const GraphData& of = graph_.data[data];
  const bool is_weight = of.kind == DataKind::kWeight;
  return AddBytes(absl::StrCat(of.name, ".gradient"), of.bytes,
                  is_weight ? DataKind::kWeightGradient : DataKind::kGradient, of.type);
}

// A sum's gradient equals the gradient of each summand. One summand can share it without a copy, if
// no other layer adds to it.
bool NetworkBuilder::SharesGradient(const Layer& layer) const {
  if (!layer.first_input_may_share_gradient) return false;
  const std::size_t input = layer.inputs.front();
  return HasGradient(input) && readers_[input] == 1 && !gradients_[input].has_value();
}

void NetworkBuilder::AddInputGradients(const Layer& layer, GraphTask& task) {
  std::size_t first = 0;
  if (SharesGradient(layer)) {
    gradients_[layer.inputs.front()] = gradients_[layer.outputs.front()];
    first = 1;
  }
  for (std::size_t i = first; i < layer.inputs.size(); ++i) {
    const std::size_t input = layer.inputs[i];
    if (!HasGradient(input)) continue;
    if (gradients_[input].has_value()) {
      task.updates.push_back(*gradients_[input]);
      continue;
    }
    const std::size_t gradient = NewGradient(input);
    gradients_[input] = gradient;
    task.writes.push_back(gradient);
  }
}

void NetworkBuilder::AddWeightGradients(const Layer& layer, GraphTask& task) {
  for (const std::size_t number : layer.weights) {
    const std::optional<std::size_t> before = weights_[number].gradient;
    if (before.has_value()) {
      task.updates.push_back(*before);
      continue;
    }
    const std::size_t gradient = NewGradient(weights_[number].data);
    weights_[number].gradient = gradient;
    task.writes.push_back(gradient);
  }
}

void NetworkBuilder::AddBackwardReads(const Layer& layer, GraphTask& task) const {
  task.reads.insert(task.reads.end(), layer.kept.begin(), layer.kept.end());
  task.reads.insert(task.reads.end(), layer.saved.begin(), layer.saved.end());
  for (const std::size_t output : layer.outputs) task.reads.push_back(gradients_[output].value());
  if (!layer.updated.has_value()) return;
  auto& uses = layer.in_place == InPlace::kTransforms ? task.updates : task.reads;
  uses.push_back(gradients_[*layer.updated].value());
}

void NetworkBuilder::AddBackward(const Layer& layer) {
  for (const BackwardTask& backward : layer.backward) {
    GraphTask task = NewTask(layer, Suffix(backward.gradients), TaskPhase::kBackward);
    task.gradients = backward.gradients;
    task.reads = backward.kept;
    AddBackwardReads(layer, task);
    if (backward.gradients != TaskGradients::kWeights) AddInputGradients(layer, task);
    if (backward.gradients != TaskGradients::kData) AddWeightGradients(layer, task);
    task.algorithms = backward.algorithms;
    task.may_rerun = true;
    graph_.tasks.push_back(std::move(task));
  }
}

}  // namespace tidepool::models
