// SPDX-License-Identifier: Apache-2.0
// Checks of the steps of a schedule, one function for each discipline of memory.
#ifndef TIDEPOOL_LIB_SCHEDULE_CHECK_STEPS_H_
#define TIDEPOOL_LIB_SCHEDULE_CHECK_STEPS_H_

#include "absl/status/status.h"
#include "tidepool/schedule/schedule.h"

namespace tidepool::schedule {

// Returns OK when the steps obey the rules of a pool (ValidateSchedule). O(steps + uses).
absl::Status CheckPoolSteps(const TaskGraph& graph, const Schedule& schedule);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_SCHEDULE_CHECK_STEPS_H_
