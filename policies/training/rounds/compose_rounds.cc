// SPDX-License-Identifier: Apache-2.0
// Builds the rounds one after the other: the first brings the weights, the last has the updates.
#include "policies/training/rounds/compose_rounds.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/training/graph/task_uses.h"
#include "policies/training/rounds/exchange_gradients.h"

namespace tidepool::rounds {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// The uses of a datum that stays across rounds.
struct StayingUses {
  bool in_rounds = false;
  bool written_in_rounds = false;  // a gradient
  bool changed_in_rounds = false;
  bool changed_by_update = false;
  std::size_t last_update = kNever;  // number among the updates
};

class RoundComposer {
 public:
  RoundComposer(const TaskGraph& graph, const RoundGraph& round_graph,
                const Composition& composition)
      : graph_(graph),
        round_graph_(round_graph),
        division_(composition.division),
        devices_(composition.devices),
        cores_(composition.cores),
        reduction_(composition.reduction),
        buffer_offset_(composition.buffer_offset),
        uses_(graph.data.size()),
        offsets_(graph.data.size(), -1) {
    for (const GraphTask& task : round_graph.graph.tasks) NoteRoundUses(task);
    for (std::size_t i = 0; i < round_graph.updates.size(); ++i) {
      NoteUpdateUses(graph.tasks[round_graph.updates[i]], i);
    }
  }

  Schedule Compose(absl::Span<const Schedule> rounds) {
    NoteOffsets(rounds.front());
    const std::int64_t count = division_.rounds();
    AddBegin();
    if (count > 1) {
      AddRound(rounds.front(), /*is_last=*/false);
      EndRound(1, division_.sub_batch);
    }
    if (count > 2) {
      AddRound(rounds.front(), /*is_last=*/false);
      EndRound(count - 2, division_.sub_batch);
    }
    AddRound(rounds.back(), /*is_last=*/true);
    AddUpdates();
    AddEnd();
    EndRound(1, division_.rest > 0 ? division_.rest : division_.sub_batch);
    return std::move(schedule_);
  }

 private:
  void NoteRoundUses(const GraphTask& task) {
    for (const std::size_t data : task.reads) uses_[data].in_rounds = true;
    for (const std::size_t data : task.writes) {
      uses_[data].in_rounds = uses_[data].written_in_rounds = true;
      uses_[data].changed_in_rounds = true;
    }
    for (const std::size_t data : task.updates) {
      uses_[data].in_rounds = uses_[data].changed_in_rounds = true;
    }
  }

  void NoteUpdateUses(const GraphTask& task, std::size_t number) {
    for (const std::size_t data : task.reads) uses_[data].last_update = number;
    for (const std::size_t data : task.updates) {
      uses_[data].last_update = number;
      uses_[data].changed_by_update = true;
    }
  }

  // Data that stays has its address in all rounds, where the first one names addresses.
  void NoteOffsets(const Schedule& round) {
    for (const ScheduleStep& step : round.steps) {
      if (step.kind == StepKind::kAllocate && StaysAcrossRounds(graph_.data[step.index])) {
        offsets_[step.index] = step.offset;
      }
    }
  }

  bool UpdatesOnHost() const { return cores_ > 0; }
  bool Exchanges() const { return devices_ > 1 && !UpdatesOnHost(); }
  // Returns how many devices, from the first on, run the updates.
  std::size_t UpdatingDevices() const {
    return reduction_ == GradientReduction::kRing ? devices_ : 1;
  }
  // Whether only the device that runs the updates has the datum.
  bool IsOfUpdates(std::size_t data) const {
    return Exchanges() && graph_.data[data].kind == DataKind::kOptimizerState &&
           !uses_[data].in_rounds;
  }
  bool IsOn(std::size_t data, std::size_t device) const {
    return device < UpdatingDevices() || !IsOfUpdates(data);
  }
  bool IsUpdated(std::size_t data) const { return uses_[data].last_update != kNever; }
  DataHome HomeOf(std::size_t data) const { return graph_.data[data].after; }
  bool IsShared(std::size_t data) const {
    return graph_.data[data].kind != DataKind::kWeightGradient;
  }

  void Add(StepKind kind, std::size_t data, std::size_t device) {
    const bool takes_memory = kind == StepKind::kAllocate || kind == StepKind::kPrefetch;
    schedule_.steps.push_back({.kind = kind,
                               .index = data,
                               .device = device,
                               .offset = takes_memory ? offsets_[data] : -1});
  }

