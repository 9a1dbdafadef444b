// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/late_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/training/graph/task_uses.h"
#include "lib/training/simulate/makespan.h"
#include "tidepool/training/program.h"
#include "tidepool/training/timeline.h"

namespace tidepool::search {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

bool GivesBack(const ScheduleStep& step) {
  return step.kind == StepKind::kDrop || step.kind == StepKind::kFree;
}

class LateMemory {
 public:
  LateMemory(const TaskGraph& graph, const Schedule& schedule, const Program& program)
      : graph_(graph), schedule_(schedule), program_(program), times_(schedule.steps.size()) {}

  Schedule Make() {
    FindTimes();
    return InOrder();
  }

 private:
  struct Times {
    double start = -1;
    double end = -1;
  };
  // Memory that is given back when some steps have ended.
  struct Release {
    double seconds = 0;
    std::size_t step = 0;
    friend bool operator>(const Release& a, const Release& b) {
      return std::tie(a.seconds, a.step) > std::tie(b.seconds, b.step);
    }
  };

  // The steps that give memory back.
  struct Releases {
    std::vector<std::vector<std::size_t>> of_use;  // by step: those that wait for it
    std::vector<std::size_t> missing;              // by release: the steps that it waits for
    std::vector<double> seconds;                   // by release: the end of the last of these
  };

  template <typename Visit>
  void ForEachWait(const ProgramOperation& operation, const Visit& visit) const {
    for (std::uint32_t i = 0; i < operation.waits; ++i) {
      visit(program_.waits[operation.first_wait + i].operation);
    }
  }

  // Returns the step of the task at which data that exists, on the device or the host, is most.
  std::size_t PeakStep() const;
  std::vector<double> LatestStarts(double seconds) const;
  void FindTimes();
  std::vector<std::vector<std::size_t>> UsesBeforeReleases() const;
  std::vector<Times> TimesOfAll() const;
  Releases FindReleases(const std::vector<Times>& times) const;
  std::vector<std::size_t> OtherSteps(const std::vector<Times>& times) const;
  Schedule InOrder() const;

