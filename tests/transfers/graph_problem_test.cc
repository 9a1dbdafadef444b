// SPDX-License-Identifier: Apache-2.0
// The memory of graphs in problems of transfers.
#include "policies/transfers/graph_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/schedule/small_schedule.h"

namespace tidepool::transfers {
namespace {

using ::testing::ElementsAre;

// Returns the small graph with a gradient that has memory before and after the iteration.
TaskGraph WithKeptGradient() {
  TaskGraph graph = testing::SmallGraph();
  graph.data[testing::kStep].before = graph.data[testing::kStep].after = DataHome::kDevice;
  return graph;
}

GraphProblem ProblemOf(const TaskGraph& graph) {
  std::vector<TaskRun> runs(graph.tasks.size());
  for (std::size_t task = 0; task < runs.size(); ++task) runs[task].task = task;
  return MakeGraphProblem(
      graph, runs,
      {.memory_bytes = 10000, .rates = {.out_bytes_per_second = 1, .in_bytes_per_second = 1}});
}

TEST(GraphProblem, GradientsOfTheIterationBeforeTakeNoMemory) {
  const GraphProblem made = ProblemOf(WithKeptGradient());
  constexpr std::int64_t kKernel = 512;
  constexpr std::int64_t kBatchAndMap = 1024 + 4096;
  EXPECT_THAT(made.dropped, ElementsAre(testing::kStep));
  EXPECT_THAT(made.problem.resting_bytes,
              ElementsAre(kKernel + 1024, kKernel + kBatchAndMap, kKernel + kBatchAndMap + 1,
                          kKernel + 600 + 512, kKernel + 512));
  EXPECT_EQ(made.problem.running_bytes[1], kKernel + kBatchAndMap + 1);
  EXPECT_EQ(made.problem.running_bytes[2], kKernel + kBatchAndMap + 1 + 600 + 512 + 512);
}

// The device holds them until the iteration starts.
TEST(GraphProblem, GradientsOfTheIterationBeforeFitBesideTheWeights) {
  TaskGraph graph = WithKeptGradient();
  graph.data[testing::kStep].bytes = 9900;
  EXPECT_EQ(ProblemOf(graph).problem.running_bytes.front(), 512 + 1024 + 9900);
}

// A round adds to the gradients of the rounds before.
TEST(GraphProblem, GradientsThatNoUpdateReadsStay) {
  TaskGraph graph = WithKeptGradient();
  graph.tasks.pop_back();
  const GraphProblem made = ProblemOf(graph);
  EXPECT_THAT(made.dropped, ElementsAre());
  EXPECT_EQ(made.problem.resting_bytes.front(), 512 + 1024 + 512);
}

}  // namespace
}  // namespace tidepool::transfers
