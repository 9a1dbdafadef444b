// SPDX-License-Identifier: Apache-2.0
// The names of a graph's enumerations in files.
#include <array>
#include <string_view>
#include <type_traits>
#include <variant>

#include "tidepool/training/graph.h"

namespace tidepool {
namespace {

constexpr std::array<std::string_view, 6> kDataKindNames = {
    "input", "weight", "activation", "gradient", "weight-gradient", "optimizer-state"};
constexpr std::array<std::string_view, 3> kDataHomeNames = {"device", "host", "nowhere"};
constexpr std::array<std::string_view, 10> kDataTypeNames = {
    "unknown",  "float64", "float32", "tensor-float32", "float16",
    "bfloat16", "int64",   "int32",   "int8",           "uint8"};
constexpr std::array<std::string_view, 3> kTaskPhaseNames = {"forward", "backward", "update"};
constexpr std::array<std::string_view, 3> kTaskGradientsNames = {"all", "data", "weights"};

template <typename Names, typename Value>
std::string_view NameIn(const Names& names, Value value) {
  const auto at = static_cast<std::size_t>(value);
  return at < names.size() ? names[at] : "unknown";
}

}  // namespace

std::string_view DataKindName(DataKind kind) { return NameIn(kDataKindNames, kind); }

std::string_view DataHomeName(DataHome home) { return NameIn(kDataHomeNames, home); }

std::string_view DataTypeName(DataType type) { return NameIn(kDataTypeNames, type); }

std::string_view TaskPhaseName(TaskPhase phase) { return NameIn(kTaskPhaseNames, phase); }

std::string_view TaskGradientsName(TaskGradients gradients) {
  return NameIn(kTaskGradientsNames, gradients);
}

std::string_view LayerParametersName(const LayerParameters& parameters) {
  return std::visit(
      [](const auto& layer) -> std::string_view {
        using Layer = std::remove_cvref_t<decltype(layer)>;
        if constexpr (std::is_same_v<Layer, std::monostate>) {
          return "unknown";
        } else {
          return Layer::kName;
        }
      },
      parameters);
}

}  // namespace tidepool
