// SPDX-License-Identifier: Apache-2.0
// A pass over the steps of a schedule that finds the stalls of an iteration.
#include "lib/training/execute/measured_stalls.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lib/training/graph/task_uses.h"

namespace tidepool::execute {
namespace {

class StallFinder {
 public:
  StallFinder(const TaskGraph& graph, const Schedule& schedule,
              const std::vector<TimelineEvent>& events)
      : graph_(graph),
        schedule_(schedule),
        events_(schedule.steps.size()),
        out_(graph.data.size()),
        in_(graph.data.size()) {
    for (const TimelineEvent& event : events) events_[event.step] = &event;
  }

  std::vector<TimelineStall> Find() {
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const ScheduleStep& step = schedule_.steps[i];
      if (step.kind == StepKind::kOffload) out_[step.index] = events_[i];
      if (step.kind == StepKind::kPrefetch && events_[i] != nullptr) in_[step.index] = events_[i];
      if (step.kind == StepKind::kDrop) Consider(out_[step.index], Reason::kMemory);
      if (step.kind == StepKind::kSynchronize) {
        for (const auto* copies : {&out_, &in_}) {
          for (const TimelineEvent* copy : *copies) Consider(copy, Reason::kSynchronize);
        }
      }
      if (step.kind == StepKind::kRun) Run(i);
    }
    return std::move(stalls_);
  }

 private:
  using Reason = TimelineStall::Reason;

  // Notes a copy that was waited for since the previous task.
  void Consider(const TimelineEvent* copy, Reason reason) {
    if (copy == nullptr || copy->end <= last_end_) return;
    if (awaited_ != nullptr && awaited_->end >= copy->end) return;
    awaited_ = copy;
    reason_ = reason;
  }

  void Run(std::size_t step) {
    const GraphTask& task = graph_.tasks[schedule_.steps[step].index];
    for (const std::size_t data : graph::InputsOf(task)) Consider(in_[data], Reason::kData);
    const TimelineEvent* const event = events_[step];
    if (event == nullptr) return;
    if (awaited_ != nullptr && awaited_->end <= event->start) {
      stalls_.push_back({schedule_.steps[step].index, last_end_, event->start - last_end_, reason_,
                         awaited_->index});
    }
    last_end_ = event->end;
    awaited_ = nullptr;
  }

  const TaskGraph& graph_;
  const Schedule& schedule_;
  std::vector<const TimelineEvent*> events_;  // by step; null for a step without an event
  std::vector<const TimelineEvent*> out_;     // by data: its last copy
  std::vector<const TimelineEvent*> in_;
  double last_end_ = 0;  // of the previous task
  const TimelineEvent* awaited_ = nullptr;
  Reason reason_ = Reason::kData;
  std::vector<TimelineStall> stalls_;
};

}  // namespace

std::vector<TimelineStall> MeasuredStalls(const TaskGraph& graph, const Schedule& schedule,
                                          const std::vector<TimelineEvent>& events) {
  return StallFinder(graph, schedule, events).Find();
}

}  // namespace tidepool::execute
