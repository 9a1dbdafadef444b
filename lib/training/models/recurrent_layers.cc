// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: a task for each step, with weights that all steps share.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/models/network_builder.h"

namespace tidepool::models {
namespace {

constexpr std::int64_t kGates = 4;  // input, forget, cell and output

}  // namespace

std::vector<Tensor> NetworkBuilder::Lstm(const std::string& name, const std::vector<Tensor>& inputs,
                                         std::int64_t hidden) {
  std::vector<Tensor> outputs;
  outputs.reserve(inputs.size());
  LstmStep step;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    step.is_last = i + 1 == inputs.size();
    outputs.push_back(
        AddLstmStep(absl::StrCat(name, ".step", i + 1), inputs[i], {.channels = hidden}, step));
  }
  return outputs;
}

// The matrix and the bias of all gates belong to the first step.
void NetworkBuilder::AddLstmWeights(std::int64_t inputs, std::int64_t hidden, LstmStep& step,
                                    Layer& layer) {
  if (step.weights.empty()) {
    Learn("weight", kGates * hidden * (inputs + hidden), layer);
    Learn("bias", kGates * hidden, layer);
    step.weights = layer.weights;
    return;
  }
  layer.weights = step.weights;
  for (const std::size_t number : step.weights) {
    layer.read_weights.push_back(weights_[number].data);
  }
}

// Adds the new cell. That of the last step has no reader in the forward pass, so its backward task
// alone reads it.
void NetworkBuilder::AddLstmCell(const Shape& state, LstmStep& step, Layer& layer) {
  const std::size_t cell =
      AddData(absl::StrCat(layer.name, ".cell"), state, DataKind::kActivation, type_);
  if (step.is_last) {
    layer.saved.push_back(cell);
    return;
  }
  layer.outputs.push_back(cell);
  layer.kept.push_back(cell);
  step.cell = cell;
}

// One task computes all gradients: those of weights and those of data need the gradients of the
// gates. The state before the first step is zero, and no data.
Tensor NetworkBuilder::AddLstmStep(const std::string& name, const Tensor& input, const Shape& state,
                                   LstmStep& step) {
  Layer layer{.name = name, .operation = "lstm", .inputs = {input.data}};
  if (step.hidden.has_value()) layer.inputs.insert(layer.inputs.end(), {*step.hidden, *step.cell});
  AddLstmWeights(input.shape.channels, state.channels, step, layer);
  layer.kept = layer.inputs;
  layer.kept.push_back(layer.read_weights.front());
  const Tensor output = Output(name, state);
  layer.outputs = {output.data};
  step.hidden = output.data;
  const Shape gates = {kGates * state.channels};
  layer.saved = {AddData(absl::StrCat(name, ".gates"), gates, DataKind::kActivation, type_)};
  AddLstmCell(state, step, layer);
  layer.parameters = RecurrentParameters{
      .n = options_.batch, .steps = 1, .inputs = input.shape.channels, .hidden = state.channels};
  layer.is_product = true;
  const double operations =
      2.0 * static_cast<double>(options_.batch) *
      static_cast<double>(gates.channels * (input.shape.channels + state.channels));
  const double bytes = BytesRead(input.shape) + BytesRead(gates) + 4 * BytesRead(state) +
                       static_cast<double>(graph_.data[layer.read_weights.front()].bytes);
  Costs(layer, {operations, bytes}, {2 * operations, 2 * bytes});
  return AddLayer(std::move(layer), output);
}

}  // namespace tidepool::models
