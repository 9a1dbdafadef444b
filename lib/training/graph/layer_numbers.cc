// SPDX-License-Identifier: Apache-2.0
// Turns named numbers into layer parameters.
#include "lib/training/graph/layer_numbers.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "lib/base/io/quote.h"
#include "lib/training/graph/layer_fields.h"
#include "tidepool/training/graph.h"

namespace tidepool::graph {
namespace {

// One default of each kind.
template <std::size_t... kAt>
std::array<LayerParameters, sizeof...(kAt)> KindsAt(std::index_sequence<kAt...> /*at*/) {
  return {LayerParameters(std::in_place_index<kAt + 1>)...};
}

std::array<LayerParameters, std::variant_size_v<LayerParameters> - 1> AllKinds() {
  return KindsAt(std::make_index_sequence<std::variant_size_v<LayerParameters> - 1>());
}

std::string FieldNames(const LayerParameters& parameters) {
  std::string names;
  ForEachField(parameters, [&](const auto& field, std::int64_t /*number*/) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(field.name));
  });
  return names;
}

bool SetField(std::string_view name, std::int64_t number, LayerParameters& parameters) {
  bool is_known = false;
  ForEachField(parameters, [&](const auto& field, std::int64_t& its) {
    if (field.name != name) return;
    its = number;
    is_known = true;
  });
  return is_known;
}

}  // namespace

std::string_view LayerFieldCalled(std::string_view name) {
  std::string_view known;
  for (const LayerParameters& kind : AllKinds()) {
    ForEachField(kind, [&](const auto& field, std::int64_t /*number*/) {
      if (field.name == name) known = field.name;
    });
  }
  return known;
}

absl::StatusOr<LayerParameters> ToLayerParameters(const LayerNumbers& layer) {
  for (LayerParameters& kind : AllKinds()) {
    if (LayerParametersName(kind) != layer.kind) continue;
    for (const auto& [name, number] : layer.numbers) {
      if (SetField(name, number, kind)) continue;
      return absl::InvalidArgumentError(absl::StrCat("the unknown key ", io::Quoted(name), " in ",
                                                     layer.kind, " parameters, expected kind, ",
                                                     FieldNames(kind)));
    }
    return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("kind of parameters is ", io::Quoted(layer.kind),
                                                 ", expected one of ", LayerKinds()));
}

std::string LayerKinds() {
  std::string names;
  for (const LayerParameters& kind : AllKinds()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(LayerParametersName(kind)));
  }
  return names;
}

}  // namespace tidepool::graph
