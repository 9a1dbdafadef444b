// SPDX-License-Identifier: Apache-2.0
// Hands the steps of a chain's schedule to its graph. The actions of tasks, offloads, drops and
// prefetches are four lists in the order of their times, which are merged into one that never needs
// more than the memory.
#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/io/quote.h"
#include "lib/training/chain/graph_walk.h"
#include "policies/training/chain/recompute_model.h"
#include "policies/training/chain/task_runs.h"
#include "tidepool/schedule/chain_policy.h"

namespace tidepool::chain_policies {
namespace {

// Sums of rounded sizes do not overflow.
constexpr std::int64_t kMostGranule = std::int64_t{1} << 30;

bool IsForward(const ChainStep& step) {
  return step.action == ChainAction::kForward || step.action == ChainAction::kForwardOutput;
}

struct Action {
  // In the order in which actions of the same time are best taken: first those that give memory
  // back, last those that take it for long.
  enum class Kind : std::uint8_t { kEndTask, kDrop, kOffload, kRunTask, kPrefetch };

  double seconds = 0;
  Kind kind = Kind::kRunTask;
  std::size_t index = 0;  // run or data
  std::size_t ready = 0;  // of kOffload and kDrop: the number of runs that must be before
};

class GraphScheduler {
 public:
  GraphScheduler(const TaskGraph& graph, const GraphChain& made, const ChainSchedule& schedule,
                 std::int64_t granule)
      : graph_(graph),
        made_(made),
        chain_(schedule),
        granule_(granule),
        runs_(graph),
        free_(made.chain.memory_bytes + made.resident_bytes),
        is_on_device_(graph.data.size()),
        is_sent_(graph.data.size()) {}

  absl::StatusOr<Schedule> Make();

 private:
  enum List : std::uint8_t { kTasks, kOffloads, kDrops, kPrefetches, kLists };

  // A transfer of one datum: its times, and the number of runs that come before it in the moves.
  struct Copy {
    std::size_t data = 0;
    double start = 0;
    double end = 0;
    std::size_t position = 0;
  };

