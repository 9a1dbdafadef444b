// SPDX-License-Identifier: Apache-2.0
// The order of steps in which a schedule takes memory late and gives it back early.
//
// A paged schedule takes memory as soon as it can, which leaves a plan of addresses no room to
// spare. Where the link is the bottleneck, tasks can as well run just before their results are
// sent, and data can come back just before its use. The iteration takes no longer.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_LATE_MEMORY_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_LATE_MEMORY_H_

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool::search {

// Returns the same steps in a new order, for a valid paged schedule of one device without rounds.
// Copies in, and all tasks up to the one at which the most data exists, start as late as they can
// without delaying the end of the iteration. Everything else starts as early as it can. A step that
// gives memory back comes as soon as all uses of the memory have ended. Returns the schedule
// unchanged if it has steps kSynchronize, or if the new order is not valid. Errors are
// LowerSchedule's. O(steps log steps + uses).
absl::StatusOr<Schedule> TakeMemoryLate(const TaskGraph& graph, const Schedule& schedule,
                                        const Machine& machine);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_LATE_MEMORY_H_
