// SPDX-License-Identifier: Apache-2.0
// Derives tasks from layers: a layer lists the data that it reads, writes and keeps, and one rule
// turns all layers into tasks. network_backward.cc has the backward pass.
#include "lib/training/models/network_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::models {

namespace {

DataType TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat16:
      return DataType::kFloat16;
    case Precision::kBfloat16:
      return DataType::kBfloat16;
    case Precision::kFloat32:
      break;
  }
  return DataType::kFloat32;
}

// Returns the GPU with the rate of the precision in the place of that of single precision.
GpuRates AtPrecision(GpuRates gpu, DataType type) {
  if (type == DataType::kFloat32) return gpu;
  gpu.has_tensor_float32 = false;
  const double rate =
      type == DataType::kFloat16 ? gpu.float16_flops_per_second : gpu.bfloat16_flops_per_second;
  gpu.flops_per_second = std::max(gpu.flops_per_second, rate);
  return gpu;
}

}  // namespace

NetworkBuilder::NetworkBuilder(std::string name, const ModelOptions& options, const GpuRates& gpu)
    : options_(options),
      gpu_(AtPrecision(gpu, TypeOf(options.precision))),
      type_(TypeOf(options.precision)) {
  graph_.name = std::move(name);
  graph_.batch = options.batch;
}

std::size_t NetworkBuilder::AddBytes(const std::string& name, std::int64_t bytes, DataKind kind,
                                     DataType type) {
  GraphData data = {name, bytes, kind, HomeBefore(kind), HomeAfter(kind), type};
  if (kind == DataKind::kInput) data.before = options_.inputs;
  const bool stays = kind == DataKind::kWeight || kind == DataKind::kOptimizerState ||
                     (kind == DataKind::kWeightGradient &&
                      options_.weight_gradients == WeightGradients::kResident);
  if (stays) data.before = data.after = options_.weights;
  graph_.data.push_back(std::move(data));
  readers_.push_back(0);
  has_gradient_.push_back(kind == DataKind::kActivation);
  gradients_.emplace_back();
  return graph_.data.size() - 1;
}

std::size_t NetworkBuilder::AddData(const std::string& name, const Shape& shape, DataKind kind,
                                    DataType type) {
  const std::int64_t bytes =
      Product({BytesOf(type), options_.batch, shape.channels, shape.height, shape.width});
  return AddBytes(name, bytes, kind, type);
}

std::size_t NetworkBuilder::AddFixedData(const std::string& name, std::int64_t elements,
                                         DataKind kind, DataType type) {
  return AddBytes(name, Product({BytesOf(type), elements}), kind, type);
}

std::int64_t NetworkBuilder::Bytes(const Shape& shape) const {
  return Product({BytesOf(type_), options_.batch, shape.channels, shape.height, shape.width});
}

Tensor NetworkBuilder::Input(const Shape& shape) {
  const std::size_t data = AddData("input", shape, DataKind::kInput, type_);
  has_gradient_[data] = options_.input_gradient;
  return {data, shape};
}

Tensor NetworkBuilder::Tokens(std::int64_t count) {
  const Shape shape = {.height = count};
  return {AddData("input", shape, DataKind::kInput, DataType::kInt32), shape};
}

Tensor NetworkBuilder::Output(const std::string& name, const Shape& shape) {
  return {AddData(absl::StrCat(name, ".output"), shape, DataKind::kActivation, type_), shape};
}

std::size_t NetworkBuilder::Learn(const std::string& name, std::int64_t elements, Layer& layer) {
  const std::size_t data =
      AddFixedData(absl::StrCat(layer.name, ".", name), elements, DataKind::kWeight, type_);
  parameters_ += elements;
  layer.weights.push_back(weights_.size());
  layer.read_weights.push_back(data);
  weights_.push_back({data, elements, layers_.size(), std::nullopt});
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

GraphTask NetworkBuilder::NewTask(const Layer& layer, const char* suffix, TaskPhase phase) const {
  GraphTask task;
  task.name = absl::StrCat(layer.name, suffix);
  task.layer = layer.name;
  task.operation = layer.operation;
  task.phase = phase;
  task.parameters = layer.parameters;
  task.data_type = type_;
  const bool is_product = gpu_.has_tensor_float32 && layer.is_product;
  task.compute_type = is_product ? DataType::kTensorFloat32 : DataType::kFloat32;
  return task;
}

void NetworkBuilder::AddForward(const Layer& layer) {
  if (layer.forward.empty()) return;
  GraphTask task = NewTask(layer, ".forward", TaskPhase::kForward);
  task.reads = layer.inputs;
  task.reads.insert(task.reads.end(), layer.read_weights.begin(), layer.read_weights.end());
  task.writes = layer.outputs;
  task.writes.insert(task.writes.end(), layer.saved.begin(), layer.saved.end());
  if (layer.updated.has_value()) task.updates.push_back(*layer.updated);
  task.updates.insert(task.updates.end(), layer.statistics.begin(), layer.statistics.end());
  task.algorithms = layer.forward;
  task.may_rerun = !layer.is_random;
  graph_.tasks.push_back(std::move(task));
}

// A task writes the same values again if it changes nothing in place, and if no task changes its
// results or, later, its inputs in place. Gradients of weights are sums over rounds, so a second
// run would add to them twice.
void NetworkBuilder::MarkReruns() {
  std::vector<std::size_t> last_update(graph_.data.size());  // one more than the task; 0: never
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    if (graph_.tasks[i].phase == TaskPhase::kUpdate) continue;
    for (const std::size_t data : graph_.tasks[i].updates) last_update[data] = i + 1;
  }
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    GraphTask& task = graph_.tasks[i];
    const bool keeps = std::ranges::all_of(task.writes, [&](std::size_t data) {
      return last_update[data] == 0 && graph_.data[data].kind != DataKind::kWeightGradient;
    });
    const bool finds =
        std::ranges::all_of(task.reads, [&](std::size_t data) { return last_update[data] <= i; });
    task.may_rerun = task.may_rerun && task.updates.empty() && keeps && finds;
  }
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
  MarkReruns();
  if (absl::Status status = ValidateGraph(graph_); !status.ok()) return status;
  return Network{std::move(graph_), parameters_};
}

}  // namespace tidepool::models
