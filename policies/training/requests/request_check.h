// SPDX-License-Identifier: Apache-2.0
// Checks of a request that are the same for all policies.
#ifndef TIDEPOOL_POLICIES_TRAINING_REQUESTS_REQUEST_CHECK_H_
#define TIDEPOOL_POLICIES_TRAINING_REQUESTS_REQUEST_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::requests {

// Return OK for a machine, an alignment and a number of devices in their ranges, and for a request
// that one graph can answer. InvalidArgument otherwise, with the value and the range.
absl::Status CheckMachine(const ScheduleRequest& request);
absl::Status CheckRequestOfGraph(const TaskGraph& graph, const ScheduleRequest& request);

// Tells whether cores of the host run the updates.
bool UpdatesOnHost(const ScheduleRequest& request);

// Returns the samples of one device. InvalidArgument for a batch or a sub-batch out of range, and
// for a batch that the devices do not divide.
absl::StatusOr<std::int64_t> BatchOfDevice(const ScheduleRequest& request);

}  // namespace tidepool::requests

#endif  // TIDEPOOL_POLICIES_TRAINING_REQUESTS_REQUEST_CHECK_H_
