// SPDX-License-Identifier: Apache-2.0
// Checks the numbers of a step by themselves, without the steps before it.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_CHECK_NUMBERS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_CHECK_NUMBERS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// Returns OK when the step is of a known kind, its task or data and its algorithm exist, and its
// hint and density are in their ranges. A step of a pool has no fields of other memory. All other
// steps have a range of bytes within their data, an offset exactly where they need one, and never
// wait on the host. The device must be known (CheckDeviceNumber). O(1).
absl::Status CheckNumbers(const TaskGraph& graph, const Schedule& schedule, std::size_t at);

// Returns OK when the step's device exists, and the host is the device of a task only.
absl::Status CheckDeviceNumber(const TaskGraph& graph, const Schedule& schedule, std::size_t at);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_CHECK_NUMBERS_H_
