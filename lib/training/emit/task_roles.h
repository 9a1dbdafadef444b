// SPDX-License-Identifier: Apache-2.0
// The data of a task by its role: the kind of data and the order of uses tell it.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_TASK_ROLES_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_TASK_ROLES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "lib/training/emit/kernel_calls.h"
#include "tidepool/training/graph.h"

namespace tidepool::emit {

struct RoleUse {
  std::size_t data = 0;
  std::string address;
  bool adds = false;  // a task updates it: the result is added to it
};

// Each list is in the order of uses.
struct TaskRoles {
  explicit TaskRoles(const PlacedTask& placed);

  std::vector<RoleUse> inputs;            // inputs and activations that are read
  std::vector<RoleUse> outputs;           // activations that are written
  std::vector<RoleUse> in_place;          // activations that are updated
  std::vector<RoleUse> weights;           // read
  std::vector<RoleUse> changed_weights;   // updated: learned ones by updates, else statistics
  std::vector<RoleUse> states;            // of the optimizer
  std::vector<RoleUse> gradients;         // of activations, read
  std::vector<RoleUse> made_gradients;    // of activations, written or updated
  std::vector<RoleUse> weight_gradients;  // read by updates
  std::vector<RoleUse> made_weight_gradients;
};

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_TASK_ROLES_H_
