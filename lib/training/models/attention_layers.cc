// SPDX-License-Identifier: Apache-2.0
// Attention, fused into one task or as three layers.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/models/network_builder.h"

namespace tidepool::models {
namespace {

// FlashAttention-2 (Dao, arXiv:2307.08691) reaches 50 to 73 % of an A100's peak.
constexpr double kFusedAttentionEfficiency = 0.6;

}  // namespace

NetworkBuilder::AttentionShape NetworkBuilder::ShapeOf(const std::vector<Tensor>& inputs,
                                                       const AttentionHeads& heads) const {
  AttentionShape shape{.heads = heads, .tokens = inputs.front().shape.height};
  for (const Tensor& input : inputs) {
    shape.inputs.push_back(input.data);
    shape.row += input.shape.channels;
  }
  shape.head_features = shape.row / (heads.queries + 2 * heads.keys);
  return shape;
}

// Returns the operations of all products of queries with keys, or of scores with values.
double NetworkBuilder::OperationsOf(const AttentionShape& shape) const {
  const auto tokens = static_cast<double>(shape.tokens);
  return 2.0 * static_cast<double>(options_.batch) * tokens * tokens *
         static_cast<double>(shape.features());
}

Tensor NetworkBuilder::Attention(const std::string& name, const std::vector<Tensor>& inputs,
                                 const AttentionHeads& heads) {
  const AttentionShape shape = ShapeOf(inputs, heads);
  return options_.fused_attention ? FusedAttention(name, shape) : UnfusedAttention(name, shape);
}

// The backward task computes the scores again, so it has five products where the forward task has
// two. A causal mask leaves half of each.
Tensor NetworkBuilder::FusedAttention(const std::string& name, const AttentionShape& shape) {
  const AttentionHeads& heads = shape.heads;
  const Tensor output = Output(name, {shape.features(), shape.tokens, 1});
  Layer layer{.name = name,
              .operation = "attention",
              .inputs = shape.inputs,
              .outputs = {output.data},
              .kept = shape.inputs};
  layer.kept.push_back(output.data);
  layer.saved = {AddData(absl::StrCat(name, ".log-sum-exp"), {heads.queries, shape.tokens, 1},
                         DataKind::kActivation, DataType::kFloat32)};
  layer.parameters = AttentionParameters{.n = options_.batch,
                                         .heads = heads.queries,
                                         .key_heads = heads.keys,
                                         .queries = shape.tokens,
                                         .keys = shape.tokens,
                                         .features = shape.head_features,
                                         .causal = heads.is_causal ? 1 : 0};
  layer.is_product = true;
  const double product = OperationsOf(shape) / (heads.is_causal ? 2 : 1);
  const double bytes = BytesRead({shape.row, shape.tokens, 1}) + BytesRead(output.shape);
  Costs(layer, {2 * product, bytes, kFusedAttentionEfficiency},
        {5 * product, 2 * bytes, kFusedAttentionEfficiency});
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::UnfusedAttention(const std::string& name, const AttentionShape& shape) {
  const std::int64_t tokens = shape.tokens;
  const std::int64_t heads = shape.heads.queries;
  // Adjacent queries, keys and values are one datum.
  const std::size_t values = shape.inputs.back();
  std::vector<std::size_t> queries_and_keys = shape.inputs;
  if (queries_and_keys.size() > 1) queries_and_keys.pop_back();
  const Tensor scores =
      AttentionProduct(absl::StrCat(name, ".scores"), queries_and_keys, {heads, tokens, tokens},
                       {.inner = shape.head_features, .columns = tokens}, shape);
  const Tensor weights = AttentionSoftmax(absl::StrCat(name, ".softmax"), scores);
  return AttentionProduct(absl::StrCat(name, ".context"), {weights.data, values},
                          {shape.features(), tokens, 1},
                          {.inner = tokens, .columns = shape.head_features}, shape);
}

Tensor NetworkBuilder::AttentionProduct(const std::string& name,
                                        const std::vector<std::size_t>& inputs, const Shape& result,
                                        const ProductSizes& sizes, const AttentionShape& shape) {
  const Tensor output = Output(name, result);
  Layer layer{.name = name,
              .operation = "matrix-product",
              .inputs = inputs,
              .outputs = {output.data},
              .kept = inputs};
  layer.parameters = MatrixProductParameters{.n = options_.batch,
                                             .count = shape.heads.queries,
                                             .rows = shape.tokens,
                                             .inner = sizes.inner,
                                             .columns = sizes.columns};
  layer.is_product = true;
  // Each product touches the scores, and two of queries, keys, values and the result.
  const double bytes = BytesRead({shape.heads.queries, shape.tokens, shape.tokens}) +
                       2 * BytesRead({shape.features(), shape.tokens, 1});
  const double operations = OperationsOf(shape);
  Costs(layer, {operations, bytes}, {2 * operations, 2 * bytes});
  return AddLayer(std::move(layer), output);
}

// Normalises the row of scores of each query. The result is a tensor of its own, so the task may
// run again.
Tensor NetworkBuilder::AttentionSoftmax(const std::string& name, const Tensor& scores) {
  const Shape& square = scores.shape;
  const Tensor output = Output(name, square);
  Layer layer{
      .name = name, .operation = "softmax", .inputs = {scores.data}, .outputs = {output.data}};
  layer.kept = {output.data};
  layer.parameters = NormalizationParameters{
      .n = options_.batch, .c = square.width, .h = square.channels, .w = square.height};
  const double bytes = BytesRead(square);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 3 * bytes});
  return AddLayer(std::move(layer), output);
}

}  // namespace tidepool::models
