// SPDX-License-Identifier: Apache-2.0
// The offloads after which data may give its memory back at once.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_LEAVING_DATA_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_LEAVING_DATA_H_

#include <cstddef>
#include <vector>

#include "lib/training/graph/task_uses.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// Returns, by step, the offloads of data that no later step needs before it is dropped or freed.
// O(steps + uses).
inline std::vector<bool> OffloadsThatLeave(const TaskGraph& graph, const Schedule& schedule) {
  std::vector<bool> leave(schedule.steps.size());
  std::vector<bool> ends(graph.data.size());  // by data: whether its next step ends its stay
  for (std::size_t i = schedule.steps.size(); i-- > 0;) {
    const ScheduleStep& step = schedule.steps[i];
    if (step.kind == StepKind::kRun) {
      for (const std::size_t data : graph::UsesOf(graph.tasks[step.index])) ends[data] = false;
    } else if (step.kind != StepKind::kSynchronize) {
      leave[i] = step.kind == StepKind::kOffload && ends[step.index];
      ends[step.index] = step.kind == StepKind::kDrop || step.kind == StepKind::kFree;
    }
  }
  return leave;
}

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_LEAVING_DATA_H_
