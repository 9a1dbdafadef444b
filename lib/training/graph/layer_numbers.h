// SPDX-License-Identifier: Apache-2.0
// Layer parameters as a kind and named numbers, as in files.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_LAYER_NUMBERS_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_LAYER_NUMBERS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/layer_parameters.h"

namespace tidepool::graph {

struct LayerNumbers {
  std::string kind;
  std::vector<std::pair<std::string_view, std::int64_t>> numbers;  // names of fields
};

// Returns the field of any kind of layer with that name, or no text.
std::string_view LayerFieldCalled(std::string_view name);

// Returns the parameters; numbers that are not given keep their defaults. InvalidArgument for an
// unknown kind, and for a number that the kind does not have.
absl::StatusOr<LayerParameters> ToLayerParameters(const LayerNumbers& layer);

// Returns the names of all kinds, with commas between them.
std::string LayerKinds();

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_LAYER_NUMBERS_H_
