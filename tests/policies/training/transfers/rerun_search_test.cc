// SPDX-License-Identifier: Apache-2.0
// Changes of tasks that run again, against all choices of such tasks and of data that is away.
#include "policies/training/transfers/rerun_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "policies/training/transfers/rerun_order.h"
#include "policies/training/transfers/transfer_dispatch.h"

namespace tidepool::transfers {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::size_t kForwardTasks = 5;
using Algorithms = std::vector<std::size_t>;

// Returns a chain of tasks forward and the same backward, each of which reads the
// result of its partner. Sizes and times are random.
TaskGraph RandomChainGraph(std::mt19937_64& random) {
  TaskGraph graph;
  const auto add = [&](std::vector<std::size_t> reads, TaskPhase phase) {
    const std::size_t written = graph.data.size();
    graph.data.push_back({.name = "data",
                          .bytes = static_cast<std::int64_t>(1 + random() % 8) * kMiB,
                          .kind = DataKind::kActivation});
    const auto seconds = static_cast<double>(1 + random() % 8);
    GraphTask task = {.name = "task", .phase = phase, .algorithms = {{"only", seconds, 0}}};
    task.reads = std::move(reads);
    task.writes = {written};
    task.may_rerun = phase == TaskPhase::kForward;
    graph.tasks.push_back(std::move(task));
  };
  add({}, TaskPhase::kForward);
  for (std::size_t k = 1; k < kForwardTasks; ++k) add({k - 1}, TaskPhase::kForward);
  for (std::size_t k = kForwardTasks; k-- > 0;)
    add({graph.data.size() - 1, k}, TaskPhase::kBackward);
  return graph;
}

IterationOptions OptionsOf(std::int64_t memory_bytes) {
  const double rate = static_cast<double>(kMiB);
  IterationOptions options;
  options.problem = {.memory_bytes = memory_bytes,
                     .rates = {.out_bytes_per_second = rate, .in_bytes_per_second = rate},
                     .sends_for_short_times = true};
  return options;
}

// Returns the iteration without tasks that run again, in which the data of the eager set is away.
Iteration WithoutReruns(const TaskGraph& graph, const IterationOptions& options) {
  Iteration iteration;
  iteration.runs_again.resize(graph.tasks.size());
  iteration.runs = RerunOrder(graph, Algorithms(graph.tasks.size())).Make(iteration.runs_again);
  iteration.problem = MakeGraphProblem(graph, iteration.runs, options.problem);
  iteration.is_away = EagerSet(iteration.problem.transfers);
  FindTimes(iteration);
  return iteration;
}

void Change(const TaskGraph& graph, const IterationOptions& options, int tries,
            Iteration& iteration) {
  ChangeReruns(
      graph, options.problem, options.seed, [&](std::size_t /*work*/) { return tries-- > 0; },
      iteration);
}

// Returns the least time of all tasks that may run again and all data that may be away.
double LeastSeconds(const TaskGraph& graph, const IterationOptions& options) {
  const RerunOrder order(graph, Algorithms(graph.tasks.size()));
  double least = kNoTime;
  for (std::uint64_t choice = 0; choice < std::uint64_t{1} << kForwardTasks; ++choice) {
    std::vector<bool> runs_again(graph.tasks.size());
    for (std::size_t k = 0; k < kForwardTasks; ++k) runs_again[k] = ((choice >> k) & 1U) != 0;
    const GraphProblem problem = MakeGraphProblem(graph, order.Make(runs_again), options.problem);
    TransferDispatcher dispatcher(problem.transfers);
    const std::size_t absences = problem.transfers.absences.size();
    for (std::uint64_t away = 0; away < std::uint64_t{1} << absences; ++away) {
      std::vector<bool> set(absences);
      for (std::size_t g = 0; g < absences; ++g) set[g] = ((away >> g) & 1U) != 0;
      least = std::min(least, dispatcher.Run(set));
    }
  }
  return least;
}

TEST(ChangeReruns, FindsTheLeastTimeOfMostSmallGraphs) {
  std::mt19937_64 random(61);
  int faster = 0;
  int optimal = 0;
  int all = 0;
  for (int i = 0; i < 200; ++i) {
    const TaskGraph graph = RandomChainGraph(random);
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < kForwardTasks; ++k) bytes += graph.data[k].bytes;
    const IterationOptions options = OptionsOf(bytes * 3 / 4);
    Iteration iteration = WithoutReruns(graph, options);
    if (iteration.seconds == kNoTime) continue;
    SCOPED_TRACE(i);
    const double before = iteration.seconds;
    Change(graph, options, 300, iteration);
    const double least = LeastSeconds(graph, options);
    EXPECT_GE(iteration.seconds, least);
    EXPECT_LE(iteration.seconds, before);
    ++all;
    faster += iteration.seconds < before ? 1 : 0;
    optimal += iteration.seconds == least ? 1 : 0;
  }
  EXPECT_GT(all, 60);
  EXPECT_GT(faster, all / 3);
  EXPECT_GE(optimal, all * 4 / 5);
}

