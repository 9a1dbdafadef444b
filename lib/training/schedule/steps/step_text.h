// SPDX-License-Identifier: Apache-2.0
// Words about a step in errors.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_STEP_TEXT_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_STEP_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

inline std::string TaskName(const TaskGraph& graph, std::size_t task) {
  return text::Quoted(graph.tasks[task].name);
}
inline std::string DataName(const TaskGraph& graph, std::size_t data) {
  return text::Quoted(graph.data[data].name);
}

// Returns "step 3, run 'conv'", "step 4, offload 'map'" or "step 5, synchronize". The kind and the
// index of a step may be unknown.
inline std::string StepText(const TaskGraph& graph, const Schedule& schedule, std::size_t at) {
  const ScheduleStep& step = schedule.steps[at];
  if (step.kind > StepKind::kAdd) return absl::StrCat("step ", at, ", unknown");
  const std::string text = absl::StrCat("step ", at, ", ", std::string(StepKindName(step.kind)));
  if (step.kind == StepKind::kSynchronize) return text;
  const bool runs = step.kind == StepKind::kRun;
  const std::size_t count = runs ? graph.tasks.size() : graph.data.size();
  if (step.index >= count) return absl::StrCat(text, " ", step.index);
  return absl::StrCat(text, " ", runs ? TaskName(graph, step.index) : DataName(graph, step.index));
}

// Returns "step 3, run 'conv': PARTS" as InvalidArgument.
template <typename... Parts>
absl::Status WrongStep(const TaskGraph& graph, const Schedule& schedule, std::size_t at,
                       const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(StepText(graph, schedule, at), ": ", parts...));
}

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_STEP_TEXT_H_
