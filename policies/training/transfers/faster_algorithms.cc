// SPDX-License-Identifier: Apache-2.0
#include "policies/training/transfers/faster_algorithms.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "policies/training/transfers/away_set.h"

namespace tidepool::transfers {
namespace {

struct Change {
  std::size_t task = 0;
  std::size_t algorithm = 0;
  double saved_seconds = 0;
};

// Returns, by run, the bytes that are free beside it.
std::vector<std::int64_t> FreeBytes(const TransferProblem& problem,
                                    const std::vector<bool>& is_away) {
  // First the changes from one run to the next, then their sums.
  std::vector<std::int64_t> away(problem.seconds.size() + 1);
  for (std::size_t i = 0; i < problem.absences.size(); ++i) {
    const Absence& absence = problem.absences[i];
    if (!is_away[i] && !absence.is_always_away()) continue;
    away[absence.left] += absence.bytes;
    away[absence.needed] -= absence.bytes;
  }
  std::vector<std::int64_t> free;
  free.reserve(problem.seconds.size());
  std::int64_t sum = 0;
  for (std::size_t run = 0; run < problem.seconds.size(); ++run) {
    sum += away[run];
    free.push_back(problem.memory_bytes - problem.running_bytes[run] + sum);
  }
  return free;
}

// Returns, by task, the bytes of workspace that have room beside all its runs.
std::vector<std::int64_t> RoomOfTasks(const TaskGraph& graph, std::int64_t granule,
                                      const Iteration& iteration) {
  const std::vector<std::int64_t> free = FreeBytes(iteration.problem.transfers, iteration.is_away);
  std::vector<std::int64_t> room(graph.tasks.size(), std::numeric_limits<std::int64_t>::max());
  for (std::size_t run = 0; run < iteration.runs.size(); ++run) {
    const auto [task, algorithm] = iteration.runs[run];
    const std::int64_t workspace = graph.tasks[task].algorithms[algorithm].workspace_bytes;
    room[task] = std::min(room[task], free[run] + RoundUp(workspace, granule));
  }
  return room;
}

// Returns the changes that have room, those that save the most time first.
std::vector<Change> FindChanges(const TaskGraph& graph, std::int64_t granule,
                                const Iteration& iteration) {
  const std::vector<std::int64_t> room = RoomOfTasks(graph, granule, iteration);
  std::vector<std::size_t> current(graph.tasks.size());
  std::vector<double> runs(graph.tasks.size());
  for (const TaskRun& run : iteration.runs) {
    current[run.task] = run.algorithm;
    runs[run.task] += 1;
  }
  std::vector<Change> changes;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    const std::vector<TaskAlgorithm>& algorithms = graph.tasks[task].algorithms;
    std::size_t fastest = current[task];
    for (std::size_t k = 0; k < algorithms.size(); ++k) {
      const bool has_room = RoundUp(algorithms[k].workspace_bytes, granule) <= room[task];
      if (has_room && algorithms[k].seconds < algorithms[fastest].seconds) fastest = k;
    }
    if (fastest == current[task]) continue;
    const double saved = algorithms[current[task]].seconds - algorithms[fastest].seconds;
    changes.push_back({task, fastest, saved * runs[task]});
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.saved_seconds > b.saved_seconds;
  });
  return changes;
}

bool HasChoices(const TaskGraph& graph) {
  return std::any_of(graph.tasks.begin(), graph.tasks.end(),
                     [](const GraphTask& task) { return task.algorithms.size() > 1; });
}

// Changes the algorithms of iterations of one graph.
class AlgorithmChanger {
 public:
  // `graph` must outlive the changer.
  AlgorithmChanger(const TaskGraph& graph, const GraphProblemOptions& options)
      : graph_(graph), granule_(options.granule), maker_(graph, options) {}

  // The public function tells the meaning.
  void UseFaster(Iteration& iteration) {
    if (iteration.seconds == std::numeric_limits<double>::infinity()) return;
    std::vector<Change> changes = FindChanges(graph_, granule_, iteration);
    for (; !changes.empty(); changes.resize(changes.size() / 2)) {
      Iteration next = With(changes, iteration);
      if (next.seconds >= iteration.seconds) continue;
      iteration = std::move(next);
      return;
    }
  }

 private:
  // Returns the iteration with some changes, and its times.
  Iteration With(const std::vector<Change>& changes, const Iteration& iteration) {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> changed(graph_.tasks.size(), kNone);
    for (const Change& change : changes) changed[change.task] = change.algorithm;
    Iteration next;
    next.runs = iteration.runs;
    next.runs_again = iteration.runs_again;
    next.is_away = iteration.is_away;
    for (TaskRun& run : next.runs) {
      if (changed[run.task] != kNone) run.algorithm = changed[run.task];
    }
    next.problem = maker_.Make(next.runs);
    FindTimes(next);
    return next;
  }

  const TaskGraph& graph_;
  const std::int64_t granule_;
  GraphProblemMaker maker_;
};

}  // namespace

void UseFasterAlgorithms(const TaskGraph& graph, const GraphProblemOptions& options,
                         Iteration& iteration) {
  if (HasChoices(graph)) AlgorithmChanger(graph, options).UseFaster(iteration);
}

void MakeRoomForAlgorithms(const TaskGraph& graph, const GraphProblemOptions& options,
                           Iteration& iteration) {
  if (!HasChoices(graph)) return;
  AlgorithmChanger changer(graph, options);
  Iteration start = iteration;
  changer.UseFaster(iteration);
  for (const std::int64_t part : {16, 8, 4}) {
    GraphProblemOptions less = options;
    less.reserve_bytes += options.memory_bytes / part;
    Iteration next = start;
    next.is_away = EagerSet(MakeGraphProblem(graph, next.runs, less).transfers);
    FindTimes(next);
    changer.UseFaster(next);
    if (next.seconds < iteration.seconds) iteration = std::move(next);
  }
}

}  // namespace tidepool::transfers
