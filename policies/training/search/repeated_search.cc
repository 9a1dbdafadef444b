// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/repeated_search.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "lib/training/graph/task_uses.h"
#include "policies/training/transfers/rerun_order.h"

namespace tidepool::search {
namespace {

using transfers::Absence;
using transfers::Iteration;

// All that a search knows of a task: twins have the same.
std::vector<std::int64_t> TraitsOf(const TaskGraph& graph, const GraphTask& task) {
  std::vector<std::int64_t> traits = {static_cast<std::int64_t>(task.phase), task.may_rerun};
  for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
    traits.push_back(static_cast<std::int64_t>(uses->size()));
    for (const std::size_t data : *uses) traits.push_back(graph.data[data].bytes);
  }
  for (const TaskAlgorithm& algorithm : task.algorithms) {
    traits.push_back(algorithm.workspace_bytes);
    traits.push_back(std::bit_cast<std::int64_t>(algorithm.seconds));
  }
  return traits;
}

// A part of a datum that comes back for a run. Twins have the same one, under other numbers.
struct ComesBack {
  std::size_t task = 0;
  bool is_again = false;  // the task ran before
  std::size_t use = 0;    // the datum, in the order of the uses of the task
  std::int64_t begin = 0;

  friend auto operator<=>(const ComesBack&, const ComesBack&) = default;
};

std::size_t UseOf(const GraphTask& task, std::size_t data) {
  std::size_t use = 0;
  for (const std::size_t used : graph::UsesOf(task)) {
    if (used == data) break;
    ++use;
  }
  return use;
}

}  // namespace

RepeatedSearch::RepeatedSearch(const TaskGraph& graph) : graph_(graph), micro_batches_(graph) {
  if (micro_batches_.count() < 2) return;
  searched_ = micro_batches_.count() / 2;
  part_ = micro_batches_.GraphOf(searched_);
  busy_ = part_;
  std::vector<bool> is_used(graph.data.size());
  for (const GraphTask& task : part_.tasks) {
    for (const std::size_t data : graph::UsesOf(task)) is_used[data] = true;
  }
  for (std::size_t data = 0; data < is_used.size(); ++data) {
    GraphData& datum = busy_.data[data];
    if (is_used[data] || datum.before == DataHome::kNowhere) continue;
    idle_bytes_ += datum.bytes;
    datum.before = datum.after = DataHome::kNowhere;
  }
  FindTwins();
}

// The k-th task with some traits in a micro-batch is the twin of the k-th in another one.
void RepeatedSearch::FindTwins() {
  constexpr double kMost = 0.8;
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> alike;
  for (std::size_t task = 0; task < part_.tasks.size(); ++task) {
    alike[TraitsOf(part_, part_.tasks[task])].push_back(task);
  }
  std::size_t twins = 0;
  for (std::size_t number = 0; number < micro_batches_.count(); ++number) {
    std::map<std::vector<std::int64_t>, std::size_t> seen;
    for (std::size_t task = micro_batches_.begin(number); task < micro_batches_.end(number);
         ++task) {
      std::vector<std::int64_t> traits = TraitsOf(graph_, graph_.tasks[task]);
      const auto found = alike.find(traits);
      const std::size_t place = seen[std::move(traits)]++;
      const bool has_twin = found != alike.end() && place < found->second.size();
      twins_.push_back(has_twin ? found->second[place] : part_.tasks.size());
      if (has_twin) ++twins;
    }
  }
  is_useful_ = static_cast<double>(twins) >= kMost * static_cast<double>(graph_.tasks.size());
}

