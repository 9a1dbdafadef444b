// SPDX-License-Identifier: Apache-2.0
// The memory of graphs in problems of transfers.
#include "policies/training/transfers/graph_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/training/schedule/small_schedule.h"

namespace tidepool::transfers {
namespace {

using ::testing::ElementsAre;

// Returns the small graph with a gradient that has memory before and after the iteration.
TaskGraph WithKeptGradient() {
  TaskGraph graph = testing::SmallGraph();
  graph.data[testing::kStep].before = graph.data[testing::kStep].after = DataHome::kDevice;
  return graph;
}

// Adds a datum that no task uses, beside which all others are small.
TaskGraph BesideLargeData(TaskGraph graph) {
  graph.data.push_back({.name = "large", .bytes = std::int64_t{1} << 40});
  return graph;
}

GraphProblem ProblemOf(const TaskGraph& graph, bool sends_for_short_times = false) {
  std::vector<TaskRun> runs(graph.tasks.size());
  for (std::size_t task = 0; task < runs.size(); ++task) runs[task].task = task;
  return MakeGraphProblem(graph, runs,
                          {.memory_bytes = 10000,
                           .rates = {.out_bytes_per_second = 1, .in_bytes_per_second = 1},
                           .sends_for_short_times = sends_for_short_times});
}

TEST(GraphProblem, GradientsOfTheIterationBeforeTakeNoMemory) {
  const GraphProblem problem = ProblemOf(WithKeptGradient());
  constexpr std::int64_t kKernel = 512;
  constexpr std::int64_t kBatchAndMap = 1024 + 4096;
  EXPECT_THAT(problem.dropped, ElementsAre(testing::kStep));
  EXPECT_THAT(problem.transfers.resting_bytes,
              ElementsAre(kKernel + 1024, kKernel + kBatchAndMap, kKernel + kBatchAndMap + 1,
                          kKernel + 600 + 512, kKernel + 512));
  EXPECT_EQ(problem.transfers.running_bytes[1], kKernel + kBatchAndMap + 1);
  EXPECT_EQ(problem.transfers.running_bytes[2], kKernel + kBatchAndMap + 1 + 600 + 512 + 512);
}

// The device holds them until the iteration starts.
TEST(GraphProblem, GradientsOfTheIterationBeforeFitBesideTheWeights) {
  TaskGraph graph = WithKeptGradient();
  graph.data[testing::kStep].bytes = 9900;
  EXPECT_EQ(ProblemOf(graph).transfers.running_bytes.front(), 512 + 1024 + 9900);
}

// Returns a graph of `idle` tasks between the uses of a kernel and its gradient, all large.
TaskGraph WithLargeKernel(std::size_t idle = 2) {
  TaskGraph graph = WithKeptGradient();
  graph = BesideLargeData(std::move(graph));
  graph.data[testing::kKernel].bytes = graph.data[testing::kStep].bytes = kMostSmallBytes;
  for (const std::size_t at : {4, 3, 0}) {
    const GraphTask task = {.name = "idle", .algorithms = {{"only", 1, 0}}};
    graph.tasks.insert(graph.tasks.begin() + static_cast<std::ptrdiff_t>(at), idle, task);
  }
  return graph;
}

TEST(GraphProblem, DataAtHomeMayBeAwayBeforeBetweenAndAfterItsUses) {
  constexpr std::size_t kIdle = 2;
  const GraphProblem problem = ProblemOf(WithLargeKernel(kIdle));
  const std::size_t end = problem.transfers.seconds.size();
  std::vector<std::vector<std::size_t>> found;
  for (std::size_t g = 0; g < problem.moved.size(); ++g) {
    const Absence& one = problem.transfers.absences[g];
    EXPECT_TRUE(one.is_at_home);
    EXPECT_GT(one.out_seconds, 0);
    found.push_back({problem.moved[g].data, one.written, one.left, one.needed});
  }
  constexpr std::size_t kConvRun = kIdle;
  constexpr std::size_t kBackRun = kIdle + 2;
  constexpr std::size_t kUpdateRun = 2 * kIdle + 3;
  using testing::kKernel;
  using testing::kStep;
  EXPECT_THAT(found, ElementsAre(ElementsAre(kKernel, 0, 0, kConvRun),
                                 ElementsAre(kKernel, 0, kConvRun + 1, kUpdateRun),
                                 ElementsAre(kKernel, kUpdateRun + 1, kUpdateRun + 1, end),
                                 ElementsAre(kStep, kBackRun + 1, kBackRun + 1, kUpdateRun),
                                 ElementsAre(kStep, kBackRun + 1, kUpdateRun + 1, end)));
}

// A datum is needed soon within a part of the runs, and at most within 8.
TEST(GraphProblem, DataLeavesForShortTimesWhereTheGraphIsShort) {
  const auto absences = [](std::size_t idle, std::size_t tasks, bool sends_for_short_times) {
    TaskGraph graph = WithLargeKernel(idle);
    for (std::size_t task = graph.tasks.size(); task < tasks; ++task) {
      graph.tasks.push_back({.name = "idle", .algorithms = {{"only", 1, 0}}});
    }
    return ProblemOf(graph, sends_for_short_times).transfers.absences.size();
  };
  constexpr std::size_t kLong = kSoonPart * kMostSoonRuns;
  EXPECT_EQ(absences(1, 0, false), 5);
  EXPECT_EQ(absences(1, kLong, false), 2);  // after the last uses
  EXPECT_EQ(absences(1, kLong, true), 5);
  EXPECT_EQ(absences(kMostSoonRuns, kLong, false), 5);
}

// Kilobytes leave a graph of kilobytes.
TEST(GraphProblem, SmallDataHasASmallPartOfAllBytes) {
  TaskGraph graph = WithLargeKernel();
  const auto kernel_leaves = [&] {
    const GraphProblem problem = ProblemOf(graph);
    return std::any_of(
        problem.moved.begin(), problem.moved.end(),
        [](const GraphProblem::Moved& moved) { return moved.data == testing::kKernel; });
  };
  EXPECT_TRUE(kernel_leaves());
  graph.data[testing::kKernel].bytes = kMostSmallBytes - 1;
  EXPECT_FALSE(kernel_leaves());
  graph.data.pop_back();  // the large one
  EXPECT_TRUE(kernel_leaves());
  graph.data[testing::kKernel].bytes = 1;
  EXPECT_FALSE(kernel_leaves());
}

// Data that the host has still comes and goes.
TEST(GraphProblem, NothingLeavesToMakeRoomIfItMayNot) {
  TaskGraph graph = testing::SmallGraph();
  graph.data[testing::kBatch].before = DataHome::kHost;
  graph.data[testing::kStep].after = DataHome::kHost;
  std::vector<TaskRun> runs(graph.tasks.size());
  for (std::size_t task = 0; task < runs.size(); ++task) runs[task].task = task;
  GraphProblemOptions options = {.memory_bytes = 10000,
                                 .rates = {.out_bytes_per_second = 1, .in_bytes_per_second = 1},
                                 .has_all_absences = true};
  const auto has_sent = [](const GraphProblem& problem) {
    return std::any_of(problem.transfers.absences.begin(), problem.transfers.absences.end(),
                       [](const Absence& one) { return one.out_seconds > 0 && !one.ends_away; });
  };
  EXPECT_TRUE(has_sent(MakeGraphProblem(graph, runs, options)));
  options.offloads = false;
  const GraphProblem problem = MakeGraphProblem(graph, runs, options);
  EXPECT_FALSE(has_sent(problem));
  std::vector<std::size_t> moved;
  for (const GraphProblem::Moved& one : problem.moved) moved.push_back(one.data);
  EXPECT_THAT(moved, ::testing::IsSupersetOf({testing::kBatch, testing::kStep}));
}

TEST(GraphProblem, DataAtHomeStaysInRounds) {
  TaskGraph graph = WithLargeKernel();
  std::erase_if(graph.tasks,
                [](const GraphTask& task) { return task.phase == TaskPhase::kUpdate; });
  EXPECT_TRUE(ProblemOf(graph).transfers.absences.empty());
}

// A round adds to the gradients of the rounds before.
TEST(GraphProblem, GradientsThatNoUpdateReadsStay) {
  TaskGraph graph = WithKeptGradient();
  graph.tasks.pop_back();
  const GraphProblem problem = ProblemOf(graph);
  EXPECT_THAT(problem.dropped, ElementsAre());
  EXPECT_EQ(problem.transfers.resting_bytes.front(), 512 + 1024 + 512);
}

// The kernel comes for its convolution and goes after its update; the host need not send the
// gradient, which the backward task writes over.
TEST(GraphProblem, DataAtHomeOnTheHostComesAndGoes) {
  TaskGraph graph = WithKeptGradient();
  for (const std::size_t data : {testing::kKernel, testing::kStep}) {
    graph.data[data].before = graph.data[data].after = DataHome::kHost;
  }
  const GraphProblem problem = ProblemOf(BesideLargeData(std::move(graph)));
  EXPECT_THAT(problem.dropped, ElementsAre());
  EXPECT_THAT(problem.transfers.absences,
              ElementsAre(Absence{.bytes = 512, .in_seconds = 512, .begins_away = true},
                          Absence{.bytes = 512,
                                  .written = 4,
                                  .left = 4,
                                  .needed = 4,
                                  .out_seconds = 512,
                                  .in_seconds = 512,
                                  .ends_away = true},
                          Absence{.bytes = 512,
                                  .written = 3,
                                  .left = 4,
                                  .needed = 4,
                                  .out_seconds = 512,
                                  .in_seconds = 512,
                                  .ends_away = true}));
  EXPECT_THAT(problem.moved, ElementsAre(GraphProblem::Moved{testing::kKernel, true},
                                         GraphProblem::Moved{testing::kKernel, false},
                                         GraphProblem::Moved{testing::kStep, false}));
  // The batch and the kernel begin there, and the gradient has memory from the backward task on.
  EXPECT_EQ(problem.transfers.resting_bytes.front(), 1024 + 512);
  EXPECT_EQ(problem.transfers.resting_bytes.back(), 512 + 512);
}

// Data that no task changes is dropped after its last use, because the host has it.
TEST(GraphProblem, DataThatStaysAsOnTheHostIsNotSent) {
  TaskGraph graph = testing::SmallGraph();
  graph.data[testing::kBatch].before = graph.data[testing::kBatch].after = DataHome::kHost;
  const GraphProblem problem = ProblemOf(BesideLargeData(std::move(graph)));
  EXPECT_THAT(problem.transfers.absences,
              ElementsAre(Absence{.bytes = 1024, .in_seconds = 1024, .begins_away = true}));
  EXPECT_THAT(problem.ends, ::testing::Contains(GraphProblem::End{2, testing::kBatch, true}));
}

// A maker keeps its lists from problem to problem.
TEST(GraphProblem, DependsOnNoProblemMadeBefore) {
  const TaskGraph graph = WithLargeKernel();
  const GraphProblemOptions options = {
      .memory_bytes = 10000,
      .reserve_bytes = 1000,
      .granule = 256,
      .rates = {.out_bytes_per_second = 1, .in_bytes_per_second = 2},
      .part_bytes = kMostSmallBytes / 4};
  std::vector<TaskRun> all(graph.tasks.size());
  for (std::size_t task = 0; task < all.size(); ++task) all[task].task = task;
  std::vector<TaskRun> twice = all;
  twice.insert(twice.end(), all.begin(), all.end());
  GraphProblemMaker maker(graph, options);
  for (const std::vector<TaskRun>& runs : {all, twice, {}, all}) {
    EXPECT_EQ(maker.Make(runs), MakeGraphProblem(graph, runs, options)) << runs.size();
  }
}

}  // namespace
}  // namespace tidepool::transfers
