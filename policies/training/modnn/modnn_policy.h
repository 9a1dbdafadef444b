// SPDX-License-Identifier: Apache-2.0
// The policy "modnn".
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_POLICY_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_POLICY_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::modnn {

// Returns the schedule of a valid graph for device 0 of the request, with addresses of its own, or
// with pages where the request asks for them. Errors are those of modnn::Modnn.
absl::StatusOr<Schedule> MakeModnn(std::string_view policy, const TaskGraph& graph,
                                   const ScheduleRequest& request);

// Returns the sub-batch of a device with `batch` samples. Errors are those of ChooseSubBatch.
absl::StatusOr<std::int64_t> ChooseModnnSubBatch(const GraphFamily& family, std::int64_t batch,
                                                 const ScheduleRequest& request);

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_MODNN_POLICY_H_
