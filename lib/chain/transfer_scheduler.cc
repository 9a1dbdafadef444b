// SPDX-License-Identifier: Apache-2.0
// The actions of tasks, offloads, drops and prefetches are four lists in the order of their times.
// They are merged into one that never needs more than the memory.
#include "lib/chain/transfer_scheduler.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/chain/graph_walk.h"
#include "lib/io/quote.h"

namespace tidepool::chain {
namespace {

struct Action {
  // In the order in which actions of the same time are best taken: first those that give memory
  // back, last those that take it for long.
  enum class Kind : std::uint8_t { kEndTask, kDrop, kOffload, kRunTask, kPrefetch };

  double seconds = 0;
  Kind kind = Kind::kRunTask;
  std::size_t index = 0;  // task or data
  std::size_t ready = 0;  // of kOffload and kDrop: the number of tasks that must run before
};

class TransferScheduler {
 public:
  TransferScheduler(const TaskGraph& graph, const GraphChain& made, const ChainTransfers& transfers,
                    const ChainTimes& times, std::int64_t granule)
      : graph_(graph),
        made_(made),
        transfers_(transfers),
        times_(times),
        granule_(granule),
        walk_(WalkGraph(graph, made.algorithms)),
        free_(made.chain.memory_bytes + made.resident_bytes),
        is_on_device_(graph.data.size()),
        is_sent_(graph.data.size()) {}

  absl::StatusOr<Schedule> Make();

 private:
  enum List : std::uint8_t { kTasks, kOffloads, kDrops, kPrefetches, kLists };

  void AddTasks(std::size_t begin, std::size_t end, double seconds);
  void AddOffloads();
  void AddPrefetches();
  void AddResidents();
  bool CanTake(const Action& action) const;
  bool CanRun(std::size_t task) const;
  const Action* Next(List list) const;
  bool TakeOne();
  void Take(const Action& action);
  void Run(std::size_t task);
  void EndTask(std::size_t task);
  void AddStep(StepKind kind, std::size_t index, std::size_t algorithm = 0);
  void Enter(StepKind kind, std::size_t data);
  void Leave(StepKind kind, std::size_t data);
  absl::Status Stuck() const;

  std::int64_t Rounded(std::int64_t bytes) const {
    return (bytes + granule_ - 1) / granule_ * granule_;
  }
  std::int64_t WorkspaceOf(std::size_t task) const {
    return Rounded(graph_.tasks[task].algorithms[made_.algorithms[task]].workspace_bytes);
  }
  double SecondsOf(std::size_t task) const {
    return graph_.tasks[task].algorithms[made_.algorithms[task]].seconds;
  }
  double CopySeconds(std::size_t data) const {
    return static_cast<double>(graph_.data[data].bytes) / made_.chain.link_bytes_per_second;
  }
  bool IsLastUse(std::size_t task, std::size_t data) const {
    const DataUses& uses = walk_.uses[data];
    return task == (uses.last_backward != kNoTask ? uses.last_backward : uses.last_forward);
  }

