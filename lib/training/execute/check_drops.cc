// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/check_drops.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/steps/step_text.h"

namespace tidepool::execute {
namespace {

enum class Place : std::uint8_t { kHere, kSent, kOut };

// Returns whether the task of a step uses data that was sent.
bool UsesSent(const TaskGraph& graph, const ScheduleStep& step, const std::vector<Place>& places) {
  for (const std::size_t data : graph::UsesOf(graph.tasks[step.index])) {
    if (places[data] == Place::kSent) return true;
  }
  return false;
}

}  // namespace

absl::Status CheckDropsAreSent(const TaskGraph& graph, const Schedule& schedule) {
  std::vector<Place> places(graph.data.size());
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const ScheduleStep& step = schedule.steps[i];
    const auto refused = [&](const char* text) {
      return schedule::WrongStep(graph, schedule, i, text, " in a live pool");
    };
    if (step.kind == StepKind::kRun) {
      if (UsesSent(graph, step, places)) return refused("of data that was sent, expected its drop");
      continue;
    }
    if (step.kind == StepKind::kSynchronize) continue;
    Place& place = places[step.index];
    if (step.kind == StepKind::kOffload && place == Place::kSent) {
      return refused("of data that was sent, expected its drop");
    }
    if (step.kind == StepKind::kDrop && place != Place::kSent) {
      return refused("of data that was not sent since it came, expected an offload");
    }
    if (step.kind == StepKind::kAllocate && place == Place::kOut) {
      return refused("of data that was dropped, expected a prefetch");
    }
    place = step.kind == StepKind::kOffload ? Place::kSent
            : step.kind == StepKind::kDrop  ? Place::kOut
                                            : Place::kHere;
  }
  const auto sent = std::find(places.begin(), places.end(), Place::kSent);
  if (sent == places.end()) return absl::OkStatus();
  const auto data = static_cast<std::size_t>(sent - places.begin());
  return absl::InvalidArgumentError(absl::StrCat("after the last step: data ",
                                                 schedule::DataName(graph, data),
                                                 " was sent, expected its drop in a live pool"));
}

}  // namespace tidepool::execute