// Data that no task of the micro-batch uses, such as optimizer state, leaves where that pays.
Iteration RepeatedSearch::Search(const Algorithms& algorithms,
                                 const transfers::IterationOptions& options,
                                 const transfers::GoOn& go_on,
                                 const transfers::GoOn& go_on_sending) const {
  const auto at = [&](std::size_t task) {
    return algorithms.begin() + static_cast<std::ptrdiff_t>(task);
  };
  const Algorithms own(at(micro_batches_.begin(searched_)), at(micro_batches_.end(searched_)));
  const transfers::GoOn at_once = [](std::size_t) { return false; };
  const double stays = SearchIteration(part_, own, options, at_once, at_once).seconds;
  const double leaves = SearchIteration(busy_, own, options, at_once, at_once).seconds;
  const transfers::CopyRates& rates = options.problem.rates;
  const double copies = rates.OutSeconds(idle_bytes_, -1) + rates.InSeconds(idle_bytes_, -1);
  const bool idle_leaves = leaves + copies / static_cast<double>(micro_batches_.count()) < stays;
  const Iteration found =
      SearchIteration(idle_leaves ? busy_ : part_, own, options, go_on, go_on_sending);
  if (found.actions.empty()) return {};
  return Repeat(found, algorithms, options, idle_leaves);
}

Iteration RepeatedSearch::Repeat(const Iteration& found, const Algorithms& algorithms,
                                 const transfers::IterationOptions& options,
                                 bool idle_leaves) const {
  Algorithms own(part_.tasks.size());
  for (const transfers::TaskRun& run : found.runs) own[run.task] = run.algorithm;
  Algorithms all = algorithms;
  Iteration iteration;
  iteration.runs_again.resize(graph_.tasks.size());
  for (std::size_t task = 0; task < twins_.size(); ++task) {
    if (twins_[task] == part_.tasks.size()) continue;
    iteration.runs_again[task] = found.runs_again[twins_[task]];
    all[task] = own[twins_[task]];
  }
  iteration.runs = transfers::RerunOrder(graph_, std::move(all)).Make(iteration.runs_again);
  iteration.problem = MakeGraphProblem(graph_, iteration.runs, options.problem);
  iteration.is_away = AwayIn(iteration, found, idle_leaves);
  AddUntilFits(iteration.problem.transfers, iteration.is_away);
  FindTimes(iteration);
  return iteration;
}

std::vector<std::size_t> RepeatedSearch::FirstRuns(const Iteration& iteration) const {
  std::vector<std::size_t> first(graph_.tasks.size());
  for (std::size_t run = iteration.runs.size(); run-- > 0;) first[iteration.runs[run].task] = run;
  return first;
}

// Returns the absences of the iteration that one in the micro-batch stands for. Where idle data
// leaves, so does data that all tasks of a micro-batch leave alone.
std::vector<bool> RepeatedSearch::AwayIn(const Iteration& iteration, const Iteration& found,
                                         bool idle_leaves) const {
  std::set<ComesBack> away;
  const std::vector<std::size_t> first_of_part = FirstRuns(found);
  for (std::size_t absence = 0; absence < found.is_away.size(); ++absence) {
    const std::size_t run = found.problem.transfers.absences[absence].needed;
    if (!found.is_away[absence] || run == found.runs.size()) continue;
    const std::size_t task = found.runs[run].task;
    const auto& moved = found.problem.moved[absence];
    away.insert(
        {task, first_of_part[task] < run, UseOf(part_.tasks[task], moved.data), moved.begin});
  }
  const std::vector<std::size_t> first = FirstRuns(iteration);
  std::vector<std::size_t> begins;  // by micro-batch: its first run
  for (std::size_t number = 0; number < micro_batches_.count(); ++number) {
    begins.push_back(first[micro_batches_.begin(number)]);
  }
  begins.push_back(iteration.runs.size());
  const auto leaves = [&](std::size_t i) {
    const Absence& absence = iteration.problem.transfers.absences[i];
    if (absence.is_always_away()) return true;
    const auto next = std::lower_bound(begins.begin(), begins.end(), absence.left) + 1;
    const bool is_idle = next < begins.end() && *next <= absence.needed;
    if (is_idle || absence.needed == iteration.runs.size()) return is_idle && idle_leaves;
    const std::size_t task = iteration.runs[absence.needed].task;
    const auto& moved = iteration.problem.moved[i];
    return away.contains({twins_[task], first[task] < absence.needed,
                          UseOf(graph_.tasks[task], moved.data), moved.begin});
  };
  std::vector<bool> is_away;
  is_away.reserve(iteration.problem.moved.size());
  for (std::size_t absence = 0; absence < iteration.problem.moved.size(); ++absence)
    is_away.push_back(leaves(absence));
  return is_away;
}

}  // namespace tidepool::search
