// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/choose_algorithm.h"

#include <algorithm>
#include <vector>

#include "policies/training/modnn/offload_scheme.h"

namespace tidepool::modnn {
namespace {

// The gain of each algorithm of a task over its first one, the baseline.
class Gains {
 public:
  Gains(Iteration& iteration, std::size_t task) : iteration_(iteration), task_(task) {
    FindNextPrefetch();
    if (!missing_.empty()) seconds_without_ = DelayedSeconds(0);
  }

  // Returns equation (10), T_base - T_alg - T_off,alg - T_pre,alg(u); nothing where the workspace
  // finds no room.
  std::optional<double> Of(std::size_t algorithm) {
    const std::vector<TaskAlgorithm>& algorithms = iteration_.graph().tasks[task_].algorithms;
    const TaskAlgorithm& one = algorithms[algorithm];
    const std::int64_t bytes = iteration_.Rounded(one.workspace_bytes);
    const std::optional<double> off = OffloadSeconds(bytes);
    if (!off.has_value()) return std::nullopt;
    return algorithms.front().seconds - one.seconds - *off - PrefetchSeconds(one, bytes);
  }

 private:
  // Finds u, the nearest later task with data that is away, and that data.
  void FindNextPrefetch() {
    const std::size_t tasks = iteration_.graph().tasks.size();
    for (later_ = task_ + 1; later_ < tasks; ++later_) {
      for (const std::size_t data : iteration_.uses().DataOf(later_)) {
        if (iteration_.IsMissing(data)) missing_.push_back(data);
      }
      if (!missing_.empty()) return;
    }
  }

  // T_off: the time that the task waits for the room of its workspace.
  std::optional<double> OffloadSeconds(std::int64_t bytes) {
    if (bytes == 0) return 0;
    std::optional<double> from = iteration_.memory().FreeFromFor(bytes);
    if (!from.has_value()) {
      const auto scheme = FindScheme(iteration_, bytes, MayLeave::kByBothCriteria, {task_, task_});
      if (!scheme.has_value()) return std::nullopt;
      from = scheme->free_from;
    }
    return std::max(*from - iteration_.now(), 0.0);
  }

  // Returns the seconds of the copies for u that find no room beside a workspace.
  double DelayedSeconds(std::int64_t workspace_bytes) const {
    MemoryMap memory = iteration_.memory();
    if (workspace_bytes > 0) memory.Allocate(workspace_bytes, kWorkspace);
    double seconds = 0;
    for (const std::size_t data : missing_) {
      if (memory.Allocate(iteration_.Bytes(data), data).has_value()) continue;
      seconds += iteration_.copies().SecondsIn(iteration_.graph().data[data].bytes);
    }
    return seconds;
  }

  // T_pre: the copies that the workspace alone delays. Beyond the paper, only the part of them that
  // ends after u should begin is a penalty.
  double PrefetchSeconds(const TaskAlgorithm& algorithm, std::int64_t bytes) const {
    if (missing_.empty() || bytes == 0) return 0;
    const double seconds = DelayedSeconds(bytes) - seconds_without_;
    if (iteration_.settings().as_printed || seconds <= 0) return std::max(seconds, 0.0);
    const double end = iteration_.now() + algorithm.seconds;
    const double late = std::max(end, iteration_.copies().EndIn()) + seconds -
                        iteration_.ExpectedStart(later_, task_, end);
    return std::clamp(late, 0.0, seconds);
  }

  Iteration& iteration_;
  const std::size_t task_;
  std::size_t later_ = 0;             // u
  std::vector<std::size_t> missing_;  // data of u
  double seconds_without_ = 0;
};

}  // namespace

ChosenAlgorithm ChooseAlgorithm(Iteration& iteration, std::size_t task,
                                std::optional<MemoryMap::Block> least_workspace) {
  const std::vector<TaskAlgorithm>& algorithms = iteration.graph().tasks[task].algorithms;
  ChosenAlgorithm chosen = {.workspace = least_workspace};
  if (algorithms.size() == 1) return chosen;
  if (least_workspace.has_value()) iteration.memory().TakeBack(*least_workspace);
  Gains gains(iteration, task);
  double most = gains.Of(0).value_or(0);
  for (std::size_t i = 1; i < algorithms.size(); ++i) {
    const std::optional<double> gain = gains.Of(i);
    if (!gain.has_value() || *gain <= most) continue;
    most = *gain;
    chosen.algorithm = i;
  }
  const std::int64_t bytes = iteration.Rounded(algorithms[chosen.algorithm].workspace_bytes);
  chosen.workspace.reset();
  if (bytes == 0) return chosen;
  chosen.workspace =
      MakeRoom(iteration, bytes, kWorkspace, MayLeave::kByBothCriteria, {task, task});
  iteration.WaitUntil(iteration.memory().FreeFrom(*chosen.workspace));
  return chosen;
}

}  // namespace tidepool::modnn
