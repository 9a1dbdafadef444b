// SPDX-License-Identifier: Apache-2.0
#include "lib/training/emit/task_calls.h"

#include <limits>

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

RoleUse TaskCalls::Use(const std::vector<RoleUse>& list, std::size_t i, const char* role,
                       std::int64_t elements) {
  if (i >= list.size()) {
    Fault(absl::StrCat("has no ", role, " among its data, expected one"));
    return {};
  }
  const std::int64_t bytes = placed_.graph.data[list[i].data].bytes;
  if (elements != 0 && bytes != elements * kWordBytes) {
    Fault(absl::StrCat("has ", bytes, " bytes of ", role, ", expected ", elements * kWordBytes,
                       " by its layer parameters"));
  }
  return list[i];
}

std::string TaskCalls::Braced(std::initializer_list<std::int64_t> numbers) {
  std::string list;
  for (const std::int64_t number : numbers) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", number);
  }
  return absl::StrCat("{", list, "}");
}

std::string TaskCalls::ShapeOf(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (n * c * h * w > kMost) {
    Fault(absl::StrCat("has ", n * c * h * w, " numbers in a tensor, expected at most ", kMost));
  }
  return Braced({n, c, h, w});
}

}  // namespace tidepool::emit
