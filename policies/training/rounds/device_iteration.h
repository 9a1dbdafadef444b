// SPDX-License-Identifier: Apache-2.0
// Iterations with fixed addresses or pages, in rounds and on several devices, from paged schedules
// of one policy.
#ifndef TIDEPOOL_POLICIES_TRAINING_ROUNDS_DEVICE_ITERATION_H_
#define TIDEPOOL_POLICIES_TRAINING_ROUNDS_DEVICE_ITERATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "policies/training/requests/policy_table.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::rounds {

// Returns the iteration of a valid graph on one device. `effort` limits the search for addresses.
// Errors are those of the policy, of FixAddresses and of LowerSchedule.
absl::StatusOr<MadeSchedule> MakeIteration(const requests::OffloadPolicy& policy,
                                           const TaskGraph& graph, const ScheduleRequest& request,
                                           const schedule::PlanEffort& effort = {});

// Returns the iteration of a valid family on devices with `batch` samples each, in rounds of the
// request's sub-batch. For kLargestSubBatch, a binary search finds a sub-batch with a paged round
// that fits; from there it goes down until the whole iteration fits. Errors are those above,
// GraphAt's, and InvalidArgument for graphs that have no rounds.
absl::StatusOr<MadeSchedule> MakeIteration(const requests::OffloadPolicy& policy,
                                           const GraphFamily& family, std::int64_t batch,
                                           const ScheduleRequest& request,
                                           const schedule::PlanEffort& effort = {});

}  // namespace tidepool::rounds

#endif  // TIDEPOOL_POLICIES_TRAINING_ROUNDS_DEVICE_ITERATION_H_
