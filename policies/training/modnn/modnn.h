// SPDX-License-Identifier: Apache-2.0
// Chen et al., "moDNN: Memory Optimal Deep Neural Network Training on Graphics Processing Units",
// IEEE TPDS 30(3), 2019, section 5.2: transfers and algorithms of one round.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_H_

#include "absl/status/statusor.h"
#include "policies/training/modnn/settings.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::modnn {

// Returns the schedule of a valid graph with fixed addresses: Algorithm 1. Data at home on the
// device after the iteration stays; all other data may leave. ResourceExhausted when a task needs
// more than the memory, with the task, its bytes and the batch. O(tasks^2 + tasks x blocks^2) at
// worst, and O(uses log uses) where nothing leaves.
absl::StatusOr<Schedule> Modnn(const TaskGraph& graph, const Settings& settings);

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_H_
