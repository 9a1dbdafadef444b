// SPDX-License-Identifier: Apache-2.0
// The policy `base`: the memory manager that the papers compare with.
#ifndef TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BASE_POLICY_H_
#define TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BASE_POLICY_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/schedule.h"

namespace tidepool::offload_policies {

// Returns the schedule of a valid graph with fixed addresses in the memory of a request's pool.
// Errors are MakeSchedule's.
absl::StatusOr<Schedule> MakeBase(std::string_view policy, const TaskGraph& graph,
                                  const ScheduleRequest& request);

}  // namespace tidepool::offload_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BASE_POLICY_H_
