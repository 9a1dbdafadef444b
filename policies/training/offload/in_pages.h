// SPDX-License-Identifier: Apache-2.0
// Drops the addresses of a schedule.
#ifndef TIDEPOOL_POLICIES_TRAINING_OFFLOAD_IN_PAGES_H_
#define TIDEPOOL_POLICIES_TRAINING_OFFLOAD_IN_PAGES_H_

#include "tidepool/schedule/schedule.h"

namespace tidepool::offload_policies {

// Returns a schedule of pages or fixed addresses, as one of pages.
inline Schedule InPages(Schedule schedule) {
  schedule.memory = ScheduleMemory::kPaged;
  for (ScheduleStep& step : schedule.steps) step.offset = -1;
  return schedule;
}

}  // namespace tidepool::offload_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_OFFLOAD_IN_PAGES_H_
