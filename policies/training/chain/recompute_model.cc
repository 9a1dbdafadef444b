// SPDX-License-Identifier: Apache-2.0
// Fills in the optional lists of a chain.
#include "policies/training/chain/recompute_model.h"

#include <utility>

namespace tidepool::chain_policies {

RecomputeModel::RecomputeModel(const Chain& chain)
    : chain_(chain),
      output_(chain.output.empty() ? chain.x : chain.output),
      output_extra_(chain.output_extra.empty() ? chain.forward_extra : chain.output_extra),
      runs_once_(operations()),
      has_output_run_(operations()) {
  for (const std::size_t i : chain.runs_once) runs_once_[i] = true;
  for (std::size_t i = 0; i < operations(); ++i) {
    has_output_run_[i] = output_[i + 1] != chain.x[i + 1] && !runs_once_[i];
  }
}

// Where the output is all of it, the run that needs less memory is the better one.
ChainAction RecomputeModel::ActionOf(std::size_t i) const {
  const bool is_all = output_[i + 1] == chain_.x[i + 1];
  return is_all && output_extra_[i] < chain_.forward_extra[i] ? ChainAction::kForwardOutput
                                                              : ChainAction::kForward;
}

std::int64_t RecomputeModel::ForwardBytes(std::size_t i) const {
  const bool is_output = ActionOf(i) == ChainAction::kForwardOutput;
  return chain_.x[i + 1] + (is_output ? output_extra_[i] : chain_.forward_extra[i]);
}

ChainSchedule RunWithoutWaits(const Chain& chain, ChainActions actions) {
  ChainSchedule schedule;
  for (ChainStep& step : actions) {
    step.start_seconds = schedule.seconds;
    if (step.action == ChainAction::kBackward) {
      schedule.seconds += chain.backward_seconds[step.index];
    } else if (step.action != ChainAction::kDrop) {
      schedule.seconds += chain.forward_seconds[step.index];
    }
  }
  schedule.steps = std::move(actions);
  return schedule;
}

}  // namespace tidepool::chain_policies
