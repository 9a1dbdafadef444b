// SPDX-License-Identifier: Apache-2.0
#include "lib/training/emit/task_roles.h"

namespace tidepool::emit {

TaskRoles::TaskRoles(const PlacedTask& placed) {
  const auto add = [&](const std::vector<std::size_t>& uses,
                       const std::vector<std::string>& addresses, bool adds, auto list_of) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      list_of(placed.graph.data[uses[i]].kind).push_back({uses[i], addresses[i], adds});
    }
  };
  const auto of_reads = [this](DataKind kind) -> std::vector<RoleUse>& {
    if (kind == DataKind::kWeight) return weights;
    if (kind == DataKind::kGradient) return gradients;
    if (kind == DataKind::kWeightGradient) return weight_gradients;
    return kind == DataKind::kOptimizerState ? states : inputs;
  };
  const auto of_results = [this](std::vector<RoleUse>& activations) {
    return [this, &activations](DataKind kind) -> std::vector<RoleUse>& {
      if (kind == DataKind::kWeight) return changed_weights;
      if (kind == DataKind::kGradient) return made_gradients;
      if (kind == DataKind::kWeightGradient) return made_weight_gradients;
      return kind == DataKind::kOptimizerState ? states : activations;
    };
  };
  add(placed.task.reads, placed.reads, false, of_reads);
  add(placed.task.writes, placed.writes, false, of_results(outputs));
  add(placed.task.updates, placed.updates, true, of_results(in_place));
}

}  // namespace tidepool::emit
