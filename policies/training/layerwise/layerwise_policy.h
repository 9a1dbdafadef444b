// SPDX-License-Identifier: Apache-2.0
// The policies `none`, `vdnn` and `vdnn++`: schedules of a pool, layer by layer.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_POLICY_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_POLICY_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::layerwise {

// Returns the schedule of a valid graph for the pool of a request. That pool has the memory and the
// link of its machine. Errors are MakeSchedule's.
absl::StatusOr<Schedule> MakePooled(std::string_view policy, const TaskGraph& graph,
                                    const ScheduleRequest& request);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_POLICY_H_
