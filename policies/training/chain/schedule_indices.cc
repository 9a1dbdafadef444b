// SPDX-License-Identifier: Apache-2.0
// Extracts indices and starts from the steps of a chain's schedule.
#include <algorithm>

#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

// Whether a step has the action. A run of F_i is one, whether it keeps all or the output alone.
bool IsOf(const ChainStep& step, ChainAction action) {
  return step.action == action ||
         (action == ChainAction::kForward && step.action == ChainAction::kForwardOutput);
}

// Returns the indices of all steps with an action, in ascending order.
std::vector<std::size_t> SortedIndices(const ChainSchedule& schedule, ChainAction action) {
  std::vector<std::size_t> indices;
  for (const ChainStep& step : schedule.steps) {
    if (IsOf(step, action)) indices.push_back(step.index);
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

}  // namespace

std::vector<std::size_t> OffloadedIndices(const ChainSchedule& schedule) {
  std::vector<std::size_t> indices = SortedIndices(schedule, ChainAction::kOffload);
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

std::vector<std::size_t> RecomputedIndices(const ChainSchedule& schedule) {
  const std::vector<std::size_t> runs = SortedIndices(schedule, ChainAction::kForward);
  std::vector<std::size_t> indices;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const bool is_second = runs[i] == runs[i - 1] && (indices.empty() || indices.back() != runs[i]);
    if (is_second) indices.push_back(runs[i]);
  }
  return indices;
}

std::vector<double> FirstStarts(const ChainSchedule& schedule, ChainAction action,
                                std::size_t count) {
  std::vector<double> starts(count, -1);
  for (const ChainStep& step : schedule.steps) {
    if (!IsOf(step, action) || step.index >= count || starts[step.index] >= 0) continue;
    starts[step.index] = step.start_seconds;
  }
  return starts;
}

}  // namespace tidepool