  void EndRound(std::int64_t times, std::int64_t batch) {
    const std::size_t first = schedule_.rounds.empty() ? 0
                                                       : schedule_.rounds.back().first_step +
                                                             schedule_.rounds.back().steps;
    schedule_.rounds.push_back({.first_step = first,
                                .steps = schedule_.steps.size() - first,
                                .times = times,
                                .batch = batch});
  }

  // Gives the data that stays its memory. The host keeps the data at home there that only its own
  // updates use.
  void AddBegin() {
    for (std::size_t device = 0; device < devices_; ++device) {
      for (std::size_t data = 0; data < graph_.data.size(); ++data) {
        if (StaysAcrossRounds(graph_.data[data]) && IsOn(data, device)) Begin(data, device);
      }
    }
  }

  void Begin(std::size_t data, std::size_t device) {
    const bool is_on_host = graph_.data[data].before == DataHome::kHost;
    if (!is_on_host || uses_[data].written_in_rounds) return Add(StepKind::kAllocate, data, device);
    const bool is_needed = uses_[data].in_rounds || (IsUpdated(data) && !UpdatesOnHost());
    if (is_needed) Add(StepKind::kPrefetch, data, device);
  }

  void AddRound(const Schedule& round, bool is_last) {
    if (is_last && Exchanges()) return AddExchangingRound(round);
    for (std::size_t device = 0; device < devices_; ++device) {
      const std::vector<std::size_t> last_runs = LastRuns(round);
      if (is_last && UpdatesOnHost()) SendUnused(device);
      for (std::size_t i = 0; i < round.steps.size(); ++i) {
        AddRoundStep(round.steps[i], device);
        if (!is_last || !UpdatesOnHost() || round.steps[i].kind != StepKind::kRun) continue;
        SendAfter(round_graph_.graph.tasks[round.steps[i].index], i, last_runs, device);
      }
    }
  }

  // All devices take the same step before the next, so that a ring exchanges a gradient as soon as
  // all have it.
  void AddExchangingRound(const Schedule& round) {
    const std::vector<std::size_t> last_runs = LastRuns(round);
    for (std::size_t i = 0; i < round.steps.size(); ++i) {
      for (std::size_t device = 0; device < devices_; ++device) {
        AddRoundStep(round.steps[i], device);
      }
      const bool is_run = round.steps[i].kind == StepKind::kRun;
      if (!is_run || reduction_ != GradientReduction::kRing) continue;
      const GraphTask& task = round_graph_.graph.tasks[round.steps[i].index];
      for (const std::size_t data : graph::UsesOf(task)) {
        if (last_runs[data] == i && IsSummed(data)) {
          AddSteps(RingSteps(data, graph_.data[data].bytes, devices_, buffer_offset_));
        }
      }
    }
    if (reduction_ == GradientReduction::kFirstDevice) SumOnFirst();
  }

  bool IsSummed(std::size_t data) const {
    return graph_.data[data].kind == DataKind::kWeightGradient && IsUpdated(data) &&
           uses_[data].written_in_rounds;
  }

  // No gradient leaves before all tasks have ended.
  void SumOnFirst() {
    schedule_.steps.push_back({.kind = StepKind::kSynchronize});
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (IsSummed(data)) AddSteps(StepsToFirst(data, devices_, buffer_offset_));
    }
  }

  void AddSteps(const std::vector<ScheduleStep>& steps) {
    schedule_.steps.insert(schedule_.steps.end(), steps.begin(), steps.end());
  }

  // Memory of data that stays is taken at the start of the iteration.
  void AddRoundStep(ScheduleStep step, std::size_t device) {
    const bool is_run = step.kind == StepKind::kRun;
    if (step.kind == StepKind::kAllocate && StaysAcrossRounds(graph_.data[step.index])) return;
    if (is_run) step.index = round_graph_.tasks[step.index];
    step.device = device;
    schedule_.steps.push_back(step);
  }

  // Returns the last step of a round that runs a task with the datum; kNever for unused data.
  std::vector<std::size_t> LastRuns(const Schedule& round) const {
    std::vector<std::size_t> last(graph_.data.size(), kNever);
    for (std::size_t i = 0; i < round.steps.size(); ++i) {
      if (round.steps[i].kind != StepKind::kRun) continue;
      const GraphTask& task = round_graph_.graph.tasks[round.steps[i].index];
      for (const std::size_t data : graph::UsesOf(task)) last[data] = i;
    }
    return last;
  }

