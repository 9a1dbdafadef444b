// SPDX-License-Identifier: Apache-2.0
// Rounds of a schedule, and the graphs of their batches.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_ROUNDS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_ROUNDS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// Returns the rounds, or one round of all steps where the schedule lists none.
std::vector<ScheduleRound> RoundsOf(const Schedule& schedule);

// Returns the graph of the round's batch, the first one for batch 0, and null for an unknown batch.
const TaskGraph* GraphOf(absl::Span<const TaskGraph> graphs, const ScheduleRound& round);

// Returns OK when all graphs, at least one, have the same names, kinds and uses, rounds cover
// the steps in order, and each round has a graph and 1 to kMostRoundTimes repetitions. O(graphs).
absl::Status CheckRounds(absl::Span<const TaskGraph> graphs, const Schedule& schedule);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_ROUNDS_H_
