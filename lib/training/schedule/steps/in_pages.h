// SPDX-License-Identifier: Apache-2.0
// Drops the addresses of a schedule.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_IN_PAGES_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_IN_PAGES_H_

#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// Returns a schedule of pages or fixed addresses, as one of pages.
inline Schedule InPages(Schedule schedule) {
  schedule.memory = ScheduleMemory::kPaged;
  for (ScheduleStep& step : schedule.steps) step.offset = -1;
  return schedule;
}

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_IN_PAGES_H_
