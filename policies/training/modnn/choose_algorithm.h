// SPDX-License-Identifier: Apache-2.0
// Lines 9 to 14 of Algorithm 1: the algorithm of a task, by the gain of equation (10).
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_CHOOSE_ALGORITHM_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_CHOOSE_ALGORITHM_H_

#include <cstddef>
#include <optional>

#include "policies/training/modnn/iteration.h"

namespace tidepool::modnn {

struct ChosenAlgorithm {
  std::size_t algorithm = 0;
  std::optional<MemoryMap::Block> workspace = std::nullopt;
};

// Chooses the algorithm of a task with placed data, and its workspace, and lets time pass until
// that is free. `least_workspace` is the block of the first algorithm, if that has one: the other
// algorithms may take its place.
ChosenAlgorithm ChooseAlgorithm(Iteration& iteration, std::size_t task,
                                std::optional<MemoryMap::Block> least_workspace);

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_CHOOSE_ALGORITHM_H_
