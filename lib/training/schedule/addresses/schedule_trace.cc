// SPDX-License-Identifier: Apache-2.0
// Turns a schedule into a trace of its requests to a pool.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/schedule/check/check_pool.h"
#include "lib/training/schedule/steps/leaving_data.h"
#include "tidepool/training/schedule.h"

namespace tidepool {
namespace {

class ScheduleTracer {
 public:
  // `leave` are the steps of offloads that give memory back.
  ScheduleTracer(const TaskGraph& graph, std::vector<bool> leave)
      : graph_(graph), leave_(std::move(leave)), are_there_(graph.data.size()) {}

  absl::Status Add(const ScheduleStep& step) {
    absl::Status status;
    switch (step.kind) {
      case StepKind::kAllocate:
      case StepKind::kPrefetch:
        are_there_[step.index] = true;
        status = Begin(graph_.data[step.index].name, graph_.data[step.index].bytes, step.hint);
        break;
      case StepKind::kRun:
        status = Run(step);
        break;
      case StepKind::kOffload:
        if (leave_[static_cast<std::size_t>(at_)]) Give(step.index);
        break;
      case StepKind::kFree:
      case StepKind::kDrop:
        Give(step.index);
        break;
      case StepKind::kSynchronize:
      case StepKind::kReceive:  // not in a pool's schedule, and so is the next
      case StepKind::kAdd:
        break;
    }
    ++at_;
    return status;
  }

  Trace Build() { return builder_.Build(); }

 private:
  absl::Status Run(const ScheduleStep& step) {
    const GraphTask& task = graph_.tasks[step.index];
    const std::int64_t bytes = task.algorithms[step.algorithm].workspace_bytes;
    if (bytes == 0) return absl::OkStatus();
    const std::string id = absl::StrCat(task.name, ".workspace");
    absl::Status status = Begin(id, bytes, Hint::kResident);
    if (status.ok()) builder_.Free(id, "", at_);
    return status;
  }

  absl::Status Begin(std::string_view id, std::int64_t bytes, Hint hint) {
    return builder_.Allocate(id, bytes, hint, "", at_);
  }

  void Give(std::size_t data) {
    if (are_there_[data]) builder_.Free(graph_.data[data].name, "", at_);
    are_there_[data] = false;
  }

  const TaskGraph& graph_;
  const std::vector<bool> leave_;  // by step
  TraceBuilder builder_{TraceFormat::kOperationCsv};
  std::vector<bool> are_there_;  // by data
  std::int64_t at_ = 0;
};

}  // namespace

absl::StatusOr<Trace> ScheduleTrace(const TaskGraph& graph, const Schedule& schedule,
                                    Leaving leaving) {
  absl::Status status = schedule::CheckIsForPool(schedule, "a trace of requests to a pool");
  if (status.ok()) status = ValidateSchedule(graph, schedule);
  if (!status.ok()) return status;
  ScheduleTracer tracer(graph, leaving == Leaving::kAtOnce
                                   ? schedule::OffloadsThatLeave(graph, schedule)
                                   : std::vector<bool>(schedule.steps.size()));
  for (const ScheduleStep& step : schedule.steps) {
    if (status = tracer.Add(step); !status.ok()) return status;
  }
  return tracer.Build();
}

}  // namespace tidepool
