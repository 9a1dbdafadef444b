// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/step_events.h"

namespace tidepool::execute {

StepEvents PlaceEvents(const TaskGraph& graph, const Schedule& schedule) {
  StepEvents events;
  events.recorded.assign(schedule.steps.size(), kNoEvent);
  events.awaited.assign(schedule.steps.size(), kNoEvent);
  // By data: the last step that wrote it.
  std::vector<std::size_t> writer(graph.data.size(), kNoEvent);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const ScheduleStep& step = schedule.steps[i];
    const bool is_first_prefetch =
        step.kind == StepKind::kPrefetch && writer[step.index] == kNoEvent;
    if (step.kind == StepKind::kAllocate || is_first_prefetch) writer[step.index] = i;
    if (step.kind == StepKind::kRun) {
      const GraphTask& task = graph.tasks[step.index];
      for (const std::size_t data : task.writes) writer[data] = i;
      for (const std::size_t data : task.updates) writer[data] = i;
    }
    if (step.kind != StepKind::kOffload) continue;
    std::size_t& event = events.recorded[writer[step.index]];
    if (event == kNoEvent) event = events.count++;
    events.awaited[i] = event;
  }
  return events;
}

}  // namespace tidepool::execute
