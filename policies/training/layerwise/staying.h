// SPDX-License-Identifier: Apache-2.0
// The policy "none": paged schedules in which data is on the device from its first use to its last.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_STAYING_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_STAYING_H_

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

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_STAYING_H_
