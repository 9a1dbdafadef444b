// SPDX-License-Identifier: Apache-2.0
// Hands the steps of a chain's schedule to its graph: the runs of tasks and the absences of data
// that they stand for, with their times.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/quote.h"
#include "lib/training/chain/graph_walk.h"
#include "policies/training/chain/recompute_model.h"
#include "policies/training/chain/schedule_chains.h"
#include "policies/training/transfers/graph_problem.h"
#include "policies/training/transfers/graph_steps.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool::chain_policies {
namespace {

using transfers::Absence;
using transfers::TransferAction;
using Kind = TransferAction::Kind;

// Sums of rounded sizes do not overflow.
constexpr std::int64_t kMostGranule = std::int64_t{1} << 30;

bool IsForward(const ChainStep& step) {
  return step.action == ChainAction::kForward || step.action == ChainAction::kForwardOutput;
}

class GraphScheduler {
 public:
  GraphScheduler(const TaskGraph& graph, absl::Span<const ScheduledChain> chains,
                 std::int64_t granule)
      : graph_(graph), chains_(chains), granule_(granule), runs_before_(chains.size()) {}

  absl::StatusOr<Schedule> Make();

 private:
  void AddRuns(const GraphChain& made, std::size_t begin, std::size_t end, double seconds,
               bool is_again);
  absl::Status AddRuns(std::size_t number);
  absl::Status AddRuns();
  std::vector<bool> NeededRuns() const;
  void LeaveOutUnreadRuns();
  void AddTransfers();
  void AddTransfers(std::size_t number);
  void AddTransfers(std::size_t number, const ChainStep& out, const ChainStep& in,
                    std::size_t runs);
  void AddTransfersOfHomes();
  const Absence* FindAbsence(std::size_t data, std::size_t runs) const;
  bool IsBefore(const TransferAction& transfer, std::size_t run) const;
  void Take(const TransferAction& transfer);
  void TakeNeeded(std::size_t run, std::size_t next);
  void Merge();

  std::size_t NumberOf(const Absence& absence) const {
    return static_cast<std::size_t>(&absence - problem_.transfers.absences.data());
  }
  const Absence& AbsenceOf(const TransferAction& transfer) const {
    return problem_.transfers.absences[transfer.index];
  }
  double EndOf(std::size_t runs) const {
    return runs == 0 ? 0 : starts_[runs - 1] + problem_.transfers.seconds[runs - 1];
  }

  const TaskGraph& graph_;
  const absl::Span<const ScheduledChain> chains_;
  const std::int64_t granule_;
  double rounding_ = 0;
  std::vector<transfers::TaskRun> runs_;
  std::vector<double> starts_;                         // by run
  std::vector<double> chain_starts_;                   // by chain
  std::vector<std::vector<std::size_t>> runs_before_;  // by chain and its step
  transfers::GraphProblem problem_;
  std::vector<TransferAction> transfers_;  // by start
  std::vector<bool> is_taken_[2];          // by absence: its copy out, and in
  std::vector<TransferAction> actions_;
};

void GraphScheduler::AddRuns(const GraphChain& made, std::size_t begin, std::size_t end,
                             double seconds, bool is_again) {
  for (std::size_t task = begin; task < end; ++task) {
    if (is_again && chain::IsLeftOut(graph_.tasks[task], made.resident)) continue;
    runs_.push_back({task, made.algorithms[task]});
    starts_.push_back(seconds);
    seconds += graph_.tasks[task].algorithms[made.algorithms[task]].seconds;
  }
}

absl::Status GraphScheduler::AddRuns(std::size_t number) {
  const GraphChain& made = chains_[number].made;
  std::vector<bool> has_run(made.parts.size());
  for (const ChainStep& step : chains_[number].schedule.steps) {
    const double start = chain_starts_[number] + step.start_seconds;
    runs_before_[number].push_back(runs_.size());
    if (!IsForward(step) && step.action != ChainAction::kBackward) continue;
    const GraphChain::Part& part = made.parts[step.index];
    if (step.action == ChainAction::kBackward) {
      AddRuns(made, part.backward_begin, part.backward_end, start, /*is_again=*/false);
      continue;
    }
    for (std::size_t i = part.forward_begin; has_run[step.index] && i < part.forward_end; ++i) {
      const GraphTask& task = graph_.tasks[i];
      if (task.may_rerun || chain::IsLeftOut(task, made.resident)) continue;
      return absl::InvalidArgumentError(absl::StrCat("task ", text::Quoted(graph_.tasks[i].name),
                                                     " may not run again, expected one run of F_",
                                                     step.index));
    }
    AddRuns(made, part.forward_begin, part.forward_end, start, has_run[step.index]);
    has_run[step.index] = true;
  }
  return absl::OkStatus();
}

absl::Status GraphScheduler::AddRuns() {
  double seconds = 0;
  for (std::size_t number = 0; number < chains_.size(); ++number) {
    chain_starts_.push_back(seconds);
    if (absl::Status status = AddRuns(number); !status.ok()) return status;
    seconds += chains_[number].schedule.seconds;
  }
  rounding_ = kEqualSeconds * seconds;
  return absl::OkStatus();
}

// Returns which runs are first ones, or write data again that a later run reads.
std::vector<bool> GraphScheduler::NeededRuns() const {
  std::vector<bool> is_needed(runs_.size());
  std::vector<bool> has_run(graph_.tasks.size());
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    is_needed[run] = !has_run[runs_[run].task];
    has_run[runs_[run].task] = true;
  }
  std::vector<bool> is_read(graph_.data.size());  // by a later run, before one that writes it
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    is_read[data] = ExistsAfter(graph_.data[data]);
  }
  for (std::size_t run = runs_.size(); run-- > 0;) {
    const GraphTask& task = graph_.tasks[runs_[run].task];
    for (const std::size_t data : task.writes) {
      if (is_read[data]) is_needed[run] = true;
    }
    if (!is_needed[run]) continue;
    for (const std::size_t data : task.writes) is_read[data] = false;
    for (const std::size_t data : task.reads) is_read[data] = true;
    for (const std::size_t data : task.updates) is_read[data] = true;
  }
  return is_needed;
}

