// SPDX-License-Identifier: Apache-2.0
// Turns a schedule into a trace of its requests to a pool.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/schedule/begin_on_host.h"
#include "lib/training/schedule/check_pool.h"
#include "lib/training/schedule/line_of_data.h"
#include "lib/training/schedule/visit_step.h"
#include "tidepool/schedule/schedule.h"

namespace tidepool {
namespace {

class ScheduleTracer {
 public:
  ScheduleTracer(const TaskGraph& graph, std::vector<bool> leaves_at_once)
      : graph_(graph),
        leaves_at_once_(std::move(leaves_at_once)),
        is_out_(schedule::BeginOnHost(graph)),
        leaving_(graph.data.size()) {}

  absl::Status Add(const ScheduleStep& step) {
    absl::Status status = schedule::VisitStep(step, *this);
    ++at_;
    return status;
  }

  Trace Build() { return builder_.Build(); }

  // The steps, for VisitStep.
  absl::Status Allocate(const ScheduleStep& step) {
    return Begin(graph_.data[step.index], step.hint);
  }

  absl::Status Free(const ScheduleStep& step) {
    if (leaving_.Holds(step.index)) leaving_.Leave(step.index);
    if (!is_out_[step.index]) End(graph_.data[step.index].name);
    return absl::OkStatus();
  }

  absl::Status Run(const ScheduleStep& step) {
    const GraphTask& task = graph_.tasks[step.index];
    const std::int64_t bytes = task.algorithms[step.algorithm].workspace_bytes;
    if (bytes == 0) return absl::OkStatus();
    const std::string id = absl::StrCat(task.name, ".workspace");
    absl::Status status = builder_.Allocate(id, bytes, Hint::kResident, "", at_);
    if (status.ok()) End(id);
    return status;
  }

  absl::Status Offload(const ScheduleStep& step) {
    leaving_.Join(step.index);
    if (leaves_at_once_[static_cast<std::size_t>(at_)]) AwaitData(step.index);
    return absl::OkStatus();
  }

  absl::Status Await(const ScheduleStep& step) {
    if (leaving_.Holds(step.index)) AwaitData(step.index);
    return absl::OkStatus();
  }

  absl::Status Prefetch(const ScheduleStep& step) {
    if (leaving_.Holds(step.index)) leaving_.Leave(step.index);
    if (!is_out_[step.index]) return absl::OkStatus();
    is_out_[step.index] = false;
    return Begin(graph_.data[step.index], step.hint);
  }

  absl::Status Synchronize() {
    while (!leaving_.empty()) AwaitData(leaving_.first());
    return absl::OkStatus();
  }

 private:
  absl::Status Begin(const GraphData& data, Hint hint) {
    return builder_.Allocate(data.name, data.bytes, hint, "", at_);
  }
  void End(std::string_view id) { builder_.Free(id, "", at_); }

  void AwaitData(std::size_t data) {
    leaving_.Leave(data);
    is_out_[data] = true;
    End(graph_.data[data].name);
  }

  const TaskGraph& graph_;
  const std::vector<bool> leaves_at_once_;  // by step
  TraceBuilder builder_{TraceFormat::kOperationCsv};
  std::vector<bool> is_out_;
  schedule::LineOfData leaving_;
  std::int64_t at_ = 0;
};

// Returns the offload steps that are awaited before their prefetch.
std::vector<bool> StepsThatAreAwaited(const TaskGraph& graph, const Schedule& schedule) {
  const std::size_t never = schedule.steps.size();
  std::vector<bool> are_awaited(schedule.steps.size());
  std::vector<std::size_t> next_await(graph.data.size(), never);
  std::vector<std::size_t> next_fetch(graph.data.size(), never);
  std::size_t next_synchronize = never;
  for (std::size_t i = schedule.steps.size(); i-- > 0;) {
    const ScheduleStep& step = schedule.steps[i];
    if (step.kind == StepKind::kAwait || step.kind == StepKind::kFree) next_await[step.index] = i;
    if (step.kind == StepKind::kPrefetch) next_fetch[step.index] = i;
    if (step.kind == StepKind::kSynchronize) next_synchronize = i;
    if (step.kind != StepKind::kOffload) continue;
    are_awaited[i] = std::min(next_await[step.index], next_synchronize) < next_fetch[step.index];
  }
  return are_awaited;
}

}  // namespace

absl::StatusOr<Trace> ScheduleTrace(const TaskGraph& graph, const Schedule& schedule,
                                    Leaving leaving) {
  absl::Status status = schedule::CheckIsForPool(schedule, "a trace of requests to a pool");
  if (status.ok()) status = ValidateSchedule(graph, schedule);
  if (!status.ok()) return status;
  ScheduleTracer tracer(graph, leaving == Leaving::kAtOnce
                                   ? StepsThatAreAwaited(graph, schedule)
                                   : std::vector<bool>(schedule.steps.size()));
  for (const ScheduleStep& step : schedule.steps) {
    if (status = tracer.Add(step); !status.ok()) return status;
  }
  return tracer.Build();
}

}  // namespace tidepool
