// SPDX-License-Identifier: Apache-2.0
// Derives tasks from layers: a layer lists the data that it reads, writes and keeps, and one rule
// turns all layers into tasks. network_backward.cc has the backward pass.
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
  has_gradient_.push_back(kind == DataKind::kActivation);
  gradients_.emplace_back();
  return graph_.data.size() - 1;
}

std::int64_t NetworkBuilder::Bytes(const Shape& shape) const {
  return BytesOf({options_.batch, shape.channels, shape.height, shape.width});
}

Tensor NetworkBuilder::Input(const Shape& shape) {
  const std::size_t data = AddData("input", Bytes(shape), DataKind::kInput);
  has_gradient_[data] = options_.input_gradient;
  return {data, shape};
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
  layer.backward = {{.algorithms = OnlyAlgorithm(gpu_, backward)}};
}

void NetworkBuilder::AddGradients(Layer& layer, const KeptData& kept,
                                  absl::FunctionRef<std::vector<TaskAlgorithm>(int)> algorithms) {
  const bool has_both = HasGradient(layer.inputs.front());
  if (options_.backward == BackwardTasks::kFused) {
    layer.backward = {{.kept = kept.of_weights, .algorithms = algorithms(has_both ? 2 : 1)}};
    std::vector<std::size_t>& reads = layer.backward.front().kept;
    if (has_both) reads.insert(reads.end(), kept.of_data.begin(), kept.of_data.end());
    return;
  }
  layer.backward = {{TaskGradients::kWeights, kept.of_weights, algorithms(1)}};
  if (has_both) layer.backward.push_back({TaskGradients::kData, kept.of_data, algorithms(1)});
}

Tensor NetworkBuilder::AddLayer(Layer layer, const Tensor& output) {
  for (const std::size_t input : layer.inputs) ++readers_[input];
  if (layer.updated.has_value()) ++readers_[*layer.updated];
  layers_.push_back(std::move(layer));
  return output;
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

absl::StatusOr<Network> NetworkBuilder::Finish() && {
  if (!status_.ok()) return status_;
  for (const Layer& layer : layers_) AddForward(layer);
  const bool updates_at_once = options_.weight_gradients == WeightGradients::kTemporary;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    AddBackward(layers_[i]);
    if (updates_at_once) AddUpdate(i);
  }
  for (std::size_t i = layers_.size(); i-- > 0 && !updates_at_once;) AddUpdate(i);
  if (absl::Status status = ValidateGraph(graph_); !status.ok()) return status;
  return Network{std::move(graph_), parameters_};
}

}  // namespace tidepool::models