  void AddRuns(std::size_t begin, std::size_t end, double seconds);
  absl::Status AddRuns();
  std::vector<Copy> CopiesOf(ChainAction action) const;
  void AddTasks();
  void AddTransfers();
  void AddTransfer(const Copy& out, const Copy& in);
  void AddResidents();
  bool CanTake(const Action& action) const;
  bool CanRun(std::size_t task) const;
  void Finish(std::size_t data);
  const Action* Next(List list) const;
  bool TakeOne();
  void Take(const Action& action);
  void Run(std::size_t task);
  void EndTask(const TaskRun& run);
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
  const TaskGraph& graph_;
  const GraphChain& made_;
  const ChainSchedule& chain_;
  const std::int64_t granule_;
  TaskRuns runs_;
  std::int64_t free_;
  std::vector<bool> is_on_device_;
  std::vector<bool> is_sent_;
  std::size_t runs_begun_ = 0;
  std::array<std::vector<Action>, kLists> actions_;
  std::array<std::size_t, kLists> next_ = {};
  Schedule schedule_;
};

void GraphScheduler::AddRuns(std::size_t begin, std::size_t end, double seconds) {
  for (std::size_t task = begin; task < end; ++task) {
    runs_.Add(task, seconds, seconds + SecondsOf(task));
    seconds += SecondsOf(task);
  }
}

absl::Status GraphScheduler::AddRuns() {
  std::vector<bool> has_run(made_.parts.size());
  for (const ChainStep& step : chain_.steps) {
    if (!IsForward(step) && step.action != ChainAction::kBackward) continue;
    const GraphChain::Part& part = made_.parts[step.index];
    if (step.action == ChainAction::kBackward) {
      AddRuns(part.backward_begin, part.backward_end, step.start_seconds);
      continue;
    }
    for (std::size_t i = part.forward_begin; has_run[step.index] && i < part.forward_end; ++i) {
      if (graph_.tasks[i].may_rerun) continue;
      return absl::InvalidArgumentError(absl::StrCat("task ", io::Quoted(graph_.tasks[i].name),
                                                     " may not run again, expected one run of F_",
                                                     step.index));
    }
    has_run[step.index] = true;
    AddRuns(part.forward_begin, part.forward_end, step.start_seconds);
  }
  runs_.Finish();
  return absl::OkStatus();
}

void GraphScheduler::AddTasks() {
  for (std::size_t run = 0; run < runs_.runs().size(); ++run) {
    const TaskRun& one = runs_.runs()[run];
    actions_[kTasks].push_back({one.start, Action::Kind::kRunTask, run});
    actions_[kTasks].push_back({one.end, Action::Kind::kEndTask, run});
  }
}

// Returns the copies of the data that is needed later, one after the other for each activation.
std::vector<GraphScheduler::Copy> GraphScheduler::CopiesOf(ChainAction action) const {
  std::vector<Copy> copies;
  std::size_t position = 0;
  for (const ChainStep& step : chain_.steps) {
    const GraphChain::Part* part =
        step.index < made_.parts.size() ? &made_.parts[step.index] : nullptr;
    if (IsForward(step)) {
      position += part->forward_end - part->forward_begin;
    } else if (step.action == ChainAction::kBackward) {
      position += part->backward_end - part->backward_begin;
    }
    if (step.action != action) continue;
    double seconds = step.start_seconds;
    for (const std::size_t data : made_.activations[step.index]) {
      if (!runs_.IsNeeded(data, position)) continue;
      copies.push_back({data, seconds, seconds + CopySeconds(data), position});
      seconds += CopySeconds(data);
    }
  }
  return copies;
}

// Data that would come back before it has left stays.
void GraphScheduler::AddTransfer(const Copy& out, const Copy& in) {
  const std::size_t used = runs_.AfterUse(out.data, in.position);
  const double left = used == 0 ? out.end : std::max(out.end, runs_.runs()[used - 1].end);
  if (in.start < left - kEqualSeconds * chain_.seconds) return;
  actions_[kOffloads].push_back(
      {out.start, Action::Kind::kOffload, out.data, runs_.AfterChange(out.data, out.position)});
  actions_[kDrops].push_back({left, Action::Kind::kDrop, out.data, used});
  actions_[kPrefetches].push_back({in.start, Action::Kind::kPrefetch, in.data});
}

void GraphScheduler::AddTransfers() {
  const auto is_before = [](const Copy& a, const Copy& b) {
    return std::tie(a.data, a.position) < std::tie(b.data, b.position);
  };
  std::vector<Copy> prefetches = CopiesOf(ChainAction::kPrefetch);
  std::sort(prefetches.begin(), prefetches.end(), is_before);
  for (const Copy& out : CopiesOf(ChainAction::kOffload)) {
    const auto in = std::lower_bound(prefetches.begin(), prefetches.end(), out, is_before);
    if (in != prefetches.end() && in->data == out.data) AddTransfer(out, *in);
  }
  for (const List list : {kOffloads, kDrops, kPrefetches}) {
    std::stable_sort(actions_[list].begin(), actions_[list].end(),
                     [](const Action& a, const Action& b) {
                       return std::tie(a.seconds, a.ready) < std::tie(b.seconds, b.ready);
                     });
  }
}

void GraphScheduler::AddStep(StepKind kind, std::size_t index, std::size_t algorithm) {
  schedule_.steps.push_back({.kind = kind, .index = index, .algorithm = algorithm});
}

void GraphScheduler::Enter(StepKind kind, std::size_t data) {
  AddStep(kind, data);
  free_ -= Rounded(graph_.data[data].bytes);
  is_on_device_[data] = true;
}

void GraphScheduler::Leave(StepKind kind, std::size_t data) {
  AddStep(kind, data);
  free_ += Rounded(graph_.data[data].bytes);
  is_on_device_[data] = false;
}

void GraphScheduler::AddResidents() {
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    if (!ExistsBefore(graph_.data[data])) continue;
    const bool is_on_host = graph_.data[data].before == DataHome::kHost;
    Enter(is_on_host ? StepKind::kPrefetch : StepKind::kAllocate, data);
    // The host has a copy of an input already.
    is_sent_[data] = is_on_host;
  }
}

bool GraphScheduler::CanRun(std::size_t task) const {
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

bool GraphScheduler::CanTake(const Action& action) const {
  switch (action.kind) {
    case Action::Kind::kRunTask:
      return CanRun(runs_.runs()[action.index].task);
    case Action::Kind::kEndTask:
      return true;
    case Action::Kind::kOffload:
      return runs_begun_ >= action.ready;
    case Action::Kind::kDrop:
      return runs_begun_ >= action.ready && is_sent_[action.index];
    case Action::Kind::kPrefetch:
      break;
  }
  return is_sent_[action.index] && !is_on_device_[action.index] &&
         Rounded(graph_.data[action.index].bytes) <= free_;
}

void GraphScheduler::Run(std::size_t task) {
  for (const std::size_t data : graph_.tasks[task].writes) {
    if (!is_on_device_[data]) Enter(StepKind::kAllocate, data);
  }
  AddStep(StepKind::kRun, task, made_.algorithms[task]);
  free_ -= WorkspaceOf(task);
  ++runs_begun_;
}

void GraphScheduler::Finish(std::size_t data) {
  const DataHome after = graph_.data[data].after;
  if (after == DataHome::kDevice) return;
  Leave(after == DataHome::kHost ? StepKind::kDrop : StepKind::kFree, data);
}

void GraphScheduler::EndTask(const TaskRun& run) {
  free_ += WorkspaceOf(run.task);
  for (const std::size_t data : run.leaving) Leave(StepKind::kDrop, data);
  for (const std::size_t data : run.finished) Finish(data);
}

void GraphScheduler::Take(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kRunTask:
      return Run(runs_.runs()[action.index].task);
    case Action::Kind::kEndTask:
      return EndTask(runs_.runs()[action.index]);
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

const Action* GraphScheduler::Next(List list) const {
  return next_[list] < actions_[list].size() ? &actions_[list][next_[list]] : nullptr;
}

// Takes the earliest action that is possible.
bool GraphScheduler::TakeOne() {
  const double rounding = kEqualSeconds * chain_.seconds;
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

absl::Status GraphScheduler::Stuck() const {
  const Action* task = Next(kTasks);
  const std::string name =
      task == nullptr ? "the last copy" : graph_.tasks[runs_.runs()[task->index].task].name;
  return absl::ResourceExhaustedError(
      absl::StrCat("task ", io::Quoted(name), " finds ", free_,
                   " bytes free, or data missing that comes later; ", "the memory of ",
                   made_.chain.memory_bytes + made_.resident_bytes,
                   " bytes is too small for granules of ", granule_, " bytes"));
}

absl::StatusOr<Schedule> GraphScheduler::Make() {
  if (absl::Status status = AddRuns(); !status.ok()) return status;
  AddTasks();
  AddTransfers();
  schedule_.policy = chain_.policy;
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

absl::Status CheckGraph(const TaskGraph& graph, std::int64_t granule) {
  if (granule < 1 || granule > kMostGranule) {
    return absl::InvalidArgumentError(
        absl::StrCat("granules of ", granule, " bytes, expected 1 to 2^30"));
  }
  for (const GraphData& data : graph.data) {
    if (!chain::IsResident(data) || data.before != DataHome::kHost) continue;
    return absl::InvalidArgumentError(absl::StrCat(io::Quoted(data.name),
                                                   " is at home on the host, expected weights and "
                                                   "their states on the device"));
  }
  return absl::OkStatus();
}

}  // namespace

}  // namespace tidepool::chain_policies

namespace tidepool {

absl::StatusOr<Schedule> ScheduleChain(const TaskGraph& graph, const GraphChain& made,
                                       const ChainSchedule& schedule, std::int64_t granule) {
  if (absl::Status status = chain_policies::CheckGraph(graph, granule); !status.ok()) return status;
  if (absl::Status status = CheckChainSchedule(made.chain, schedule); !status.ok()) return status;
  for (const ChainStep& step : schedule.steps) {
    if (step.end < 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a copy of a part of x_", step.index,
                     ", expected whole ones; on graphs, BestOptions::part_bytes makes parts"));
  }
  return chain_policies::GraphScheduler(graph, made, schedule, granule).Make();
}

}  // namespace tidepool
