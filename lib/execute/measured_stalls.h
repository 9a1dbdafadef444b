// What the compute stream waited for, as far as what was measured tells.
#ifndef TIDEPOOL_LIB_EXECUTE_MEASURED_STALLS_H_
#define TIDEPOOL_LIB_EXECUTE_MEASURED_STALLS_H_

#include <vector>

#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/schedule.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool::execute {

// The gaps between tasks in which a copy ended that the next task, or a step of the host before it,
// waits for: the one that ended last. Other gaps are the time that it takes to start a task.
// `events` are those of an iteration of `schedule`, each step at most once. O((steps + uses) log
// steps).
std::vector<TimelineStall> MeasuredStalls(const TaskGraph& graph, const Schedule& schedule,
                                          const std::vector<TimelineEvent>& events);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_EXECUTE_MEASURED_STALLS_H_