// A part runs again as a whole on the chain. Tasks at its end often make no data that its backward
// pass reads, such as the sum at the end of a block.
void GraphScheduler::LeaveOutUnreadRuns() {
  const std::vector<bool> is_needed = NeededRuns();
  std::vector<std::size_t> before = {0};  // by run: the needed ones before it
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    const std::size_t left = before.back();
    runs_[left] = runs_[run];
    starts_[left] = starts_[run];
    before.push_back(left + (is_needed[run] ? 1 : 0));
  }
  runs_.resize(before.back());
  starts_.resize(before.back());
  for (std::vector<std::size_t>& steps : runs_before_) {
    for (std::size_t& runs : steps) runs = before[runs];
  }
}

// Returns the absence of a datum between its last use in the first `runs` runs and its next one, if
// it is needed then.
const Absence* GraphScheduler::FindAbsence(std::size_t data, std::size_t runs) const {
  const auto first = std::partition_point(
      problem_.moved.begin(), problem_.moved.end(),
      [&](const transfers::GraphProblem::Moved& moved) { return moved.data < data; });
  for (auto i = first; i != problem_.moved.end() && i->data == data; ++i) {
    const Absence& absence = problem_.transfers.absences[i - problem_.moved.begin()];
    if (absence.left <= runs && runs <= absence.needed && !absence.is_always_away()) {
      return &absence;
    }
  }
  return nullptr;
}

// Adds the copies of the data of an activation, one after the other. `runs` come before it is
// fetched. Data that would come back before it has left stays.
void GraphScheduler::AddTransfers(std::size_t number, const ChainStep& out, const ChainStep& in,
                                  std::size_t runs) {
  double out_seconds = chain_starts_[number] + out.start_seconds;
  double in_seconds = chain_starts_[number] + in.start_seconds;
  for (const std::size_t data : chains_[number].made.activations[out.index]) {
    const Absence* absence = FindAbsence(data, runs);
    if (absence == nullptr) continue;
    const double left = std::max(EndOf(absence->left), out_seconds + absence->out_seconds);
    if (in_seconds >= left - rounding_) {
      transfers_.push_back({Kind::kOut, NumberOf(*absence), out_seconds});
      transfers_.push_back({Kind::kIn, NumberOf(*absence), std::max(left, in_seconds)});
    }
    out_seconds += absence->in_seconds;
    in_seconds += absence->in_seconds;
  }
}

// Adds the copies of data at home on the host: all of it comes when the iteration starts.
void GraphScheduler::AddTransfersOfHomes() {
  for (const Absence& absence : problem_.transfers.absences) {
    if (absence.begins_away) transfers_.push_back({Kind::kIn, NumberOf(absence), 0});
    if (absence.ends_away) {
      transfers_.push_back({Kind::kOut, NumberOf(absence), EndOf(absence.left)});
    }
  }
}

void GraphScheduler::AddTransfers(std::size_t number) {
  const auto& [made, schedule] = chains_[number];
  std::vector<std::size_t> next(made.activations.size());  // the step that fetches it, plus 1
  for (std::size_t s = schedule.steps.size(); s-- > 0;) {
    const ChainStep& step = schedule.steps[s];
    if (step.action == ChainAction::kPrefetch) next[step.index] = s + 1;
    if (step.action != ChainAction::kOffload || next[step.index] == 0) continue;
    const std::size_t in = next[step.index] - 1;
    AddTransfers(number, step, schedule.steps[in], runs_before_[number][in]);
  }
}

