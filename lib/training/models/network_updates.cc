// SPDX-License-Identifier: Apache-2.0
// Adds the updates of weights, with the state of the optimizer and the float32 copies of weights.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/models/network_builder.h"

namespace tidepool::models {
namespace {

// The state of an optimizer, and its operations for each element.
struct UpdateRule {
  std::vector<const char*> states;
  double operations;
};

UpdateRule RuleOf(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kMomentum:
      return {{".momentum"}, 4};
    case Optimizer::kAdam:
      return {{".first-moment", ".second-moment"}, 12};
    case Optimizer::kGradientDescent:
      break;
  }
  return {{}, 2};
}

}  // namespace

std::size_t NetworkBuilder::AddState(const Weight& weight, const char* name) {
  return AddFixedData(absl::StrCat(graph_.data[weight.data].name, name), weight.elements,
                      DataKind::kOptimizerState, DataType::kFloat32);
}

// Reads the gradient, reads and writes the state, and writes the weight. A 16-bit weight is the
// rounded copy of its float32 copy, so it is not read.
void NetworkBuilder::UpdateWeight(const Weight& weight, GraphTask& task, Work& work) {
  const UpdateRule rule = RuleOf(options_.optimizer);
  const bool has_copy = options_.precision != Precision::kFloat32;
  const auto elements = static_cast<double>(weight.elements);
  task.reads.push_back(weight.gradient.value());
  task.updates.push_back(weight.data);
  const auto weight_bytes = static_cast<double>(graph_.data[weight.data].bytes);
  work.bytes += (has_copy ? 2 : 3) * weight_bytes;
  work.operations += rule.operations * elements;
  if (has_copy) task.updates.push_back(AddState(weight, ".float32"));
  for (const char* state : rule.states) task.updates.push_back(AddState(weight, state));
  const double states = static_cast<double>(rule.states.size()) + (has_copy ? 1 : 0);
  work.bytes += 2 * states * elements * static_cast<double>(BytesOf(DataType::kFloat32));
}

void NetworkBuilder::AddUpdate(std::size_t index) {
  GraphTask task = NewTask(layers_[index], ".update", TaskPhase::kUpdate);
  Work work;
  std::int64_t elements = 0;
  for (const std::size_t number : layers_[index].weights) {
    const Weight& weight = weights_[number];
    if (weight.first_layer != index) continue;
    UpdateWeight(weight, task, work);
    elements += weight.elements;
  }
  if (task.updates.empty()) return;
  task.parameters = ElementwiseParameters{.elements = elements};
  task.compute_type = DataType::kFloat32;
  task.algorithms = OnlyAlgorithm(gpu_, work);
  graph_.tasks.push_back(std::move(task));
}

}  // namespace tidepool::models
