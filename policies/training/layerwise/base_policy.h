// SPDX-License-Identifier: Apache-2.0
// The policy `base`: the memory manager that the papers compare with.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_BASE_POLICY_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_BASE_POLICY_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::layerwise {

// Returns the schedule of a valid graph with fixed addresses in the memory of a request's pool.
// Errors are MakeSchedule's.
absl::StatusOr<Schedule> MakeBase(std::string_view policy, const TaskGraph& graph,
                                  const ScheduleRequest& request);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_BASE_POLICY_H_
