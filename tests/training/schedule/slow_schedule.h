// SPDX-License-Identifier: Apache-2.0
// A model of schedule.h in the slowest and plainest way: each question is answered from all earlier
// steps.
#ifndef TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_SCHEDULE_H_
#define TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_SCHEDULE_H_

#include <string>

#include "tests/training/graph/slow_graph.h"
#include "tidepool/schedule/schedule.h"

namespace tidepool::testing {

class SlowScheduleCheck {
 public:
  SlowScheduleCheck(const TaskGraph& graph, const Schedule& schedule)
      : graph_(graph), steps_(schedule.steps) {}

  bool IsValid() const {
    for (std::size_t at = 0; at < steps_.size(); ++at) {
      if (!StepIsValid(at)) return false;
    }
    const std::size_t end = steps_.size();
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (!HasRun(task, end)) return false;
    }
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      const DataHome home = graph_.data[data].after;
      const std::string expected = home == DataHome::kDevice ? "device"
                                   : home == DataHome::kHost ? "out"
                                                             : "freed";
      if (PlaceOf(data, end) != expected) return false;
    }
    return true;
  }

 private:
  // The host does not decompress.
  static bool HostMayRead(const GraphData& data) {
    return data.before == DataHome::kHost || data.after != DataHome::kNowhere ||
           data.kind == DataKind::kWeightGradient;
  }
  bool HasRun(std::size_t task, std::size_t before) const {
    for (std::size_t at = 0; at < before; ++at) {
      if (steps_[at].kind == StepKind::kRun && steps_[at].index == task) return true;
    }
    return false;
  }

  std::string PlaceOf(std::size_t data, std::size_t before) const {
    std::string place = graph_.data[data].before == DataHome::kHost ? "out" : "nowhere";
    for (std::size_t at = 0; at < before; ++at) {
      if (steps_[at].index != data) continue;
      if (steps_[at].kind == StepKind::kAllocate) place = "device";
      if (steps_[at].kind == StepKind::kOffload) place = "out";
      if (steps_[at].kind == StepKind::kPrefetch) place = "device";
      if (steps_[at].kind == StepKind::kFree) place = "freed";
    }
    return place;
  }

  bool IsWritten(std::size_t data, std::size_t before) const {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (Holds(graph_.tasks[task].writes, data) && !HasRun(task, before)) return false;
    }
    return true;
  }

  bool IsNeeded(std::size_t data, std::size_t from) const {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (HasRun(task, from)) continue;
      if (UsesThere(graph_.tasks[task], data) || Holds(graph_.tasks[task].writes, data)) {
        return true;
      }
    }
    return false;
  }

  bool StepIsValid(std::size_t at) const {
    const ScheduleStep& step = steps_[at];
    if (step.kind > StepKind::kSynchronize) return false;
    if (step.kind == StepKind::kSynchronize) return true;
    if (step.kind == StepKind::kRun) return RunIsValid(at);
    if (step.index >= graph_.data.size()) return false;
    const std::string place = PlaceOf(step.index, at);
    const bool is_somewhere = place == "device" || place == "out";
    if (step.kind == StepKind::kAllocate) return place == "nowhere";
    if (step.kind == StepKind::kOffload) {
      return place == "device" && IsWritten(step.index, at) &&
             (step.density == -1 ||
              (step.density >= 0 && step.density <= 1 && !HostMayRead(graph_.data[step.index])));
    }
    if (step.kind == StepKind::kFree) {
      return is_somewhere && graph_.data[step.index].after == DataHome::kNowhere &&
             !IsNeeded(step.index, at);
    }
    return is_somewhere;
  }

  bool RunIsValid(std::size_t at) const {
    const std::size_t index = steps_[at].index;
    if (index >= graph_.tasks.size() || HasRun(index, at)) return false;
    const GraphTask& task = graph_.tasks[index];
    if (steps_[at].algorithm >= task.algorithms.size()) return false;
    for (std::size_t other = 0; other < graph_.tasks.size(); ++other) {
      if (other != index && !HasRun(other, at) && SlowMustWait(graph_, index, other)) return false;
    }
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (!UsesThere(task, data) && !Holds(task.writes, data)) continue;
      if (PlaceOf(data, at) != "device") return false;
    }
    return true;
  }

  const TaskGraph& graph_;
  const std::vector<ScheduleStep>& steps_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_SCHEDULE_H_