void GraphScheduler::AddTransfers() {
  AddTransfersOfHomes();
  for (std::size_t number = 0; number < chains_.size(); ++number) AddTransfers(number);
  std::stable_sort(transfers_.begin(), transfers_.end(),
                   [&](const TransferAction& a, const TransferAction& b) {
                     return std::tie(a.start_seconds, AbsenceOf(a).needed) <
                            std::tie(b.start_seconds, AbsenceOf(b).needed);
                   });
}

// Whether a transfer begins before a run. Where starts are equal, copies out come first, and copies
// in last, so that less memory is in use.
bool GraphScheduler::IsBefore(const TransferAction& transfer, std::size_t run) const {
  const Absence& absence = AbsenceOf(transfer);
  if (transfer.kind == Kind::kOut) {
    return absence.written <= run && transfer.start_seconds <= starts_[run] + rounding_;
  }
  return absence.left <= run && transfer.start_seconds < starts_[run] - rounding_;
}

void GraphScheduler::Take(const TransferAction& transfer) {
  std::vector<bool>& is_taken = is_taken_[transfer.kind == Kind::kIn ? 1 : 0];
  if (is_taken[transfer.index]) return;
  is_taken[transfer.index] = true;
  actions_.push_back(transfer);
}

// Takes the copies from `next` on that a run waits for, where rounded times have them after it.
void GraphScheduler::TakeNeeded(std::size_t run, std::size_t next) {
  for (std::size_t k = next; k < transfers_.size(); ++k) {
    if (transfers_[k].start_seconds > starts_[run] + rounding_) return;
    if (AbsenceOf(transfers_[k]).needed == run) Take(transfers_[k]);
  }
}

void GraphScheduler::Merge() {
  for (std::vector<bool>& is_taken : is_taken_) is_taken.resize(problem_.moved.size());
  std::size_t next = 0;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    for (; next < transfers_.size() && IsBefore(transfers_[next], run); ++next) {
      Take(transfers_[next]);
    }
    TakeNeeded(run, next);
    actions_.push_back({Kind::kOperation, run, starts_[run]});
  }
  for (; next < transfers_.size(); ++next) Take(transfers_[next]);
}

absl::StatusOr<Schedule> GraphScheduler::Make() {
  if (absl::Status status = AddRuns(); !status.ok()) return status;
  LeaveOutUnreadRuns();
  const double rate = chains_.front().made.chain.link_bytes_per_second;
  problem_ = transfers::MakeGraphProblem(
      graph_, runs_,
      {.granule = granule_,
       .rates = {.out_bytes_per_second = rate, .in_bytes_per_second = rate},
       .has_all_absences = true});
  AddTransfers();
  Merge();
  Schedule schedule = transfers::MakeSteps(graph_, runs_, problem_, actions_);
  schedule.policy = chains_.front().schedule.policy;
  schedule.fingerprint = GraphFingerprint(graph_);
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = granule_;
  return schedule;
}

absl::Status CheckGraph(const TaskGraph& graph, std::int64_t granule) {
  if (granule < 1 || granule > kMostGranule) {
    return absl::InvalidArgumentError(
        absl::StrCat("granules of ", granule, " bytes, expected 1 to 2^30"));
  }
  for (const GraphData& data : graph.data) {
    if (!chain::IsResident(data) || data.before != DataHome::kHost) continue;
    return absl::InvalidArgumentError(absl::StrCat(text::Quoted(data.name),
                                                   " is at home on the host, expected weights and "
                                                   "their states on the device"));
  }
  return absl::OkStatus();
}

absl::Status CheckChain(const ScheduledChain& chain) {
  const auto& [made, schedule] = chain;
  if (absl::Status status = CheckChainSchedule(made.chain, schedule); !status.ok()) return status;
  for (const ChainStep& step : schedule.steps) {
    if (step.end < 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a copy of a part of x_", step.index,
                     ", expected whole ones; on graphs, BestOptions::part_bytes makes parts"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> ScheduleChains(const TaskGraph& graph,
                                        absl::Span<const ScheduledChain> chains,
                                        std::int64_t granule) {
  absl::Status status = CheckGraph(graph, granule);
  for (const ScheduledChain& chain : chains) {
    if (status.ok()) status = CheckChain(chain);
  }
  if (!status.ok()) return status;
  return GraphScheduler(graph, chains, granule).Make();
}

}  // namespace tidepool::chain_policies

namespace tidepool {

absl::StatusOr<Schedule> ScheduleChain(const TaskGraph& graph, const GraphChain& made,
                                       const ChainSchedule& schedule, std::int64_t granule) {
  const chain_policies::ScheduledChain chain{made, schedule};
  return chain_policies::ScheduleChains(graph, {&chain, 1}, granule);
}

}  // namespace tidepool
