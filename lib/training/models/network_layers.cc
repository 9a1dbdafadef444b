// SPDX-License-Identifier: Apache-2.0
// The data that each kind of layer reads, writes and keeps for its gradients, and its costs: layers
// that are no products.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/models/network_builder.h"

namespace tidepool::models {
namespace {

// Statistics that a normalisation keeps: a mean and a deviation.
constexpr std::int64_t kStatistics = 2;

}  // namespace

ElementwiseParameters NetworkBuilder::Elementwise(const Shape& shape, std::int64_t inputs) const {
  return {.n = options_.batch, .elements = shape.elements(), .inputs = inputs};
}

NormalizationParameters NetworkBuilder::Normalization(const Shape& shape) const {
  return {.n = options_.batch, .c = shape.channels, .h = shape.height, .w = shape.width};
}

Tensor NetworkBuilder::Relu(const std::string& name, const Tensor& input) {
  Layer layer{.name = name, .operation = "relu", .updated = input.data};
  layer.parameters = Elementwise(input.shape);
  layer.in_place = InPlace::kTransforms;
  layer.kept = {input.data};
  const double bytes = BytesRead(input.shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 3 * bytes});
  return AddLayer(std::move(layer), input);
}

Tensor NetworkBuilder::Gelu(const std::string& name, const Tensor& input) {
  const Tensor output = Output(name, input.shape);
  Layer layer{.name = name, .operation = "gelu", .inputs = {input.data}, .outputs = {output.data}};
  layer.parameters = Elementwise(input.shape);
  layer.kept = {input.data};
  const double bytes = BytesRead(input.shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 3 * bytes});
  return AddLayer(std::move(layer), output);
}

