// SPDX-License-Identifier: Apache-2.0
// The waits of the compute stream for copies, found from measured times.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_MEASURED_STALLS_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_MEASURED_STALLS_H_

#include <vector>

#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/timeline.h"

namespace tidepool::execute {

// Returns the gaps between tasks in which a copy ended that the next task, or an earlier step of
// the host, waited for. Each gap names the copy that ended last. Other gaps are the time of
// starting a task. `events` are the events of an iteration of `schedule`, at most one for each
// step. O((steps + uses) log steps).
std::vector<TimelineStall> MeasuredStalls(const TaskGraph& graph, const Schedule& schedule,
                                          const std::vector<TimelineEvent>& events);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_MEASURED_STALLS_H_