TEST(ChangeReruns, LeavesAnIterationWithItsOwnProblemAndTimes) {
  std::mt19937_64 random(62);
  for (int i = 0; i < 20; ++i) {
    const TaskGraph graph = RandomChainGraph(random);
    const IterationOptions options = OptionsOf(20 * kMiB);
    Iteration iteration = WithoutReruns(graph, options);
    if (iteration.seconds == kNoTime) continue;
    Change(graph, options, 50, iteration);
    const RerunOrder order(graph, Algorithms(graph.tasks.size()));
    const std::vector<TaskRun> runs = order.Make(iteration.runs_again);
    EXPECT_EQ(iteration.problem, MakeGraphProblem(graph, runs, options.problem));
    std::vector<TransferAction> actions;
    EXPECT_EQ(TransferDispatcher(iteration.problem.transfers).Run(iteration.is_away, &actions),
              iteration.seconds);
    EXPECT_EQ(iteration.actions, actions);
    Iteration again = WithoutReruns(graph, options);
    Change(graph, options, 50, again);
    EXPECT_EQ(again.runs_again, iteration.runs_again);
    EXPECT_EQ(again.is_away, iteration.is_away);
  }
}

// Less memory makes more data leave; as much as before changes nothing.
TEST(Refit, KeepsTheRunsAndFitsTheMemory) {
  std::mt19937_64 random(63);
  int fits = 0;
  for (int i = 0; i < 100; ++i) {
    const TaskGraph graph = RandomChainGraph(random);
    const IterationOptions options = OptionsOf(20 * kMiB);
    Iteration iteration = WithoutReruns(graph, options);
    if (iteration.seconds == kNoTime) continue;
    Change(graph, options, 50, iteration);
    SCOPED_TRACE(i);
    Iteration same = iteration;
    Refit(graph, options.problem, same);
    EXPECT_EQ(same.problem, iteration.problem);
    EXPECT_EQ(same.seconds, iteration.seconds);
    Iteration less = iteration;
    const GraphProblemOptions less_memory = OptionsOf(18 * kMiB).problem;
    Refit(graph, less_memory, less);
    EXPECT_EQ(less.runs_again, iteration.runs_again);
    EXPECT_EQ(less.problem, MakeGraphProblem(graph, iteration.runs, less_memory));
    fits += less.seconds < kNoTime ? 1 : 0;
  }
  EXPECT_GT(fits, 30);
}

TEST(ChangeReruns, LeavesAGraphWithoutForwardTasks) {
  TaskGraph graph;
  graph.data = {{"result", kMiB, DataKind::kActivation}};
  graph.tasks.push_back(
      {.name = "task", .phase = TaskPhase::kUpdate, .algorithms = {{"only", 1, 0}}});
  graph.tasks.back().writes = {0};
  const IterationOptions options = OptionsOf(kMiB);
  Iteration iteration = WithoutReruns(graph, options);
  Change(graph, options, 10, iteration);
  EXPECT_EQ(iteration.seconds, 1);
  EXPECT_EQ(iteration.runs.size(), 1U);
}

}  // namespace
}  // namespace tidepool::transfers
