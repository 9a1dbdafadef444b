// SPDX-License-Identifier: Apache-2.0
// Checks of schedules that say which step has the fault, so that readers of files add its line.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_CHECK_STEPS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_CHECK_STEPS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// Returns ValidateSchedule's status. After an error `*at` is the number of the step with the fault,
// or the number of steps if the fault is one of the schedule as a whole.
absl::Status CheckSchedule(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                           std::size_t* at);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_CHECK_STEPS_H_
