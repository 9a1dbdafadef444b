// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/prefetch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/training/modnn/iteration.h"
#include "policies/training/modnn/offload_scheme.h"

namespace tidepool::modnn {
namespace {

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
  for (const std::size_t data : iteration_.uses().DataOf(task)) {
    if (!iteration_.Stays(data) && !is_unused_[data]) bytes += iteration_.Bytes(data);
  }
  return bytes <= iteration_.memory().capacity();
}

void FreeSpace::Pass(std::size_t task) {
  for (const std::size_t data : iteration_.uses().DataOf(task)) Remove(data);
  for (const std::size_t data : iteration_.graph().tasks[task].writes) {
    if (iteration_.uses().LastUse(data) != task) Add(data);
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
    for (const std::size_t data : iteration_.uses().DataOf(later)) {
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
    constexpr double kRounding = 1 + 1e-9;
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
      if (last_arrival * kRounding <= ExpectedStart(later)) return;
      for (const std::size_t data : iteration_.uses().DataOf(later)) {
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

}  // namespace

void PrefetchForLaterTasks(Iteration& iteration, std::size_t task, double end) {
  Prefetches(iteration, task, end).Begin();
}

}  // namespace tidepool::modnn
