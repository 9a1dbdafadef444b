// SPDX-License-Identifier: Apache-2.0
#include "policies/transfers/graph_steps.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

namespace tidepool::transfers {
namespace {

// Memory that is given back at some moment.
struct Release {
  double seconds = 0;
  std::size_t number = 0;  // in the order in which they were found
  StepKind kind = StepKind::kFree;
  std::size_t data = 0;
};
struct IsLater {
  bool operator()(const Release& a, const Release& b) const {
    return std::tie(a.seconds, a.number) > std::tie(b.seconds, b.number);
  }
};

class StepMaker {
 public:
  StepMaker(const TaskGraph& graph, const std::vector<TaskRun>& runs, const GraphProblem& made)
      : graph_(graph),
        runs_(runs),
        made_(made),
        is_there_(graph.data.size()),
        left_by_(runs.size() + 1) {}

  Schedule Make(const std::vector<TransferAction>& actions);

 private:
  void Begin();
  void Take(const TransferAction& action);
  void Run(std::size_t run, double start);
  void Send(std::size_t absence, double start);
  void ReleaseLater(double seconds, StepKind kind, std::size_t data);
  void ReleaseUntil(double seconds);
  void Enter(StepKind kind, std::size_t data);

  const TaskGraph& graph_;
  const std::vector<TaskRun>& runs_;
  const GraphProblem& made_;
  std::vector<bool> is_there_;
  // By number of runs: the data that leaves at their end, sent before, with the end of the copy.
  std::vector<std::vector<std::pair<std::size_t, double>>> left_by_;
  std::vector<double> run_ends_;
  std::priority_queue<Release, std::vector<Release>, IsLater> releases_;
  std::size_t number_ = 0;
  Schedule schedule_;
};

void StepMaker::Enter(StepKind kind, std::size_t data) {
  schedule_.steps.push_back({.kind = kind, .index = data});
  is_there_[data] = true;
}

void StepMaker::Begin() {
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    if (graph_.data[data].before == DataHome::kDevice) Enter(StepKind::kAllocate, data);
  }
}

void StepMaker::ReleaseLater(double seconds, StepKind kind, std::size_t data) {
  releases_.push({seconds, number_++, kind, data});
}

void StepMaker::ReleaseUntil(double seconds) {
  for (; !releases_.empty() && releases_.top().seconds <= seconds; releases_.pop()) {
    const Release& release = releases_.top();
    schedule_.steps.push_back({.kind = release.kind, .index = release.data});
    is_there_[release.data] = false;
  }
}

void StepMaker::Run(std::size_t run, double start) {
  for (const std::size_t data : graph_.tasks[runs_[run].task].writes) {
    if (!is_there_[data]) Enter(StepKind::kAllocate, data);
  }
  schedule_.steps.push_back(
      {.kind = StepKind::kRun, .index = runs_[run].task, .algorithm = runs_[run].algorithm});
  const double end = start + made_.problem.seconds[run];
  run_ends_.push_back(end);
  for (const GraphProblem::End& one : made_.ends[run]) {
    ReleaseLater(end, one.is_made_again ? StepKind::kDrop : StepKind::kFree, one.data);
  }
  for (const auto& [data, sent] : left_by_[run + 1]) {
    ReleaseLater(std::max(end, sent), StepKind::kDrop, data);
  }
}

void StepMaker::Send(std::size_t absence, double start) {
  const Absence& one = made_.problem.absences[absence];
  const auto [data, is_clean] = made_.moved[absence];
  if (!is_clean) schedule_.steps.push_back({.kind = StepKind::kOffload, .index = data});
  const double sent = start + one.out_seconds;
  if (one.left > run_ends_.size()) {
    left_by_[one.left].emplace_back(data, sent);
  } else {
    ReleaseLater(std::max(run_ends_[one.left - 1], sent), StepKind::kDrop, data);
  }
}

void StepMaker::Take(const TransferAction& action) {
  switch (action.kind) {
    case TransferAction::Kind::kOperation:
      return Run(action.index, action.start_seconds);
    case TransferAction::Kind::kOut:
      return Send(action.index, action.start_seconds);
    case TransferAction::Kind::kIn:
      return Enter(StepKind::kPrefetch, made_.moved[action.index].data);
  }
}

Schedule StepMaker::Make(const std::vector<TransferAction>& actions) {
  Begin();
  for (const TransferAction& action : actions) {
    ReleaseUntil(action.start_seconds);
    Take(action);
  }
  ReleaseUntil(std::numeric_limits<double>::infinity());
  return std::move(schedule_);
}

}  // namespace

Schedule MakeSteps(const TaskGraph& graph, const std::vector<TaskRun>& runs,
                   const GraphProblem& made, const std::vector<TransferAction>& actions) {
  return StepMaker(graph, runs, made).Make(actions);
}

}  // namespace tidepool::transfers