  void SendUnused(std::size_t device) {
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      const bool is_there = graph_.data[data].before != DataHome::kHost;
      if (!StaysAcrossRounds(graph_.data[data]) || uses_[data].in_rounds || !is_there) continue;
      Send(data, device);
    }
  }

  void SendAfter(const GraphTask& task, std::size_t step, const std::vector<std::size_t>& last_runs,
                 std::size_t device) {
    for (const std::size_t data : graph::UsesOf(task)) {
      if (StaysAcrossRounds(graph_.data[data]) && last_runs[data] == step) Send(data, device);
    }
  }

  // Gives the host a copy for its updates, and ends the stay of data that will have other values.
  // All devices have the same weights, so the first one sends them.
  void Send(std::size_t data, std::size_t device) {
    if (!IsUpdated(data)) return;
    const bool host_has_it =
        IsShared(data) && (device > 0 || (graph_.data[data].before == DataHome::kHost &&
                                          !uses_[data].changed_in_rounds));
    if (!host_has_it) Add(StepKind::kOffload, data, device);
    const bool stays = HomeOf(data) == DataHome::kDevice && !uses_[data].changed_by_update;
    if (!stays) Add(StepKind::kDrop, data, device);
  }

  void AddUpdates() {
    for (std::size_t i = 0; i < round_graph_.updates.size(); ++i) {
      const std::size_t task = round_graph_.updates[i];
      AddUpdate(task, i);
      for (const std::size_t data : graph::InputsOf(graph_.tasks[task])) {
        if (uses_[data].last_update == i) EndAfterUpdate(data);
      }
    }
  }

  void AddUpdate(std::size_t task, std::size_t number) {
    ScheduleStep step = {.kind = StepKind::kRun, .index = task};
    if (UpdatesOnHost()) {
      step.device = kHostDevice;
      step.stream = number % cores_;
      schedule_.steps.push_back(step);
      return;
    }
    for (step.device = 0; step.device < UpdatingDevices(); ++step.device) {
      schedule_.steps.push_back(step);
    }
  }

  // Sends new values from the device that runs the updates on, from device to device.
  void Distribute(std::size_t data) {
    if (!uses_[data].changed_by_update || HomeOf(data) == DataHome::kNowhere) return;
    for (std::size_t device = UpdatingDevices(); device < devices_; ++device) {
      if (!IsOn(data, device)) continue;
      schedule_.steps.push_back(
          {.kind = StepKind::kReceive, .index = data, .device = device, .source = device - 1});
    }
  }

  void EndAfterUpdate(std::size_t data) {
    if (Exchanges()) Distribute(data);
    for (std::size_t device = 0; device < devices_; ++device) {
      if (!IsOn(data, device)) continue;
      if (HomeOf(data) == DataHome::kNowhere) {
        Add(StepKind::kFree, data, device);
      } else if (!UpdatesOnHost()) {
        GoHome(data, device);
      } else if (HomeOf(data) == DataHome::kDevice && uses_[data].changed_by_update) {
        Add(StepKind::kPrefetch, data, device);
      }
    }
  }

  // Ends the iteration of data that no update uses.
  void AddEnd() {
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (!StaysAcrossRounds(graph_.data[data]) || IsUpdated(data)) continue;
      for (std::size_t device = 0; device < devices_; ++device) {
        if (HomeOf(data) == DataHome::kNowhere) {
          Add(StepKind::kFree, data, device);
        } else if (uses_[data].in_rounds) {
          GoHome(data, device);
        }
      }
    }
  }

  void GoHome(std::size_t data, std::size_t device) {
    if (HomeOf(data) != DataHome::kHost) return;
    const bool changed = uses_[data].changed_in_rounds || uses_[data].changed_by_update;
    if (changed && (device == 0 || !IsShared(data))) Add(StepKind::kOffload, data, device);
    Add(StepKind::kDrop, data, device);
  }

  const TaskGraph& graph_;
  const RoundGraph& round_graph_;
  const BatchDivision division_;
  const std::size_t devices_;
  const std::size_t cores_;
  const GradientReduction reduction_;
  const std::int64_t buffer_offset_;
  std::vector<StayingUses> uses_;      // by data
  std::vector<std::int64_t> offsets_;  // by data that stays; -1: pages
  Schedule schedule_;
};

}  // namespace

Schedule ComposeRounds(const TaskGraph& graph, const RoundGraph& round_graph,
                       absl::Span<const Schedule> rounds, const Composition& composition) {
  Schedule schedule = RoundComposer(graph, round_graph, composition).Compose(rounds);
  schedule.policy = rounds.front().policy;
  schedule.fingerprint = GraphFingerprint(graph);
  schedule.memory = rounds.front().memory;
  schedule.alignment = rounds.front().alignment;
  schedule.devices = composition.devices;
  return schedule;
}

}  // namespace tidepool::rounds
