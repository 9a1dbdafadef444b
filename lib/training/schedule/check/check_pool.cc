// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/check/check_pool.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tidepool::schedule {

absl::Status CheckIsForPool(const Schedule& schedule, const char* taker) {
  if (schedule.memory == ScheduleMemory::kPool) return absl::OkStatus();
  const bool is_known = schedule.memory <= ScheduleMemory::kPaged;
  return absl::InvalidArgumentError(
      absl::StrCat(taker, " takes no schedule with ",
                   is_known ? std::string(ScheduleMemoryName(schedule.memory)) : "unknown",
                   " memory, expected one of a pool"));
}

}  // namespace tidepool::schedule
