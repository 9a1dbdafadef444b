// SPDX-License-Identifier: Apache-2.0
#include "policies/training/transfers/rerun_search.h"

#include <algorithm>
#include <random>
#include <utility>

#include "policies/training/transfers/graph_problem.h"
#include "policies/training/transfers/rerun_order.h"
#include "policies/training/transfers/transfer_dispatch.h"

namespace tidepool::transfers {
namespace {

class RerunSearch {
 public:
  RerunSearch(const TaskGraph& graph, const GraphProblemOptions& options, std::uint64_t seed,
              Iteration& iteration)
      : tasks_(graph.tasks.size()),
        order_(graph, AlgorithmsOf(iteration)),
        maker_(graph, options),
        random_(seed),
        iteration_(iteration),
        needed_(graph.data.size()),
        first_runs_(graph.tasks.size()) {}

  void Run(const GoOn& go_on) {
    if (!CanChange()) return;
    while (go_on(iteration_.runs.size() + iteration_.is_away.size())) Try();
  }

 private:
  static std::vector<std::size_t> AlgorithmsOf(const Iteration& iteration) {
    std::vector<std::size_t> algorithms(iteration.runs_again.size());
    for (const TaskRun& run : iteration.runs) algorithms[run.task] = run.algorithm;
    return algorithms;
  }

  bool CanChange() const {
    for (std::size_t task = 0; task < tasks_; ++task) {
      if (order_.CanRunAgain(task)) return true;
    }
    return false;
  }

  // The run that needs a datum after an absence. Its number changes with the tasks that run again.
  struct Needed {
    std::size_t task = 0;
    bool is_again = false;  // the task ran before

    friend bool operator==(const Needed&, const Needed&) = default;
  };

  // Keeps a change that makes the iteration no slower.
  void Try() {
    std::vector<bool> runs_again = iteration_.runs_again;
    order_.ChangeAtRandom(random_, runs_again);
    if (runs_again == iteration_.runs_again) return;
    std::vector<TaskRun> runs = order_.Make(runs_again);
    const GraphProblem& problem = maker_.Make(runs);
    std::vector<bool> is_away = AwayAsBefore(runs, problem);
    FitSet(problem.transfers, is_away);
    const double seconds =
        TransferDispatcher(problem.transfers).RunWithin(iteration_.seconds, is_away);
    if (seconds > iteration_.seconds) return;
    iteration_.runs = std::move(runs);
    iteration_.runs_again = std::move(runs_again);
    iteration_.problem = problem;
    iteration_.is_away = std::move(is_away);
    iteration_.seconds = seconds;
  }

  // Returns the set of those absences that are in the iteration's set.
  std::vector<bool> AwayAsBefore(const std::vector<TaskRun>& runs, const GraphProblem& problem) {
    for (std::vector<Needed>& needed : needed_) needed.clear();
    FindFirstRuns(iteration_.runs);
    for (std::size_t absence = 0; absence < iteration_.is_away.size(); ++absence) {
      if (!iteration_.is_away[absence]) continue;
      needed_[iteration_.problem.moved[absence].data].push_back(
          NeededAfter(iteration_.problem.transfers.absences[absence], iteration_.runs));
    }
    FindFirstRuns(runs);
    std::vector<bool> is_away;
    is_away.reserve(problem.moved.size());
    for (std::size_t i = 0; i < problem.moved.size(); ++i) {
      const Absence& absence = problem.transfers.absences[i];
      const std::vector<Needed>& needed = needed_[problem.moved[i].data];
      const bool is_in =
          std::find(needed.begin(), needed.end(), NeededAfter(absence, runs)) != needed.end();
      is_away.push_back(is_in || absence.is_always_away());
    }
    return is_away;
  }

  Needed NeededAfter(const Absence& absence, const std::vector<TaskRun>& runs) const {
    if (absence.needed == runs.size()) return {.task = tasks_};  // the end of the iteration
    const std::size_t task = runs[absence.needed].task;
    return {.task = task, .is_again = first_runs_[task] < absence.needed};
  }

  void FindFirstRuns(const std::vector<TaskRun>& runs) {
    for (std::size_t run = runs.size(); run-- > 0;) first_runs_[runs[run].task] = run;
  }

  const std::size_t tasks_;
  const RerunOrder order_;
  GraphProblemMaker maker_;
  std::mt19937_64 random_;
  Iteration& iteration_;
  std::vector<std::vector<Needed>> needed_;  // by data, of one try
  std::vector<std::size_t> first_runs_;      // by task, of the runs looked at last
};

}  // namespace

void ChangeReruns(const TaskGraph& graph, const GraphProblemOptions& options, std::uint64_t seed,
                  const GoOn& go_on, Iteration& iteration) {
  RerunSearch(graph, options, seed, iteration).Run(go_on);
  FindTimes(iteration);
}

}  // namespace tidepool::transfers