  const TaskGraph& graph_;
  const GraphChain& made_;
  const ChainTransfers& transfers_;
  const ChainTimes& times_;
  const std::int64_t granule_;
  const GraphWalk walk_;
  std::int64_t free_;
  std::vector<bool> is_on_device_;
  std::vector<bool> is_sent_;
  std::size_t tasks_run_ = 0;
  std::array<std::vector<Action>, kLists> actions_;
  std::array<std::size_t, kLists> next_ = {};
  Schedule schedule_;
};

void TransferScheduler::AddTasks(std::size_t begin, std::size_t end, double seconds) {
  for (std::size_t task = begin; task < end; ++task) {
    actions_[kTasks].push_back({seconds, Action::Kind::kRunTask, task});
    seconds += SecondsOf(task);
    actions_[kTasks].push_back({seconds, Action::Kind::kEndTask, task});
  }
}

void TransferScheduler::AddOffloads() {
  for (std::size_t k = 0; k < transfers_.offloads.size(); ++k) {
    const std::size_t i = transfers_.offloads[k];
    const GraphChain::Part& part = made_.parts[i];
    const double end = times_.forward_starts[i] + made_.chain.forward_seconds[i];
    double seconds = times_.offload_starts[k];
    for (const std::size_t data : made_.activations[i]) {
      actions_[kOffloads].push_back({seconds, Action::Kind::kOffload, data, part.forward_begin});
      seconds += CopySeconds(data);
      actions_[kDrops].push_back(
          {std::max(seconds, end), Action::Kind::kDrop, data, part.forward_end});
    }
  }
  // An activation that leaves after F_i comes after those that F_i waits for.
  std::stable_sort(actions_[kDrops].begin(), actions_[kDrops].end(),
                   [](const Action& a, const Action& b) {
                     return std::tie(a.seconds, a.ready) < std::tie(b.seconds, b.ready);
                   });
}

void TransferScheduler::AddPrefetches() {
  for (std::size_t k = 0; k < transfers_.prefetches.size(); ++k) {
    double seconds = times_.prefetch_starts[k];
    for (const std::size_t data : made_.activations[transfers_.prefetches[k]]) {
      actions_[kPrefetches].push_back({seconds, Action::Kind::kPrefetch, data});
      seconds += CopySeconds(data);
    }
  }
}

void TransferScheduler::AddStep(StepKind kind, std::size_t index, std::size_t algorithm) {
  schedule_.steps.push_back({.kind = kind, .index = index, .algorithm = algorithm});
}

void TransferScheduler::Enter(StepKind kind, std::size_t data) {
  AddStep(kind, data);
  free_ -= Rounded(graph_.data[data].bytes);
  is_on_device_[data] = true;
}

void TransferScheduler::Leave(StepKind kind, std::size_t data) {
  AddStep(kind, data);
  free_ += Rounded(graph_.data[data].bytes);
  is_on_device_[data] = false;
}

void TransferScheduler::AddResidents() {
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    if (!ExistsBefore(graph_.data[data])) continue;
    const bool is_on_host = graph_.data[data].before == DataHome::kHost;
    Enter(is_on_host ? StepKind::kPrefetch : StepKind::kAllocate, data);
    // The host has a copy of an input already.
    is_sent_[data] = is_on_host;
  }
}

bool TransferScheduler::CanRun(std::size_t task) const {
  std::int64_t bytes = WorkspaceOf(task);
  for (const std::size_t data : graph_.tasks[task].writes) {
    if (!is_on_device_[data]) bytes += Rounded(graph_.data[data].bytes);
  }
  if (bytes > free_) return false;
  for (const auto* list : {&graph_.tasks[task].reads, &graph_.tasks[task].updates}) {
    for (const std::size_t data : *list) {
      if (!is_on_device_[data]) return false;
    }
  }
  return true;
}

bool TransferScheduler::CanTake(const Action& action) const {
  switch (action.kind) {
    case Action::Kind::kRunTask:
      return CanRun(action.index);
    case Action::Kind::kEndTask:
      return true;
    case Action::Kind::kOffload:
      return tasks_run_ >= action.ready;
    case Action::Kind::kDrop:
      return tasks_run_ >= action.ready && is_sent_[action.index];
    case Action::Kind::kPrefetch:
      break;
  }
  return is_sent_[action.index] && !is_on_device_[action.index] &&
         Rounded(graph_.data[action.index].bytes) <= free_;
}

void TransferScheduler::Run(std::size_t task) {
  for (const std::size_t data : graph_.tasks[task].writes) {
    if (!is_on_device_[data]) Enter(StepKind::kAllocate, data);
  }
  AddStep(StepKind::kRun, task, made_.algorithms[task]);
  free_ -= WorkspaceOf(task);
  ++tasks_run_;
}

void TransferScheduler::EndTask(std::size_t task) {
  free_ += WorkspaceOf(task);
  for (const auto* list :
       {&graph_.tasks[task].reads, &graph_.tasks[task].writes, &graph_.tasks[task].updates}) {
    for (const std::size_t data : *list) {
      const DataHome after = graph_.data[data].after;
      if (!IsLastUse(task, data) || after == DataHome::kDevice) continue;
      Leave(after == DataHome::kHost ? StepKind::kDrop : StepKind::kFree, data);
    }
  }
}

void TransferScheduler::Take(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kRunTask:
      return Run(action.index);
    case Action::Kind::kEndTask:
      return EndTask(action.index);
    case Action::Kind::kOffload:
      if (!is_sent_[action.index]) AddStep(StepKind::kOffload, action.index);
      is_sent_[action.index] = true;
      return;
    case Action::Kind::kDrop:
      return Leave(StepKind::kDrop, action.index);
    case Action::Kind::kPrefetch:
      return Enter(StepKind::kPrefetch, action.index);
  }
}

const Action* TransferScheduler::Next(List list) const {
  return next_[list] < actions_[list].size() ? &actions_[list][next_[list]] : nullptr;
}

// Takes the earliest action that is possible.
bool TransferScheduler::TakeOne() {
  const double rounding = kRounding * times_.seconds;
  std::size_t best = kLists;
  for (std::size_t list = 0; list < kLists; ++list) {
    const Action* action = Next(static_cast<List>(list));
    if (action == nullptr || !CanTake(*action)) continue;
    const Action* before = best == kLists ? nullptr : Next(static_cast<List>(best));
    const bool is_better =
        before == nullptr || action->seconds < before->seconds - rounding ||
        (action->seconds <= before->seconds + rounding && action->kind < before->kind);
    if (is_better) best = list;
  }
  if (best == kLists) return false;
  Take(actions_[best][next_[best]++]);
  return true;
}

absl::Status TransferScheduler::Stuck() const {
  const Action* task = Next(kTasks);
  const std::string name = task == nullptr ? "the last copy" : graph_.tasks[task->index].name;
  return absl::ResourceExhaustedError(
      absl::StrCat("task ", io::Quoted(name), " finds ", free_,
                   " bytes free, or data missing that comes later; ", "the memory of ",
                   made_.chain.memory_bytes + made_.resident_bytes,
                   " bytes is too small for granules of ", granule_, " bytes"));
}

absl::StatusOr<Schedule> TransferScheduler::Make() {
  for (std::size_t i = 0; i < made_.parts.size(); ++i) {
    const GraphChain::Part& part = made_.parts[i];
    AddTasks(part.forward_begin, part.forward_end, times_.forward_starts[i]);
  }
  for (std::size_t i = made_.parts.size(); i-- > 0;) {
    const GraphChain::Part& part = made_.parts[i];
    AddTasks(part.backward_begin, part.backward_end, times_.backward_starts[i]);
  }
  AddOffloads();
  AddPrefetches();
  schedule_.policy = "chain";
  schedule_.fingerprint = GraphFingerprint(graph_);
  schedule_.memory = ScheduleMemory::kPaged;
  schedule_.alignment = granule_;
  AddResidents();
  while (TakeOne()) {
  }
  for (std::size_t list = 0; list < kLists; ++list) {
    if (Next(static_cast<List>(list)) != nullptr) return Stuck();
  }
  return std::move(schedule_);
}

}  // namespace

absl::StatusOr<Schedule> ScheduleWithTimes(const TaskGraph& graph, const GraphChain& made,
                                           const ChainTransfers& transfers, const ChainTimes& times,
                                           std::int64_t granule) {
  return TransferScheduler(graph, made, transfers, times, granule).Make();
}

}  // namespace tidepool::chain
