// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/steps/step_text.h"

namespace tidepool::schedule {

std::string StepText(const TaskGraph& graph, const ScheduleStep& step) {
  if (step.kind > StepKind::kAdd) return "unknown";
  std::string kind(StepKindName(step.kind));
  if (step.kind == StepKind::kSynchronize) return kind;
  const bool runs = step.kind == StepKind::kRun;
  const std::size_t count = runs ? graph.tasks.size() : graph.data.size();
  if (step.index >= count) return absl::StrCat(kind, " ", step.index);
  return absl::StrCat(kind, " ", runs ? TaskName(graph, step.index) : DataName(graph, step.index));
}

}  // namespace tidepool::schedule
