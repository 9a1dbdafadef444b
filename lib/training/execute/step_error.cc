// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/step_error.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool::execute {
namespace {

std::string NamesOf(const TaskGraph& graph, const ScheduleStep& step) {
  if (step.kind == StepKind::kSynchronize) return "";
  if (step.kind != StepKind::kRun) {
    return absl::StrCat(" data '", absl::CHexEscape(graph.data[step.index].name), "'");
  }
  const GraphTask& task = graph.tasks[step.index];
  return absl::StrCat(" task '", absl::CHexEscape(task.name), "' by '",
                      absl::CHexEscape(task.algorithms[step.algorithm].name), "'");
}

}  // namespace

absl::Status AtStep(const TaskGraph& graph, const Schedule& schedule, std::size_t at,
                    const absl::Status& error) {
  if (error.ok()) return error;
  if (at >= schedule.steps.size()) {
    return absl::Status(error.code(), absl::StrCat("after the last step: ", error.message()));
  }
  const ScheduleStep& step = schedule.steps[at];
  return absl::Status(error.code(),
                      absl::StrCat("step ", at, ", ", std::string(StepKindName(step.kind)),
                                   NamesOf(graph, step), ": ", error.message()));
}

}  // namespace tidepool::execute
