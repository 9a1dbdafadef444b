// SPDX-License-Identifier: Apache-2.0
// LayerParameters: the numbers of a layer. Descriptors of a library, generated calls and tables of
// measured times are made from them. The operation of the task names the function: "relu", "gelu".
//
// Pure data. The fields have the same names in files (docs/formats/task_graph.md). Fields that
// begin at a size of 0 must be set: ValidateGraph refuses 0 there.
#ifndef TIDEPOOL_TRAINING_LAYER_PARAMETERS_H_
#define TIDEPOOL_TRAINING_LAYER_PARAMETERS_H_

#include <cstdint>
#include <string_view>
#include <variant>

namespace tidepool {

// The largest number of a layer.
inline constexpr std::int64_t kMostLayerNumber = std::int64_t{1} << 40;

// In every struct `n` is the number of samples; 0: the task has no batch, as an update. Sizes are
// those of one sample. Sides count pixels or other positions.

// A convolution, or a transposed one (the operation "transposed-conv"), of an input of n c h w with
// k filters of c / groups x r x s. A transposed one has the filters c x k / groups x r x s.
struct ConvolutionParameters {
  static constexpr std::string_view kName = "convolution";

  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int64_t h = 0;
  std::int64_t w = 0;
  std::int64_t k = 0;
  std::int64_t r = 0;
  std::int64_t s = 0;
  std::int64_t stride_height = 1;
  std::int64_t stride_width = 1;
  std::int64_t padding_height = 0;  // at each of both ends
  std::int64_t padding_width = 0;
  std::int64_t dilation_height = 1;
  std::int64_t dilation_width = 1;
  std::int64_t groups = 1;

  friend bool operator==(const ConvolutionParameters&, const ConvolutionParameters&) = default;
};

// A product of [n x positions, inputs] with a weight of [inputs, outputs].
struct LinearParameters {
  static constexpr std::string_view kName = "linear";

  std::int64_t n = 0;
  std::int64_t positions = 1;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t bias = 0;  // 1: with a bias

  friend bool operator==(const LinearParameters&, const LinearParameters&) = default;
};

// n x count products of [rows, inner] with [inner, columns], of two tensors that the batch makes.
struct MatrixProductParameters {
  static constexpr std::string_view kName = "matrix-product";

  std::int64_t n = 0;
  std::int64_t count = 1;
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;

  friend bool operator==(const MatrixProductParameters&, const MatrixProductParameters&) = default;
};

struct PoolingParameters {
  static constexpr std::string_view kName = "pooling";

  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int64_t h = 0;
  std::int64_t w = 0;
  std::int64_t r = 0;  // the window
  std::int64_t s = 0;
  std::int64_t stride_height = 1;
  std::int64_t stride_width = 1;
  std::int64_t padding_height = 0;
  std::int64_t padding_width = 0;
  std::int64_t round_up = 0;  // 1: the last window may exceed the edge

  friend bool operator==(const PoolingParameters&, const PoolingParameters&) = default;
};

// Normalisation of a tensor of n c h w: "batch-norm" over n, h and w; "layer-norm" and "rms-norm"
// over c; "group-norm" over h, w and each group of channels; "softmax" over c.
struct NormalizationParameters {
  static constexpr std::string_view kName = "normalization";

  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int64_t h = 0;
  std::int64_t w = 0;
  std::int64_t groups = 1;

  friend bool operator==(const NormalizationParameters&, const NormalizationParameters&) = default;
};

// Attention in one task, without a tensor of scores. A row of queries has heads x features numbers,
// a row of keys or values key_heads x features.
struct AttentionParameters {
  static constexpr std::string_view kName = "attention";

  std::int64_t n = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t queries = 0;  // positions
  std::int64_t keys = 0;     // positions
  std::int64_t features = 0;
  std::int64_t causal = 0;  // 1: a query does not attend to later keys

  friend bool operator==(const AttentionParameters&, const AttentionParameters&) = default;
};

// A function of each number: activations, sums, dropout, copies, and updates of weights (n = 0).
struct ElementwiseParameters {
  static constexpr std::string_view kName = "elementwise";

  std::int64_t n = 0;
  std::int64_t elements = 0;  // of the result; n = 0: of all results
  std::int64_t inputs = 1;    // tensors

  friend bool operator==(const ElementwiseParameters&, const ElementwiseParameters&) = default;
};

struct EmbeddingParameters {
  static constexpr std::string_view kName = "embedding";

  std::int64_t n = 0;
  std::int64_t positions = 1;
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;

  friend bool operator==(const EmbeddingParameters&, const EmbeddingParameters&) = default;
};

// Layers of a recurrent network that one call computes: "lstm", "gru".
struct RecurrentParameters {
  static constexpr std::string_view kName = "recurrent";

  std::int64_t n = 0;
  std::int64_t steps = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 1;
  std::int64_t directions = 1;

  friend bool operator==(const RecurrentParameters&, const RecurrentParameters&) = default;
};

// std::monostate: unknown.
using LayerParameters =
    std::variant<std::monostate, ConvolutionParameters, LinearParameters, MatrixProductParameters,
                 PoolingParameters, NormalizationParameters, AttentionParameters,
                 ElementwiseParameters, EmbeddingParameters, RecurrentParameters>;

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_LAYER_PARAMETERS_H_
