// SPDX-License-Identifier: Apache-2.0
// Chen et al., "moDNN: Memory Optimal Deep Neural Network Training on Graphics Processing Units",
// IEEE TPDS 30(3), 2019, section 5.2: transfers and algorithms of one round.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool::modnn {

// The machine and the options of a run of Algorithm 1.
struct Settings {
  std::int64_t memory_bytes = 0;
  std::int64_t alignment = 512;  // a power of two
  MachineLink link = {};
  // The choices of the paper where this scheduler knows better ones: one queue of copies, (9) and
  // (10) as printed, copies in that begin after the task before, and no scheme between those that
  // both criteria allow and defragmentation.
  bool as_printed = false;

  bool HasOneQueue() const { return as_printed || !link.full_duplex; }
};

// Returns the schedule of a valid graph with fixed addresses: Algorithm 1. Data at home on the
// device after the iteration stays; all other data may leave. ResourceExhausted when a task needs
// more than the memory, with the task, its bytes and the batch. O(tasks^2 + tasks x blocks^2) at
// worst, and O(uses log uses) where nothing leaves.
absl::StatusOr<Schedule> Modnn(const TaskGraph& graph, const Settings& settings);

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_H_
