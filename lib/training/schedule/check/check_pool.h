// SPDX-License-Identifier: Apache-2.0
// Refuses schedules that are not those of a pool, for code that knows a live pool only.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_CHECK_POOL_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_CHECK_POOL_H_

#include "absl/status/status.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// Returns OK for ScheduleMemory::kPool, and InvalidArgument otherwise. `taker` begins the error:
// "the executor".
absl::Status CheckIsForPool(const Schedule& schedule, const char* taker);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_CHECK_POOL_H_
