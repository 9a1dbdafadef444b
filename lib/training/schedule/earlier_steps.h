// SPDX-License-Identifier: Apache-2.0
// Steps of pools in files of format 1, in which an offload also gave memory back.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_EARLIER_STEPS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_EARLIER_STEPS_H_

#include <cstddef>
#include <vector>

#include "tidepool/schedule/schedule_file.h"

namespace tidepool::schedule {

// Returns the schedule of a pool with the drops that format 1 left out: of all data that was sent,
// after a synchronize; of data that was sent, before its prefetch, and at the end. A prefetch of
// data on the device, which did nothing, is left out. `awaits` are the numbers of the steps
// `await`, which are drops here; they did nothing for data that was not sent. An inserted step has
// the line of the step that it belongs to. O(steps).
ScheduleFile WithDrops(ScheduleFile file, const std::vector<std::size_t>& awaits);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_EARLIER_STEPS_H_
