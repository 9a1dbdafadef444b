// SPDX-License-Identifier: Apache-2.0
// The fields of layer parameters: name in files, member, and range. Readers, writers, checks and
// families walk through one table for each kind of layer.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_LAYER_FIELDS_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_LAYER_FIELDS_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "tidepool/training/layer_parameters.h"

namespace tidepool::graph {

template <typename Parameters>
struct LayerField {
  using Layer = Parameters;

  std::string_view name;
  std::int64_t Parameters::*number;
  std::int64_t least = 1;
  std::int64_t most = kMostLayerNumber;
};

// The least number of samples and of padding is 0, and flags are 0 or 1.
template <typename Parameters>
constexpr LayerField<Parameters> SamplesField() {
  return {"n", &Parameters::n, 0};
}

template <typename Parameters>
inline constexpr std::array<LayerField<Parameters>, 0> kLayerFields = {};

template <>
inline constexpr auto kLayerFields<ConvolutionParameters> =
    std::to_array<LayerField<ConvolutionParameters>>({
        SamplesField<ConvolutionParameters>(),
        {"c", &ConvolutionParameters::c},
        {"h", &ConvolutionParameters::h},
        {"w", &ConvolutionParameters::w},
        {"k", &ConvolutionParameters::k},
        {"r", &ConvolutionParameters::r},
        {"s", &ConvolutionParameters::s},
        {"stride_height", &ConvolutionParameters::stride_height},
        {"stride_width", &ConvolutionParameters::stride_width},
        {"padding_height", &ConvolutionParameters::padding_height, 0},
        {"padding_width", &ConvolutionParameters::padding_width, 0},
        {"dilation_height", &ConvolutionParameters::dilation_height},
        {"dilation_width", &ConvolutionParameters::dilation_width},
        {"groups", &ConvolutionParameters::groups},
    });

template <>
inline constexpr auto kLayerFields<LinearParameters> = std::to_array<LayerField<LinearParameters>>({
    SamplesField<LinearParameters>(),
    {"positions", &LinearParameters::positions},
    {"inputs", &LinearParameters::inputs},
    {"outputs", &LinearParameters::outputs},
    {"bias", &LinearParameters::bias, 0, 1},
});

template <>
inline constexpr auto kLayerFields<MatrixProductParameters> =
    std::to_array<LayerField<MatrixProductParameters>>({
        SamplesField<MatrixProductParameters>(),
        {"count", &MatrixProductParameters::count},
        {"rows", &MatrixProductParameters::rows},
        {"inner", &MatrixProductParameters::inner},
        {"columns", &MatrixProductParameters::columns},
    });

template <>
inline constexpr auto kLayerFields<PoolingParameters> =
    std::to_array<LayerField<PoolingParameters>>({
        SamplesField<PoolingParameters>(),
        {"c", &PoolingParameters::c},
        {"h", &PoolingParameters::h},
        {"w", &PoolingParameters::w},
        {"r", &PoolingParameters::r},
        {"s", &PoolingParameters::s},
        {"stride_height", &PoolingParameters::stride_height},
        {"stride_width", &PoolingParameters::stride_width},
        {"padding_height", &PoolingParameters::padding_height, 0},
        {"padding_width", &PoolingParameters::padding_width, 0},
        {"round_up", &PoolingParameters::round_up, 0, 1},
    });

template <>
inline constexpr auto kLayerFields<NormalizationParameters> =
    std::to_array<LayerField<NormalizationParameters>>({
        SamplesField<NormalizationParameters>(),
        {"c", &NormalizationParameters::c},
        {"h", &NormalizationParameters::h},
        {"w", &NormalizationParameters::w},
        {"groups", &NormalizationParameters::groups},
    });

template <>
inline constexpr auto kLayerFields<AttentionParameters> =
    std::to_array<LayerField<AttentionParameters>>({
        SamplesField<AttentionParameters>(),
        {"heads", &AttentionParameters::heads},
        {"key_heads", &AttentionParameters::key_heads},
        {"queries", &AttentionParameters::queries},
        {"keys", &AttentionParameters::keys},
        {"features", &AttentionParameters::features},
        {"causal", &AttentionParameters::causal, 0, 1},
    });

template <>
inline constexpr auto kLayerFields<ElementwiseParameters> =
    std::to_array<LayerField<ElementwiseParameters>>({
        SamplesField<ElementwiseParameters>(),
        {"elements", &ElementwiseParameters::elements},
        {"inputs", &ElementwiseParameters::inputs},
    });

template <>
inline constexpr auto kLayerFields<EmbeddingParameters> =
    std::to_array<LayerField<EmbeddingParameters>>({
        SamplesField<EmbeddingParameters>(),
        {"positions", &EmbeddingParameters::positions},
        {"vocabulary", &EmbeddingParameters::vocabulary},
        {"features", &EmbeddingParameters::features},
    });

template <>
inline constexpr auto kLayerFields<RecurrentParameters> =
    std::to_array<LayerField<RecurrentParameters>>({
        SamplesField<RecurrentParameters>(),
        {"steps", &RecurrentParameters::steps},
        {"inputs", &RecurrentParameters::inputs},
        {"hidden", &RecurrentParameters::hidden},
        {"layers", &RecurrentParameters::layers},
        {"directions", &RecurrentParameters::directions},
    });

// Calls `visit(field, number)` for each field of `parameters`, in the order of files. `parameters`
// is a LayerParameters, constant or not.
template <typename Parameters, typename Visit>
void ForEachField(Parameters& parameters, Visit visit) {
  std::visit(
      [&](auto& layer) {
        using Layer = std::remove_cvref_t<decltype(layer)>;
        if constexpr (!std::is_same_v<Layer, std::monostate>) {
          for (const LayerField<Layer>& field : kLayerFields<Layer>) {
            visit(field, layer.*field.number);
          }
        }
      },
      parameters);
}

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_LAYER_FIELDS_H_
