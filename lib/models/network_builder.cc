// SPDX-License-Identifier: Apache-2.0
// Derives tasks from layers: a layer lists the data that it reads, writes and keeps, and one rule
// turns all layers into tasks.
#include "lib/models/network_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::models {

NetworkBuilder::NetworkBuilder(std::string name, const ModelOptions& options, const GpuRates& gpu)
    : options_(options), gpu_(gpu) {
  graph_.name = std::move(name);
  graph_.batch = options.batch;
}

std::size_t NetworkBuilder::AddData(const std::string& name, std::int64_t bytes, DataKind kind) {
  graph_.data.push_back({name, bytes, kind});
  readers_.push_back(0);
  gradients_.emplace_back();
  return graph_.data.size() - 1;
}

std::int64_t NetworkBuilder::Bytes(const Shape& shape) const {
  return BytesOf({options_.batch, shape.channels, shape.height, shape.width});
}

Tensor NetworkBuilder::Input(const Shape& shape) {
  return {AddData("input", Bytes(shape), DataKind::kInput), shape};
}

Tensor NetworkBuilder::Output(const std::string& name, const Shape& shape) {
  return {AddData(absl::StrCat(name, ".output"), Bytes(shape), DataKind::kActivation), shape};
}

std::size_t NetworkBuilder::Learn(const std::string& name, std::int64_t elements, Layer& layer) {
  const std::size_t data =
      AddData(absl::StrCat(layer.name, ".", name), BytesOf({elements}), DataKind::kWeight);
  parameters_ += elements;
  layer.weights.push_back(weights_.size());
  layer.read_weights.push_back(data);
  weights_.push_back({data, layers_.size(), std::nullopt});
  return data;
}

void NetworkBuilder::Costs(Layer& layer, const Work& forward, const Work& backward) const {
  layer.forward = OnlyAlgorithm(gpu_, forward);
  layer.backward = OnlyAlgorithm(gpu_, backward);
}

Tensor NetworkBuilder::AddLayer(Layer layer, const Tensor& output) {
  for (const std::size_t input : layer.inputs) ++readers_[input];
  if (layer.updated.has_value()) ++readers_[*layer.updated];
  layers_.push_back(std::move(layer));
  return output;
}

bool NetworkBuilder::HasGradient(std::size_t data) const {
  return graph_.data[data].kind == DataKind::kActivation;
}

void NetworkBuilder::Refuse(const std::string& what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(what);
}

void NetworkBuilder::AddForward(const Layer& layer) {
  if (layer.forward.empty()) return;
  GraphTask task;
  task.name = absl::StrCat(layer.name, ".forward");
  task.layer = layer.name;
  task.operation = layer.operation;
  task.reads = layer.inputs;
  task.reads.insert(task.reads.end(), layer.read_weights.begin(), layer.read_weights.end());
  task.writes = layer.outputs;
  task.writes.insert(task.writes.end(), layer.saved.begin(), layer.saved.end());
  if (layer.updated.has_value()) task.updates.push_back(*layer.updated);
  task.updates.insert(task.updates.end(), layer.statistics.begin(), layer.statistics.end());
  task.algorithms = layer.forward;
  graph_.tasks.push_back(std::move(task));
}

std::size_t NetworkBuilder::NewGradient(std::size_t data) {
  const GraphData& of = graph_.data[data];
  const bool is_weight = of.kind == DataKind::kWeight;
  return AddData(absl::StrCat(of.name, ".gradient"), of.bytes,
                 is_weight ? DataKind::kWeightGradient : DataKind::kGradient);
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

void NetworkBuilder::AddBackward(std::size_t index) {
  const Layer& layer = layers_[index];
  GraphTask task;
  task.name = absl::StrCat(layer.name, ".backward");
  task.layer = layer.name;
  task.operation = layer.operation;
  task.phase = TaskPhase::kBackward;
  task.reads = layer.kept;
  task.reads.insert(task.reads.end(), layer.saved.begin(), layer.saved.end());
  for (const std::size_t output : layer.outputs) task.reads.push_back(gradients_[output].value());
  if (layer.updated.has_value()) {
    auto& uses = layer.in_place == InPlace::kTransforms ? task.updates : task.reads;
    uses.push_back(gradients_[*layer.updated].value());
  }
  AddInputGradients(layer, task);
  AddWeightGradients(layer, task);
  task.algorithms = layer.backward;
  graph_.tasks.push_back(std::move(task));
}

// Adds plain gradient descent: it reads a weight and its gradient, and writes the weight.
void NetworkBuilder::AddUpdate(std::size_t index) {
  const Layer& layer = layers_[index];
  GraphTask task;
  Work work;
  for (const std::size_t number : layer.weights) {
    const Weight& weight = weights_[number];
    if (weight.first_layer != index) continue;
    task.reads.push_back(weight.gradient.value());
    task.updates.push_back(weight.data);
    const auto bytes = static_cast<double>(graph_.data[weight.data].bytes);
    work.bytes += 3 * bytes;
    work.operations += 2 * bytes / kWordBytes;
  }
  if (task.updates.empty()) return;
  task.name = absl::StrCat(layer.name, ".update");
  task.layer = layer.name;
  task.operation = layer.operation;
  task.phase = TaskPhase::kUpdate;
  task.algorithms = OnlyAlgorithm(gpu_, work);
  graph_.tasks.push_back(std::move(task));
}

absl::StatusOr<Network> NetworkBuilder::Finish() && {
  if (!status_.ok()) return status_;
  for (const Layer& layer : layers_) AddForward(layer);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    AddBackward(i);
    AddUpdate(i);
  }
  if (absl::Status status = ValidateGraph(graph_); !status.ok()) return status;
  return Network{std::move(graph_), parameters_};
}

}  // namespace tidepool::models