// cuDNN finds the maximum again in X by Y; an average needs neither.
Tensor NetworkBuilder::Pool(const std::string& name, const Tensor& input, const Pooling& pooling,
                            bool is_max) {
  const Shape& in = input.shape;
  const auto windows = [&](std::int64_t side) {
    return Windows(name, side, pooling.kernel, pooling.stride, pooling.padding, pooling.round_up);
  };
  const Tensor output = Output(name, {in.channels, windows(in.height), windows(in.width)});
  Layer layer{.name = name,
              .operation = is_max ? "max-pool" : "average-pool",
              .inputs = {input.data},
              .outputs = {output.data}};
  if (is_max) layer.kept = {input.data, output.data};
  layer.parameters = PoolingParameters{.n = options_.batch,
                                       .c = in.channels,
                                       .h = in.height,
                                       .w = in.width,
                                       .r = pooling.kernel,
                                       .s = pooling.kernel,
                                       .stride_height = pooling.stride,
                                       .stride_width = pooling.stride,
                                       .padding_height = pooling.padding,
                                       .padding_width = pooling.padding,
                                       .round_up = pooling.round_up ? 1 : 0};
  const double bytes = BytesRead(in) + BytesRead(output.shape);
  Costs(layer, {.bytes = bytes}, {.bytes = is_max ? 2 * bytes : bytes});
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::MaxPool(const std::string& name, const Tensor& input,
                               const Pooling& pooling) {
  return Pool(name, input, pooling, true);
}

Tensor NetworkBuilder::AveragePool(const std::string& name, const Tensor& input,
                                   const Pooling& pooling) {
  return Pool(name, input, pooling, false);
}

Tensor NetworkBuilder::GlobalAveragePool(const std::string& name, const Tensor& input) {
  const Tensor output = Output(name, {input.shape.channels, 1, 1});
  Layer layer{
      .name = name, .operation = "average-pool", .inputs = {input.data}, .outputs = {output.data}};
  const Shape& in = input.shape;
  layer.parameters = PoolingParameters{.n = options_.batch,
                                       .c = in.channels,
                                       .h = in.height,
                                       .w = in.width,
                                       .r = in.height,
                                       .s = in.width,
                                       .stride_height = in.height,
                                       .stride_width = in.width};
  const double bytes = BytesRead(in) + BytesRead(output.shape);
  Costs(layer, {.bytes = bytes}, {.bytes = bytes});
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::BatchNorm(const std::string& name, const Tensor& input) {
  const std::int64_t channels = input.shape.channels;
  Layer layer{.name = name, .operation = "batch-norm"};
  const std::size_t scale = Learn("weight", channels, layer);
  const std::size_t shift = Learn("bias", channels, layer);
  layer.statistics = {AddFixedData(absl::StrCat(name, ".running"), kStatistics * channels,
                                   DataKind::kWeight, DataType::kFloat32)};
  layer.saved = {AddFixedData(absl::StrCat(name, ".statistics"), kStatistics * channels,
                              DataKind::kActivation, DataType::kFloat32)};
  layer.parameters = Normalization(input.shape);
  layer.kept = {input.data, scale};
  const double bytes = BytesRead(input.shape);
  // The statistics read the data once; the rest reads it again.
  Costs(layer, {.bytes = 3 * bytes}, {.bytes = 5 * bytes});
  if (options_.fused_batch_normalization) {
    layer.updated = input.data;
    layer.in_place = InPlace::kTransforms;
    layer.kept.push_back(shift);
    return AddLayer(std::move(layer), input);
  }
  layer.inputs = {input.data};
  const Tensor output = Output(name, input.shape);
  layer.outputs = {output.data};
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::LayerNorm(const std::string& name, const Tensor& input) {
  const Shape& shape = input.shape;
  const Tensor output = Output(name, shape);
  Layer layer{
      .name = name, .operation = "layer-norm", .inputs = {input.data}, .outputs = {output.data}};
  const std::size_t scale = Learn("weight", shape.channels, layer);
  Learn("bias", shape.channels, layer);
  layer.saved = {AddData(absl::StrCat(name, ".statistics"),
                         {kStatistics, shape.height, shape.width}, DataKind::kActivation,
                         DataType::kFloat32)};
  layer.parameters = Normalization(shape);
  layer.kept = {input.data, scale};
  const double bytes = BytesRead(shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 3 * bytes});
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::AddTo(const std::string& name, const Tensor& sum, const Tensor& other) {
  if (options_.fused_batch_normalization || options_.separate_sums) return Add(name, sum, other);
  Layer layer{.name = name, .operation = "add", .inputs = {other.data}, .updated = sum.data};
  layer.in_place = InPlace::kAdds;
  layer.parameters = Elementwise(sum.shape, 2);
  const double bytes = BytesRead(sum.shape);
  Costs(layer, {.bytes = 3 * bytes}, {.bytes = 2 * bytes});
  return AddLayer(std::move(layer), sum);
}

Tensor NetworkBuilder::Add(const std::string& name, const Tensor& a, const Tensor& b) {
  const Tensor output = Output(name, a.shape);
  Layer layer{.name = name,
              .operation = "add",
              .inputs = {a.data, b.data},
              .outputs = {output.data},
              .first_input_may_share_gradient = !options_.separate_sums};
  layer.parameters = Elementwise(a.shape, 2);
  const double bytes = BytesRead(a.shape);
  Costs(layer, {.bytes = 3 * bytes}, {.bytes = 2 * bytes});
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::Concat(const std::string& name, const std::vector<Tensor>& inputs) {
  Shape shape = inputs.front().shape;
  shape.channels = 0;
  Layer layer{.name = name, .operation = "concat"};
  for (const Tensor& input : inputs) {
    shape.channels += input.shape.channels;
    layer.inputs.push_back(input.data);
  }
  const Tensor output = Output(name, shape);
  layer.outputs = {output.data};
  layer.parameters = Elementwise(shape, static_cast<std::int64_t>(inputs.size()));
  const double bytes = BytesRead(shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 2 * bytes});
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::Dropout(const std::string& name, const Tensor& input) {
  Layer layer{.name = name, .operation = "dropout", .updated = input.data};
  layer.in_place = InPlace::kTransforms;
  AddMask(layer, input.shape);
  return AddLayer(std::move(layer), input);
}

Tensor NetworkBuilder::Softmax(const std::string& name, const Tensor& input) {
  const Tensor output = Output(name, input.shape);
  Layer layer{
      .name = name, .operation = "softmax", .inputs = {input.data}, .outputs = {output.data}};
  layer.kept = {output.data};
  layer.parameters = Normalization(input.shape);
  const double bytes = BytesRead(input.shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 3 * bytes});
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::PatchEmbedding(const std::string& name, const Tensor& patches) {
  const std::int64_t features = patches.shape.channels;
  const std::int64_t tokens = patches.shape.height * patches.shape.width + 1;
  const Tensor output = Output(name, {features, tokens, 1});
  Layer layer{
      .name = name, .operation = "embedding", .inputs = {patches.data}, .outputs = {output.data}};
  Learn("class", features, layer);
  Learn("positions", tokens * features, layer);
  layer.parameters = Elementwise(output.shape, 3);
  const double bytes = BytesRead(output.shape);
  layer.forward = OnlyAlgorithm(gpu_, {.bytes = 2 * bytes});
  // The gradients of weights are a sum over the batch, those of the patches a copy.
  AddGradients(layer, {}, [&](int gradients) {
    return OnlyAlgorithm(gpu_, {.bytes = (gradients == 1 ? 1 : 2) * bytes});
  });
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::FirstToken(const std::string& name, const Tensor& sequence) {
  const Tensor output = Output(name, {sequence.shape.channels, 1, 1});
  Layer layer{
      .name = name, .operation = "slice", .inputs = {sequence.data}, .outputs = {output.data}};
  layer.parameters = Elementwise(output.shape);
  Costs(layer, {.bytes = 2 * BytesRead(output.shape)}, {.bytes = BytesRead(sequence.shape)});
  return AddLayer(std::move(layer), output);
}

void NetworkBuilder::AddLabels(const Shape& predictions, Layer& layer) {
  if (!options_.labels) return;
  layer.kept.push_back(AddData("labels", {1, predictions.height, predictions.width},
                               DataKind::kInput, DataType::kInt32));
}

void NetworkBuilder::Loss(const std::string& name, const Tensor& output) {
  Layer layer{.name = name, .operation = "loss", .inputs = {output.data}};
  layer.kept = {output.data};
  layer.parameters = Elementwise(output.shape, 2);
  AddLabels(output.shape, layer);
  layer.backward = {{.algorithms = OnlyAlgorithm(gpu_, {.bytes = 2 * BytesRead(output.shape)})}};
  AddLayer(std::move(layer), output);
}

}  // namespace tidepool::models
