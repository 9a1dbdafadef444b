// SPDX-License-Identifier: Apache-2.0
// Checks the numbers of a step by themselves, without the steps before it.
#ifndef TIDEPOOL_LIB_SCHEDULE_CHECK_NUMBERS_H_
#define TIDEPOOL_LIB_SCHEDULE_CHECK_NUMBERS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "tidepool/schedule/schedule.h"

namespace tidepool::schedule {

// Returns OK when the step is of a known kind, its task or data and its algorithm exist, and its
// hint and density are in their ranges; and in a pool's schedule, when it has no fields of others.
absl::Status CheckNumbers(const TaskGraph& graph, const Schedule& schedule, std::size_t at);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_SCHEDULE_CHECK_NUMBERS_H_
