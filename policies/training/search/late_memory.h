// SPDX-License-Identifier: Apache-2.0
// The order of steps in which a schedule takes memory late and gives it back early.
//
// A schedule in pages fills the memory as soon as it can, so that no plan of addresses has room to
// spare. Where the link is the bottleneck, tasks may run just before their results are sent. Data
// may come back just before its use. The iteration takes no longer.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_LATE_MEMORY_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_LATE_MEMORY_H_

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool::search {

// Returns the steps of a valid paged schedule of one device, without rounds, in the order of other
// times. Copies in, and tasks up to the one with the most data, start as late as the end of the
// iteration allows. All else starts as early as it can. A step that gives memory back comes when
// all uses of the memory have ended. Schedules with kSynchronize stay as they are, and so does one
// with a new order that is not valid. Errors are LowerSchedule's. O(steps log steps + uses).
absl::StatusOr<Schedule> TakeMemoryLate(const TaskGraph& graph, const Schedule& schedule,
                                        const Machine& machine);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_LATE_MEMORY_H_
