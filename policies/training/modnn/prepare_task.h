// SPDX-License-Identifier: Apache-2.0
// Lines 3 to 8 of Algorithm 1: the inputs and outputs of a task come to the device.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_PREPARE_TASK_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_PREPARE_TASK_H_

#include <cstddef>
#include <optional>

#include "policies/training/modnn/iteration.h"

namespace tidepool::modnn {

// Gives all data of the task its memory, copies in the data that is away, and lets time pass until
// the task can run. Returns the block of the task's least workspace, if it has any. The memory must
// hold the task.
std::optional<MemoryMap::Block> PrepareTask(Iteration& iteration, std::size_t task);

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_PREPARE_TASK_H_
