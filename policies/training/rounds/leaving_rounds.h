// SPDX-License-Identifier: Apache-2.0
// Iterations in rounds with weights that are at home on the host and leave the device too: each
// task has its weights, and their gradients, only while it needs them.
#ifndef TIDEPOOL_POLICIES_TRAINING_ROUNDS_LEAVING_ROUNDS_H_
#define TIDEPOOL_POLICIES_TRAINING_ROUNDS_LEAVING_ROUNDS_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "policies/training/requests/policy_table.h"
#include "policies/training/rounds/compose_rounds.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::rounds {

// Whether the weights and the optimizer state of a valid graph are at home on the host, and an
// update reads each gradient of weights, which does not stay on the device. O(graph).
bool WeightsMayLeave(const TaskGraph& graph);

// Returns the schedule of an iteration on one device, with the addresses of the policy. `graphs`
// has the graph of the sub-batch and of the rest, if any. Gradients of weights go to the host after
// each round, and come back where the next one adds to them. Updates follow the last round.
// Errors are those of the policy.
absl::StatusOr<Schedule> MakeLeavingRounds(const requests::OffloadPolicy& policy,
                                           absl::Span<const TaskGraph> graphs,
                                           const BatchDivision& division,
                                           const ScheduleRequest& request);

}  // namespace tidepool::rounds

#endif  // TIDEPOOL_POLICIES_TRAINING_ROUNDS_LEAVING_ROUNDS_H_
