// SPDX-License-Identifier: Apache-2.0
// The policies that take a graph in the order of its tasks: none, base, vdnn and vdnn++.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_POLICIES_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_POLICIES_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::layerwise {

// Returns the paged schedule of the policy "none" for a valid graph and device 0 of the request.
// Data at home on the host comes in first. Data that changed is copied out after its last use. With
// OffloadSet::kDynamic each task has the fastest algorithm with room beside the data at that time.
// Memory is not checked otherwise. O(uses + algorithms).
absl::StatusOr<Schedule> MakeStaying(std::string_view policy, const TaskGraph& graph,
                                     const ScheduleRequest& request);

// Returns the schedule of a valid graph with fixed addresses in the memory of a request's pool.
// Errors are MakeSchedule's.
absl::StatusOr<Schedule> MakeBase(std::string_view policy, const TaskGraph& graph,
                                  const ScheduleRequest& request);

// Returns the schedule of a valid graph for the pool of a request. That pool has the memory and the
// link of its machine. Errors are MakeSchedule's.
absl::StatusOr<Schedule> MakePooled(std::string_view policy, const TaskGraph& graph,
                                    const ScheduleRequest& request);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_POLICIES_H_
