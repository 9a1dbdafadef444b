// SPDX-License-Identifier: Apache-2.0
// Layers of language models besides attention and products: embeddings, RMS normalisation, rotary
// positions, gated units and the loss over a vocabulary.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/models/network_builder.h"

namespace tidepool::models {

Tensor NetworkBuilder::Embedding(const std::string& name, const Tensor& tokens,
                                 const EmbeddingTables& tables, SharedWeight* table) {
  const Shape shape = {tables.features, tokens.shape.height, 1};
  const Tensor output = Output(name, shape);
  Layer layer{
      .name = name, .operation = "embedding", .inputs = {tokens.data}, .outputs = {output.data}};
  Learn("weight", tables.vocabulary * tables.features, layer);
  if (table != nullptr) table->number = layer.weights.front();
  if (tables.positions > 0) Learn("positions", tables.positions * tables.features, layer);
  if (tables.types > 0) Learn("types", tables.types * tables.features, layer);
  const std::int64_t table_bytes = graph_.data[layer.read_weights.front()].bytes;
  layer.parameters = EmbeddingParameters{.n = options_.batch,
                                         .positions = tokens.shape.height,
                                         .vocabulary = tables.vocabulary,
                                         .features = tables.features};
  // Each table is read where a token needs it.
  const double bytes = static_cast<double>(1 + layer.weights.size()) * BytesRead(shape);
  layer.forward = OnlyAlgorithm(gpu_, {.bytes = bytes});
  const Work gradients = {.bytes = bytes + static_cast<double>(table_bytes)};
  AddGradients(layer, {.of_weights = {tokens.data}},
               [&](int) { return OnlyAlgorithm(gpu_, gradients); });
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::RmsNorm(const std::string& name, const Tensor& input) {
  const Shape& shape = input.shape;
  const Tensor output = Output(name, shape);
  Layer layer{
      .name = name, .operation = "rms-norm", .inputs = {input.data}, .outputs = {output.data}};
  const std::size_t scale = Learn("weight", shape.channels, layer);
  layer.saved = {AddData(absl::StrCat(name, ".statistics"), {1, shape.height, shape.width},
                         DataKind::kActivation, DataType::kFloat32)};
  layer.parameters = Normalization(shape);
  layer.kept = {input.data, scale};
  const double bytes = BytesRead(shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 3 * bytes});
  return AddLayer(std::move(layer), output);
}

// The gradient is turned back, so the backward task needs no data. The tables of sines and cosines
// are computed where they are used.
Tensor NetworkBuilder::Rotary(const std::string& name, const Tensor& input) {
  Layer layer{
      .name = name, .operation = "rotary", .updated = input.data, .in_place = InPlace::kTransforms};
  layer.parameters = Elementwise(input.shape);
  const double bytes = BytesRead(input.shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 2 * bytes});
  return AddLayer(std::move(layer), input);
}

Tensor NetworkBuilder::SwiGlu(const std::string& name, const Tensor& gate, const Tensor& up) {
  const Tensor output = Output(name, gate.shape);
  Layer layer{.name = name,
              .operation = "swiglu",
              .inputs = {gate.data, up.data},
              .outputs = {output.data},
              .kept = {gate.data, up.data}};
  layer.parameters = Elementwise(gate.shape, 2);
  const double bytes = BytesRead(gate.shape);
  Costs(layer, {.bytes = 3 * bytes}, {.bytes = 5 * bytes});
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::Tanh(const std::string& name, const Tensor& input) {
  Layer layer{.name = name,
              .operation = "tanh",
              .updated = input.data,
              .in_place = InPlace::kTransforms,
              .kept = {input.data}};
  layer.parameters = Elementwise(input.shape);
  const double bytes = BytesRead(input.shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 3 * bytes});
  return AddLayer(std::move(layer), input);
}

// The forward task reduces the logits of each position, and the backward task computes their
// gradient from them: no tensor of probabilities is kept.
void NetworkBuilder::CrossEntropy(const std::string& name, const Tensor& logits) {
  const Shape& shape = logits.shape;
  Layer layer{.name = name, .operation = "cross-entropy", .inputs = {logits.data}};
  layer.saved = {AddData(absl::StrCat(name, ".log-sum-exp"), {1, shape.height, shape.width},
                         DataKind::kActivation, DataType::kFloat32)};
  layer.parameters = Normalization(shape);
  layer.kept = {logits.data};
  const double bytes = BytesRead(shape);
  Costs(layer, {.bytes = bytes}, {.bytes = 2 * bytes});
  AddLabels(shape, layer);
  AddLayer(std::move(layer), logits);
}

}  // namespace tidepool::models
