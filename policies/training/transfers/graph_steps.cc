// SPDX-License-Identifier: Apache-2.0
#include "policies/training/transfers/graph_steps.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "lib/base/arithmetic.h"

namespace tidepool::transfers {
namespace {

// Memory that is given back at some moment.
struct Release {
  double seconds = 0;
  std::size_t number = 0;  // in the order in which they were found
  ScheduleStep step = {};
  bool is_end = false;  // of the datum, or of its values until a run makes it again
};
struct IsLater {
  bool operator()(const Release& a, const Release& b) const {
    return std::tie(a.seconds, a.number) > std::tie(b.seconds, b.number);
  }
};

class StepMaker {
 public:
  StepMaker(const TaskGraph& graph, const std::vector<TaskRun>& runs, const GraphProblem& problem)
      : graph_(graph),
        runs_(runs),
        problem_(problem),
        is_there_(graph.data.size()),
        left_by_(runs.size() + 1),
        ends_(runs.size()) {
    for (const GraphProblem::End& one : problem.ends) ends_[one.run].push_back(one);
  }

  Schedule Make(const std::vector<TransferAction>& actions);

 private:
  void Begin();
  void Take(const TransferAction& action);
  void Run(std::size_t run, double start);
  void Send(std::size_t absence, double start);
  void ReleaseLater(double seconds, const ScheduleStep& step, bool is_end);
  ScheduleStep StepOf(StepKind kind, const GraphProblem::Moved& moved) const;
  void ReleaseUntil(double seconds);
  void Allocate(std::size_t data);

  const TaskGraph& graph_;
  const std::vector<TaskRun>& runs_;
  const GraphProblem& problem_;
  std::vector<bool> is_there_;  // on the device or the host, by data
  // By number of runs: the absences that begin at their end, sent before, with the ends of copies.
  std::vector<std::vector<std::pair<std::size_t, double>>> left_by_;
  std::vector<std::vector<GraphProblem::End>> ends_;  // by run
  std::vector<double> run_ends_;
  std::priority_queue<Release, std::vector<Release>, IsLater> releases_;
  std::size_t number_ = 0;
  Schedule schedule_;
};

void StepMaker::Allocate(std::size_t data) {
  schedule_.steps.push_back({.kind = StepKind::kAllocate, .index = data});
  is_there_[data] = true;
}

ScheduleStep StepMaker::StepOf(StepKind kind, const GraphProblem::Moved& moved) const {
  return {.kind = kind, .index = moved.data, .begin = moved.begin, .end = moved.end};
}

void StepMaker::Begin() {
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    if (graph_.data[data].before == DataHome::kDevice) Allocate(data);
  }
  for (std::size_t absence = 0; absence < problem_.moved.size(); ++absence) {
    if (!problem_.transfers.absences[absence].begins_away) continue;
    is_there_[problem_.moved[absence].data] = true;
  }
  for (const std::size_t data : problem_.dropped) {
    schedule_.steps.push_back({.kind = StepKind::kDrop, .index = data});
    is_there_[data] = false;
  }
}

void StepMaker::ReleaseLater(double seconds, const ScheduleStep& step, bool is_end) {
  releases_.push({seconds, number_++, step, is_end});
}

void StepMaker::ReleaseUntil(double seconds) {
  for (; !releases_.empty() && releases_.top().seconds <= seconds; releases_.pop()) {
    const Release& release = releases_.top();
    schedule_.steps.push_back(release.step);
    if (release.is_end) is_there_[release.step.index] = false;
  }
}

void StepMaker::Run(std::size_t run, double start) {
  for (const std::size_t data : graph_.tasks[runs_[run].task].writes) {
    if (!is_there_[data]) Allocate(data);
  }
  schedule_.steps.push_back(
      {.kind = StepKind::kRun, .index = runs_[run].task, .algorithm = runs_[run].algorithm});
  const double end = start + problem_.transfers.seconds[run];
  run_ends_.push_back(end);
  for (const GraphProblem::End& one : ends_[run]) {
    const StepKind kind = one.is_kept ? StepKind::kDrop : StepKind::kFree;
    ReleaseLater(end, {.kind = kind, .index = one.data}, true);
  }
  for (const auto& [absence, sent] : left_by_[run + 1]) {
    ReleaseLater(std::max(end, sent), StepOf(StepKind::kDrop, problem_.moved[absence]), false);
  }
}

void StepMaker::Send(std::size_t absence, double start) {
  const Absence& one = problem_.transfers.absences[absence];
  const GraphProblem::Moved& moved = problem_.moved[absence];
  if (!moved.is_clean) schedule_.steps.push_back(StepOf(StepKind::kOffload, moved));
  const double sent = start + one.out_seconds;
  if (one.left > run_ends_.size()) {
    left_by_[one.left].emplace_back(absence, sent);
  } else {
    const double left = one.left == 0 ? 0 : run_ends_[one.left - 1];
    ReleaseLater(std::max(left, sent), StepOf(StepKind::kDrop, moved), false);
  }
}

void StepMaker::Take(const TransferAction& action) {
  switch (action.kind) {
    case TransferAction::Kind::kOperation:
      return Run(action.index, action.start_seconds);
    case TransferAction::Kind::kOut:
      return Send(action.index, action.start_seconds);
    case TransferAction::Kind::kIn:
      schedule_.steps.push_back(StepOf(StepKind::kPrefetch, problem_.moved[action.index]));
      return;
  }
}

Schedule StepMaker::Make(const std::vector<TransferAction>& actions) {
  Begin();
  const double rounding = actions.empty() ? 0 : kEqualSeconds * actions.back().start_seconds;
  for (const TransferAction& action : actions) {
    ReleaseUntil(action.start_seconds + rounding);
    Take(action);
  }
  ReleaseUntil(std::numeric_limits<double>::infinity());
  return std::move(schedule_);
}

}  // namespace

Schedule MakeSteps(const TaskGraph& graph, const std::vector<TaskRun>& runs,
                   const GraphProblem& problem, const std::vector<TransferAction>& actions) {
  return StepMaker(graph, runs, problem).Make(actions);
}

}  // namespace tidepool::transfers
