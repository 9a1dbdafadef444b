// SPDX-License-Identifier: Apache-2.0
// Algorithms with workspaces that have room.
#include "policies/training/transfers/faster_algorithms.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/training/schedule/small_schedule.h"

namespace tidepool::transfers {
namespace {

constexpr std::size_t kSmall = 0;
constexpr std::size_t kQuick = 1;  // half a second less, with a workspace of 2,000 bytes

// Returns the iteration of the small graph in which nothing is away. Beside the convolution there
// are 1,024 + 512 + 4,096 bytes.
Iteration MadeIteration(const TaskGraph& graph, const GraphProblemOptions& options,
                        std::vector<TaskRun> runs) {
  Iteration iteration;
  iteration.runs = std::move(runs);
  iteration.problem = MakeGraphProblem(graph, iteration.runs, options);
  iteration.is_away.resize(iteration.problem.transfers.absences.size());
  FindTimes(iteration);
  return iteration;
}

GraphProblemOptions InMemory(std::int64_t bytes) {
  return {.memory_bytes = bytes, .rates = {.out_bytes_per_second = 1, .in_bytes_per_second = 1}};
}

TEST(FasterAlgorithms, AreTakenWhereTheyHaveRoom) {
  const TaskGraph graph = testing::SmallGraph();
  for (const bool fits : {false, true}) {
    const GraphProblemOptions options = InMemory(1024 + 512 + 4096 + 2000 - (fits ? 0 : 1));
    Iteration iteration = MadeIteration(graph, options, {{0}, {1}, {2}, {3}});
    ASSERT_EQ(iteration.seconds, 1 + 2 + 4 + 8);
    UseFasterAlgorithms(graph, options, iteration);
    EXPECT_EQ(iteration.runs.front().algorithm, fits ? kQuick : kSmall);
    EXPECT_EQ(iteration.seconds, fits ? 14.5 : 15);
    EXPECT_EQ(iteration.problem, MakeGraphProblem(graph, iteration.runs, options));
  }
}

// The second run of the convolution has the gradients beside it.
TEST(FasterAlgorithms, AreTheSameForAllRunsOfATask) {
  TaskGraph graph = testing::SmallGraph();
  graph.tasks[testing::kConv].may_rerun = true;
  const std::vector<TaskRun> runs = {{0}, {1}, {0}, {2}, {3}};
  const std::int64_t beside_second = 1024 + 512 + 4096 + 1;
  for (const bool fits : {false, true}) {
    const GraphProblemOptions options = InMemory(beside_second + 2000 - (fits ? 0 : 1));
    Iteration iteration = MadeIteration(graph, options, runs);
    UseFasterAlgorithms(graph, options, iteration);
    EXPECT_EQ(iteration.runs[0].algorithm, fits ? kQuick : kSmall);
    EXPECT_EQ(iteration.runs[2].algorithm, fits ? kQuick : kSmall);
  }
}

TEST(FasterAlgorithms, TakeTheMemoryThatIsGrantedInGranules) {
  const TaskGraph graph = testing::SmallGraph();
  GraphProblemOptions options = InMemory(1024 + 512 + 4096 + 2000);
  options.granule = 512;
  Iteration iteration = MadeIteration(graph, options, {{0}, {1}, {2}, {3}});
  UseFasterAlgorithms(graph, options, iteration);
  EXPECT_EQ(iteration.runs.front().algorithm, kSmall);
}

// A datum waits for the last of twelve tasks while one in between has a quick algorithm with a
// workspace that fits only if the datum is away.
TEST(FasterAlgorithms, HaveRoomIfDataLeaves) {
  constexpr std::int64_t kKiB = 1024;
  TaskGraph graph;
  graph.data = {{"result", 512 * kKiB, DataKind::kActivation}};
  for (int task = 0; task < 12; ++task)
    graph.tasks.push_back({.name = "task", .algorithms = {{"only", 1, 0}}});
  graph.tasks.front().writes = {0};
  graph.tasks.back().reads = {0};
  graph.tasks[6].algorithms = {{"slow", 10, 0}, {"quick", 1, 560 * kKiB}};
  GraphProblemOptions options = InMemory(600 * kKiB);
  options.rates = {.out_bytes_per_second = 1e9, .in_bytes_per_second = 1e9};
  std::vector<TaskRun> runs(graph.tasks.size());
  for (std::size_t task = 0; task < runs.size(); ++task) runs[task].task = task;
  Iteration iteration = MadeIteration(graph, options, runs);
  ASSERT_EQ(iteration.seconds, 21);
  MakeRoomForAlgorithms(graph, options, iteration);
  EXPECT_EQ(iteration.runs[6].algorithm, kQuick);
  EXPECT_EQ(iteration.is_away, (std::vector<bool>{true}));
  EXPECT_EQ(iteration.seconds, 12);
}

// A schedule that does not fit has no times.
TEST(FasterAlgorithms, LeaveAnIterationWithoutTimes) {
  const TaskGraph graph = testing::SmallGraph();
  Iteration iteration = MadeIteration(graph, InMemory(100), {{0}, {1}, {2}, {3}});
  UseFasterAlgorithms(graph, InMemory(100), iteration);
  EXPECT_EQ(iteration.runs.front().algorithm, kSmall);
}

}  // namespace
}  // namespace tidepool::transfers
