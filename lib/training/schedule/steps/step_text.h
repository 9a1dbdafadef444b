// SPDX-License-Identifier: Apache-2.0
// Words about a step in errors.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_STEP_TEXT_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_STEP_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/quote.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

inline std::string TaskName(const TaskGraph& graph, std::size_t task) {
  return io::Quoted(graph.tasks[task].name);
}
inline std::string DataName(const TaskGraph& graph, std::size_t data) {
  return io::Quoted(graph.data[data].name);
}

// Returns "run 'conv'", "offload 'map'" or "synchronize". The kind and the number may be unknown.
inline std::string StepText(const TaskGraph& graph, const ScheduleStep& step) {
  if (step.kind > StepKind::kAdd) return "unknown";
  std::string kind(StepKindName(step.kind));
  if (step.kind == StepKind::kSynchronize) return kind;
  const bool runs = step.kind == StepKind::kRun;
  const std::size_t count = runs ? graph.tasks.size() : graph.data.size();
  if (step.index >= count) return absl::StrCat(kind, " ", step.index);
  return absl::StrCat(kind, " ", runs ? TaskName(graph, step.index) : DataName(graph, step.index));
}

// Returns "step 3, run 'conv': PARTS" as InvalidArgument.
template <typename... Parts>
absl::Status WrongStep(const TaskGraph& graph, const Schedule& schedule, std::size_t at,
                       const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("step ", at, ", ", StepText(graph, schedule.steps[at]), ": ", parts...));
}

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_STEP_TEXT_H_
