// SPDX-License-Identifier: Apache-2.0
// Layers of one input and one output without learned weights.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/models/network_builder.h"

namespace tidepool::models {

Tensor NetworkBuilder::DropoutCopy(const std::string& name, const Tensor& input) {
  const Tensor output = Output(name, input.shape);
  Layer layer{
      .name = name, .operation = "dropout", .inputs = {input.data}, .outputs = {output.data}};
  const std::int64_t bytes = Bytes(input.shape);
  layer.saved = {AddData(absl::StrCat(name, ".mask"), bytes / kWordBytes, DataKind::kActivation)};
  const Work work = {.bytes = 2.25 * static_cast<double>(bytes)};
  Costs(layer, work, work);
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::LocalResponseNorm(const std::string& name, const Tensor& input) {
  const Tensor output = Output(name, input.shape);
  Layer layer{.name = name, .operation = "lrn", .inputs = {input.data}, .outputs = {output.data}};
  layer.kept = {input.data, output.data};
  const double bytes = BytesRead(input.shape);
  Costs(layer, {.bytes = 2 * bytes}, {.bytes = 4 * bytes});
  return AddLayer(std::move(layer), output);
}

}  // namespace tidepool::models
