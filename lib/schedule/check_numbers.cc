// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/check_numbers.h"

#include "lib/schedule/step_text.h"

namespace tidepool::schedule {
namespace {

bool IsDensity(double density) { return density == -1 || (density >= 0 && density <= 1); }

class StepNumbers {
 public:
  StepNumbers(const TaskGraph& graph, const Schedule& schedule, std::size_t at)
      : graph_(graph), schedule_(schedule), at_(at), step_(schedule.steps[at]) {}

  absl::Status Check() const {
    if (step_.kind > StepKind::kDrop) {
      return Wrong("of kind ", static_cast<int>(step_.kind), ", expected one of eight");
    }
    absl::Status status = step_.kind == StepKind::kRun ? CheckTask() : CheckData();
    if (!status.ok() || schedule_.memory != ScheduleMemory::kPool) return status;
    return CheckPool();
  }

 private:
  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return WrongStep(graph_, schedule_, at_, parts...);
  }

  absl::Status CheckTask() const {
    if (step_.index >= graph_.tasks.size()) {
      return Wrong("no such task, expected a number below ", graph_.tasks.size());
    }
    const std::size_t count = graph_.tasks[step_.index].algorithms.size();
    if (step_.algorithm < count) return absl::OkStatus();
    return Wrong("algorithm ", step_.algorithm, ", expected a number below ", count);
  }

  absl::Status CheckData() const {
    if (step_.kind != StepKind::kSynchronize && step_.index >= graph_.data.size()) {
      return Wrong("no such data, expected a number below ", graph_.data.size());
    }
    if (step_.hint != Hint::kResident && step_.hint != Hint::kOffloadable) {
      return Wrong("hint ", static_cast<int>(step_.hint), ", expected resident or offloadable");
    }
    if (step_.kind == StepKind::kOffload && !IsDensity(step_.density)) {
      return Wrong("density ", step_.density, ", expected 0 to 1, or -1");
    }
    return absl::OkStatus();
  }

  absl::Status CheckPool() const {
    if (step_.kind == StepKind::kDrop) {
      return Wrong("a pool gives memory back when an offload is awaited, expected no drop");
    }
    const ScheduleStep plain;
    const bool is_plain = step_.device == plain.device && step_.offset == plain.offset &&
                          step_.begin == plain.begin && step_.end == plain.end;
    if (is_plain) return absl::OkStatus();
    return Wrong("device ", step_.device, ", offset ", step_.offset, ", bytes [", step_.begin, ", ",
                 step_.end, "), expected 0, -1 and [0, -1) in the schedule of a pool");
  }

  const TaskGraph& graph_;
  const Schedule& schedule_;
  const std::size_t at_;
  const ScheduleStep& step_;
};

}  // namespace

absl::Status CheckNumbers(const TaskGraph& graph, const Schedule& schedule, std::size_t at) {
  return StepNumbers(graph, schedule, at).Check();
}

}  // namespace tidepool::schedule
