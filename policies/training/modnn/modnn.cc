// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/modnn.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "policies/training/modnn/iteration.h"
#include "policies/training/modnn/offload_scheme.h"
#include "policies/training/modnn/prepare_task.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool::modnn {
namespace {

struct ChosenAlgorithm {
  std::size_t algorithm = 0;
  std::optional<MemoryMap::Block> workspace = std::nullopt;
};

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
      for (const std::size_t data : iteration_.DataOf(later_)) {
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

// Chooses the algorithm of a task with placed data, and its workspace, and lets time pass until
// that is free. `least_workspace` is the block of the first algorithm, if that has one: the other
// algorithms may take its place.
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

// The prediction of section 5.2.2: whether a later task finds room without defragmentation.
//
// Goes from task to task. All data may leave that was used since it was made or came back (the
// first criterion); and all data that tasks on the way need comes, and is used. So data
// that is on the device, or made on the way, keeps its room until it is used.
class FreeSpace {
 public:
  // Begins before the task after `task`, which runs next.
  FreeSpace(const Iteration& iteration, std::size_t task);

  // Whether the data of the task and its least workspace fit beside data that is not used yet.
  bool Holds(std::size_t task) const;
  // Goes past the task.
  void Pass(std::size_t task);

 private:
  void Add(std::size_t data);
  void Remove(std::size_t data);

  const Iteration& iteration_;
  std::vector<bool> is_unused_;  // by datum
  std::int64_t unused_bytes_ = 0;
};

FreeSpace::FreeSpace(const Iteration& iteration, std::size_t task)
    : iteration_(iteration), is_unused_(iteration.graph().data.size()) {
  for (std::size_t data = 0; data < is_unused_.size(); ++data) {
    if (iteration.HasValues(data) && iteration.IsThere(data) && !iteration.WasUsed(data)) Add(data);
  }
  Pass(task);
}

bool FreeSpace::Holds(std::size_t task) const {
  std::int64_t bytes =
      unused_bytes_ +
      iteration_.Rounded(iteration_.graph().tasks[task].algorithms.front().workspace_bytes);
  for (const std::size_t data : iteration_.DataOf(task)) {
    if (!iteration_.Stays(data) && !is_unused_[data]) bytes += iteration_.Bytes(data);
  }
  return bytes <= iteration_.memory().capacity();
}

void FreeSpace::Pass(std::size_t task) {
  for (const std::size_t data : iteration_.DataOf(task)) Remove(data);
  for (const std::size_t data : iteration_.graph().tasks[task].writes) {
    if (iteration_.users().Last(data) != task) Add(data);
  }
}

void FreeSpace::Add(std::size_t data) {
  if (iteration_.Stays(data) || is_unused_[data]) return;
  is_unused_[data] = true;
  unused_bytes_ += iteration_.Bytes(data);
}

void FreeSpace::Remove(std::size_t data) {
  if (!is_unused_[data]) return;
  is_unused_[data] = false;
  unused_bytes_ -= iteration_.Bytes(data);
}

class Prefetches {
 public:
  Prefetches(Iteration& iteration, std::size_t task, double end)
      : iteration_(iteration), task_(task), end_(end) {}

  void Begin() {
    const std::size_t tasks = iteration_.graph().tasks.size();
    if (!iteration_.settings().as_printed) {
      FindLastUrgent();
      if (last_urgent_ == 0) return;
    }
    FreeSpace space(iteration_, task_);
    for (std::size_t later = task_ + 1; later < tasks; space.Pass(later++)) {
      if (!space.Holds(later)) return;  // a defragmentation would make the copies useless
      const std::vector<std::size_t> missing = MissingOf(later);
      if (missing.empty()) continue;
      if (!IsUrgent(later, missing) || !CopyIn(later, missing)) return;
    }
  }

 private:
  std::vector<std::size_t> MissingOf(std::size_t later) const {
    std::vector<std::size_t> missing;
    for (const std::size_t data : iteration_.DataOf(later)) {
      if (iteration_.IsMissing(data)) missing.push_back(data);
    }
    return missing;
  }

  double SecondsOf(const std::vector<std::size_t>& missing) const {
    double seconds = 0;
    for (const std::size_t data : missing) seconds += SecondsIn(data);
    return seconds;
  }

  double SecondsIn(std::size_t data) const {
    return iteration_.copies().SecondsIn(iteration_.graph().data[data].bytes);
  }

  double ExpectedStart(std::size_t later) const {
    return iteration_.ExpectedStart(later, task_, end_);
  }

  // Equation (9): the copies would end after the task should begin if they began after this task.
  // As printed it knows nothing of the queue.
  bool IsUrgent(std::size_t later, const std::vector<std::size_t>& missing) const {
    if (!iteration_.settings().as_printed) return later <= last_urgent_;
    return end_ + SecondsOf(missing) > ExpectedStart(later);
  }

  // Finds the last task that would wait for its copies, with those of the tasks before it in the
  // queue, if none of them began now.
  void FindLastUrgent() {
    const std::size_t tasks = iteration_.graph().tasks.size();
    const std::size_t data_count = iteration_.graph().data.size();
    double arrival = std::max(end_, iteration_.copies().EndIn());
    double last_arrival = arrival;             // of all missing data
    std::vector<bool> is_missing(data_count);  // and not in the queue yet
    for (std::size_t data = 0; data < data_count; ++data) {
      is_missing[data] = iteration_.IsMissing(data);
      if (is_missing[data]) last_arrival += SecondsIn(data);
    }
    for (std::size_t later = task_ + 1; later < tasks; ++later) {
      // All copies have ended when the later tasks begin.
      if (last_arrival * (1 + kEqualSeconds) <= ExpectedStart(later)) return;
      for (const std::size_t data : iteration_.DataOf(later)) {
        if (!is_missing[data]) continue;
        is_missing[data] = false;
        arrival += SecondsIn(data);
      }
      if (arrival > ExpectedStart(later)) last_urgent_ = later;
    }
  }

  // Begins the copies of a task's data. Data of this task, of the later one and of those between
  // them stays for it. Returns false where there is no room.
  bool CopyIn(std::size_t later, const std::vector<std::size_t>& missing) {
    for (const std::size_t data : missing) {
      const auto block = MakeRoom(iteration_, iteration_.Bytes(data), data,
                                  MayLeave::kByBothCriteria, {task_, later});
      if (!block.has_value()) return false;
      iteration_.Place(data, *block);
    }
    return true;
  }

  Iteration& iteration_;
  const std::size_t task_;
  const double end_;
  std::size_t last_urgent_ = 0;
};

// Begins the copies for tasks after `task`, which runs next and ends at `end`, that would be late
// if they began after it.
void PrefetchForLaterTasks(Iteration& iteration, std::size_t task, double end) {
  Prefetches(iteration, task, end).Begin();
}

absl::Status CheckBound(const TaskGraph& graph, const Settings& settings) {
  const MemoryBound bound = LeastMemory(graph, settings.alignment, StayingData::kAtHome);
  if (bound.bytes <= settings.memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "task \"", absl::CHexEscape(graph.tasks[bound.task].name), "\" needs ", bound.bytes, " bytes",
      graph.batch > 0 ? absl::StrCat(" at a batch of ", graph.batch) : "", ", ",
      bound.staying_bytes, " of them for data that stays; the memory has ", settings.memory_bytes,
      " bytes"));
}

}  // namespace

absl::StatusOr<Schedule> Modnn(const TaskGraph& graph, const Settings& settings) {
  if (absl::Status status = CheckBound(graph, settings); !status.ok()) return status;
  Iteration iteration(graph, settings);
  if (const std::optional<std::size_t> input = iteration.PlaceInputs(); input.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "data \"", absl::CHexEscape(graph.data[*input].name), "\" of ", graph.data[*input].bytes,
        " bytes is at home on the device and has no room beside other data at home there; the "
        "memory has ",
        settings.memory_bytes, " bytes"));
  }
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    const auto least_workspace = PrepareTask(iteration, task);
    const ChosenAlgorithm chosen = ChooseAlgorithm(iteration, task, least_workspace);
    const double seconds = graph.tasks[task].algorithms[chosen.algorithm].seconds;
    PrefetchForLaterTasks(iteration, task, iteration.now() + seconds);
    iteration.Run(task, chosen.algorithm, chosen.workspace);
  }
  return iteration.TakeSchedule();
}

}  // namespace tidepool::modnn
