// SPDX-License-Identifier: Apache-2.0
// Layers of one input and one output without learned weights.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/models/network_builder.h"

namespace tidepool::models {

// The mask has a byte for each element. Both tasks read and write the data and the mask.
void NetworkBuilder::AddMask(Layer& layer, const Shape& shape) {
  layer.saved = {
      AddData(absl::StrCat(layer.name, ".mask"), shape, DataKind::kActivation, DataType::kUint8)};
  layer.parameters = Elementwise(shape);
  layer.is_random = true;
  const Work work = {.bytes = 2 * BytesRead(shape) +
                              BytesRead(shape) / static_cast<double>(BytesOf(type_))};
  Costs(layer, work, work);
}

Tensor NetworkBuilder::DropoutCopy(const std::string& name, const Tensor& input) {
  const Tensor output = Output(name, input.shape);
  Layer layer{
      .name = name, .operation = "dropout", .inputs = {input.data}, .outputs = {output.data}};
  AddMask(layer, input.shape);
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::LocalResponseNorm(const std::string& name, const Tensor& input) {
  const Tensor output = Output(name, input.shape);
  Layer layer{.name = name, .operation = "lrn", .inputs = {input.data}, .outputs = {output.data}};
  layer.kept = {input.data, output.data};
  layer.parameters = Normalization(input.shape);
  const double bytes = BytesRead(input.shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 4 * bytes});
  return AddLayer(std::move(layer), output);
}

}  // namespace tidepool::models