  const TaskGraph& graph_;
  const Schedule& schedule_;
  const Program& program_;
  std::vector<Times> times_;  // by step; -1 without an operation
};

std::size_t LateMemory::PeakStep() const {
  std::vector<bool> exists(graph_.data.size());
  std::vector<bool> is_on_host(graph_.data.size());
  std::int64_t bytes = 0;
  std::int64_t most = -1;
  std::size_t peak = 0;
  const auto set = [&](std::size_t data, bool now) {
    if (exists[data] != now) bytes += now ? graph_.data[data].bytes : -graph_.data[data].bytes;
    exists[data] = now;
  };
  for (std::size_t at = 0; at < schedule_.steps.size(); ++at) {
    const ScheduleStep& step = schedule_.steps[at];
    if (step.kind == StepKind::kAllocate || step.kind == StepKind::kPrefetch) set(step.index, true);
    if (step.kind == StepKind::kOffload) is_on_host[step.index] = true;
    if (step.kind == StepKind::kFree) set(step.index, false);
    if (step.kind == StepKind::kDrop && !is_on_host[step.index]) set(step.index, false);
    if (step.kind != StepKind::kRun || bytes <= most) continue;
    most = bytes;
    peak = at;
  }
  return peak;
}

std::vector<double> LateMemory::LatestStarts(double seconds) const {
  std::vector<double> starts(program_.operations.size(), seconds);  // first: latest ends
  std::vector<double> next(program_.streams.size(), seconds);
  for (std::size_t i = starts.size(); i-- > 0;) {
    const ProgramOperation& operation = program_.operations[i];
    starts[i] = std::min(starts[i], next[operation.stream]) - operation.seconds;
    next[operation.stream] = starts[i];
    ForEachWait(operation, [&](std::size_t w) { starts[w] = std::min(starts[w], starts[i]); });
  }
  return starts;
}

void LateMemory::FindTimes() {
  const std::vector<double> latest = LatestStarts(simulate::MakespanOf(program_));
  const std::size_t peak = PeakStep();
  std::vector<double> ends(program_.operations.size());
  std::vector<double> stream_ends(program_.streams.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const ProgramOperation& operation = program_.operations[i];
    double start = stream_ends[operation.stream];
    ForEachWait(operation, [&](std::size_t w) { start = std::max(start, ends[w]); });
    const bool is_late =
        operation.kind == ProgramOperation::Kind::kPrefetch ||
        (operation.kind == ProgramOperation::Kind::kTask && operation.step <= peak);
    if (is_late) start = std::max(start, latest[i]);
    ends[i] = stream_ends[operation.stream] = start + operation.seconds;
    times_[operation.step] = {start, ends[i]};
  }
}

// Returns, for each step that gives memory back, the earlier steps that use the data.
std::vector<std::vector<std::size_t>> LateMemory::UsesBeforeReleases() const {
  std::vector<std::vector<std::size_t>> uses(schedule_.steps.size());
  std::vector<std::vector<std::size_t>> users(graph_.data.size());
  for (std::size_t at = 0; at < schedule_.steps.size(); ++at) {
    const ScheduleStep& step = schedule_.steps[at];
    if (step.kind == StepKind::kRun) {
      const GraphTask& task = graph_.tasks[step.index];
      for (const std::size_t one : graph::UsesOf(task)) users[one].push_back(at);
    } else if (GivesBack(step)) {
      uses[at] = users[step.index];
    } else {
      users[step.index].push_back(at);
    }
  }
  return uses;
}

// Allocations go with the next task; those before all tasks come first.
std::vector<LateMemory::Times> LateMemory::TimesOfAll() const {
  const std::vector<ScheduleStep>& steps = schedule_.steps;
  std::vector<Times> times = times_;
  double next = kForever;
  for (std::size_t at = steps.size(); at-- > 0;) {
    if (steps[at].kind == StepKind::kRun) next = times[at].start;
    if (steps[at].kind == StepKind::kAllocate) times[at] = {next, next};
  }
  for (std::size_t at = 0; at < steps.size() && steps[at].kind == StepKind::kAllocate; ++at) {
    times[at] = {-1, -1};
  }
  return times;
}

LateMemory::Releases LateMemory::FindReleases(const std::vector<Times>& times) const {
  const std::size_t steps = schedule_.steps.size();
  const std::vector<std::vector<std::size_t>> uses = UsesBeforeReleases();
  Releases releases = {.of_use = std::vector<std::vector<std::size_t>>(steps),
                       .missing = std::vector<std::size_t>(steps),
                       .seconds = std::vector<double>(steps, -1)};
  for (std::size_t at = 0; at < steps; ++at) {
    releases.missing[at] = uses[at].size();
    for (const std::size_t use : uses[at]) {
      releases.of_use[use].push_back(at);
      releases.seconds[at] = std::max(releases.seconds[at], times[use].end);
    }
  }
  return releases;
}

// Returns the steps that give no memory back, by their starts.
std::vector<std::size_t> LateMemory::OtherSteps(const std::vector<Times>& times) const {
  std::vector<std::size_t> order;
  for (std::size_t at = 0; at < schedule_.steps.size(); ++at) {
    if (!GivesBack(schedule_.steps[at])) order.push_back(at);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return times[a].start < times[b].start; });
  return order;
}

Schedule LateMemory::InOrder() const {
  const std::vector<Times> times = TimesOfAll();
  Releases releases = FindReleases(times);
  Schedule schedule = schedule_;
  schedule.steps.clear();
  std::priority_queue<Release, std::vector<Release>, std::greater<>> ready;
  const auto give_back_until = [&](double seconds) {
    for (; !ready.empty() && ready.top().seconds <= seconds; ready.pop()) {
      schedule.steps.push_back(schedule_.steps[ready.top().step]);
    }
  };
  for (const std::size_t at : OtherSteps(times)) {
    give_back_until(times[at].start);
    schedule.steps.push_back(schedule_.steps[at]);
    for (const std::size_t release : releases.of_use[at]) {
      if (--releases.missing[release] == 0) ready.push({releases.seconds[release], release});
    }
  }
  give_back_until(kForever);
  return schedule;
}

}  // namespace

absl::StatusOr<Schedule> TakeMemoryLate(const TaskGraph& graph, const Schedule& schedule,
                                        const Machine& machine) {
  const auto is_synchronize = [](const ScheduleStep& step) {
    return step.kind == StepKind::kSynchronize;
  };
  if (std::any_of(schedule.steps.begin(), schedule.steps.end(), is_synchronize)) return schedule;
  const absl::StatusOr<Program> program = LowerSchedule({&graph, 1}, schedule, machine);
  if (!program.ok()) return program.status();
  Schedule late = LateMemory(graph, schedule, *program).Make();
  // Clean data may come back, in other memory, before its old memory is given back.
  return ValidateSchedule(graph, late).ok() ? late : schedule;
}

}  // namespace tidepool::search
