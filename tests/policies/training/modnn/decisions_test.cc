// SPDX-License-Identifier: Apache-2.0
// Tests single decisions of moDNN on small graphs: which data leaves, when it comes back, and which
// algorithm a task has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policies/training/modnn/iteration.h"
#include "policies/training/modnn/modnn.h"
#include "policies/training/modnn/offload_scheme.h"
#include "policies/training/modnn/prepare_task.h"
#include "tidepool/training/graph.h"

namespace tidepool::modnn {
namespace {

using ::testing::ElementsAre;

// A graph of tasks of a second each. Results are at home on the device, and so they stay.
class Graphs {
 public:
  // Adds data on the host that tasks read.
  std::size_t Input(std::int64_t bytes) {
    graph_.data.push_back({.name = Name("x"),
                           .bytes = bytes,
                           .kind = DataKind::kInput,
                           .before = DataHome::kHost,
                           .after = DataHome::kNowhere});
    return graph_.data.size() - 1;
  }
  std::size_t Activation(std::int64_t bytes) {
    graph_.data.push_back({.name = Name("y"), .bytes = bytes});
    return graph_.data.size() - 1;
  }
  // Adds a task that reads data, and writes data or a result of one byte.
  void Task(std::vector<std::size_t> reads, std::vector<std::size_t> writes = {},
            std::vector<TaskAlgorithm> algorithms = {{"a", 1, 0}}) {
    if (writes.empty()) {
      graph_.data.push_back({.name = Name("g"),
                             .bytes = 1,
                             .kind = DataKind::kWeightGradient,
                             .before = DataHome::kDevice,
                             .after = DataHome::kDevice});
      writes = {graph_.data.size() - 1};
      ++results_;
    }
    graph_.tasks.push_back({.name = "t" + std::to_string(graph_.tasks.size()),
                            .reads = std::move(reads),
                            .writes = std::move(writes),
                            .algorithms = std::move(algorithms)});
  }
  const TaskGraph& graph() {
    graph_.name = "small";
    EXPECT_EQ(ValidateGraph(graph_), absl::OkStatus());
    return graph_;
  }
  // Returns settings with memory for `bytes` beside the results.
  Settings With(std::int64_t bytes, double rate, bool as_printed = false) const {
    return {.memory_bytes = bytes + results_,
            .alignment = 1,
            .link = {.out_bytes_per_second = rate, .in_bytes_per_second = rate},
            .as_printed = as_printed};
  }

 private:
  std::string Name(const char* kind) const { return kind + std::to_string(graph_.data.size()); }

  TaskGraph graph_;
  std::int64_t results_ = 0;
};

// Figure 6: blocks of 2, 2, 1, 3, 2, 2, of which the fourth may not leave, and an allocation of 4.
// There are two schemes, (1)(2) and (5)(6). Of schemes without a delay, the one with the
// data that is used last is taken.
TEST(OffloadScheme, FindsTheSchemesOfFigureSix) {
  for (const bool first_is_used_last : {false, true}) {
    Graphs graphs;
    std::vector<std::size_t> blocks;
    for (const std::int64_t bytes : {2, 2, 1, 3, 2, 2}) blocks.push_back(graphs.Input(bytes));
    for (const std::size_t block : blocks) graphs.Task({block});
    const std::size_t output = graphs.Activation(4);
    graphs.Task({blocks[3]}, {output});
    std::vector<std::size_t> again = {4, 5, 2, 0, 1};
    if (!first_is_used_last) again = {0, 1, 2, 4, 5};
    graphs.Task({output});
    for (const std::size_t block : again) graphs.Task({blocks[block]});
    Iteration iteration(graphs.graph(), graphs.With(12, 1e9));
    for (std::size_t task = 0; task < 6; ++task) {
      PrepareTask(iteration, task);
      iteration.Run(task, 0, std::nullopt);
    }
    const auto scheme = FindScheme(iteration, 4, MayLeave::kByBothCriteria, {6, 6});
    ASSERT_TRUE(scheme.has_value());
    EXPECT_EQ(scheme->bytes_out, 0);  // inputs have copies
    if (first_is_used_last) {
      EXPECT_THAT(scheme->leaving, ElementsAre(blocks[0], blocks[1]));
    } else {
      EXPECT_THAT(scheme->leaving, ElementsAre(blocks[4], blocks[5]));
    }
    EXPECT_FALSE(FindScheme(iteration, 6, MayLeave::kByBothCriteria, {6, 6}).has_value());
  }
}

// The first criterion: data that no task has used since it was made stays.
TEST(OffloadScheme, DataThatIsNotUsedYetStays) {
  Graphs graphs;
  const std::size_t x = graphs.Input(2);
  const std::size_t unused = graphs.Activation(2);
  const std::size_t used = graphs.Activation(2);
  graphs.Task({x}, {unused, used});
  graphs.Task({used});
  graphs.Task({x});
  graphs.Task({unused, used});
  Iteration iteration(graphs.graph(), graphs.With(6, 1e9));
  for (const std::size_t task : {0, 1}) {
    PrepareTask(iteration, task);
    iteration.Run(task, 0, std::nullopt);
  }
  const auto scheme = FindScheme(iteration, 2, MayLeave::kByBothCriteria, {2, 2});
  ASSERT_TRUE(scheme.has_value());
  EXPECT_THAT(scheme->leaving, ElementsAre(used));
  // The third task needs x.
  EXPECT_FALSE(FindScheme(iteration, 4, MayLeave::kByBothCriteria, {2, 2}).has_value());
  EXPECT_TRUE(FindScheme(iteration, 4, MayLeave::kAnyOther, {2, 2}).has_value());
}

// Returns the task that runs first after the last copy in of a datum.
std::size_t TaskAfterCopyIn(const Schedule& schedule, std::size_t data) {
  const auto copy =
      std::find_if(schedule.steps.rbegin(), schedule.steps.rend(), [&](const ScheduleStep& step) {
        return step.kind == StepKind::kPrefetch && step.index == data;
      });
  return std::find_if(copy.base(), schedule.steps.end(),
                      [](const ScheduleStep& step) { return step.kind == StepKind::kRun; })
      ->index;
}

// Equation (9): x takes 2.5 s to come, and its second use begins after 10 s. Before task 7, at 7 s,
// 7 + 1 + 2.5 > 10 holds for the first time.
TEST(Prefetch, BeginsWhenOneTaskLaterWouldBeTooLate) {
  for (const bool as_printed : {false, true}) {
    Graphs graphs;
    const std::size_t x = graphs.Input(5);
    const std::size_t y = graphs.Activation(5);
    graphs.Task({x});
    graphs.Task({}, {y});
    for (int i = 2; i < 5; ++i) graphs.Task({y});
    for (int i = 5; i < 10; ++i) graphs.Task({}, {graphs.Activation(1)});
    graphs.Task({x});
    // The first copy of x delays all tasks by 2.5 s alike.
    const absl::StatusOr<Schedule> schedule = Modnn(graphs.graph(), graphs.With(6, 2, as_printed));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ(TaskAfterCopyIn(*schedule, x), 7) << as_printed;
  }
}

// Copies for several tasks wait for each other: two of 2.5 s each, for tasks that begin after 10 s
// and 11 s. The queue knows that the first one has to begin earlier; as printed it does not.
TEST(Prefetch, KnowsTheCopiesThatWaitForEachOther) {
  for (const bool as_printed : {false, true}) {
    Graphs graphs;
    const std::size_t x = graphs.Input(5);
    const std::size_t z = graphs.Input(5);
    const std::size_t y = graphs.Activation(10);
    graphs.Task({x});
    graphs.Task({z});
    graphs.Task({}, {y});
    for (int i = 3; i < 5; ++i) graphs.Task({y});
    for (int i = 5; i < 10; ++i) graphs.Task({}, {graphs.Activation(1)});
    graphs.Task({x});
    graphs.Task({z});
    const absl::StatusOr<Schedule> schedule = Modnn(graphs.graph(), graphs.With(11, 2, as_printed));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    // Both copies end after 11 s if they begin after task 6: 6 + 1 + 5 > 11.
    EXPECT_EQ(TaskAfterCopyIn(*schedule, x), as_printed ? 7 : 6);
  }
}

std::size_t AlgorithmOf(const Schedule& schedule, std::size_t task) {
  return std::find_if(schedule.steps.begin(), schedule.steps.end(),
                      [&](const ScheduleStep& step) {
                        return step.kind == StepKind::kRun && step.index == task;
                      })
      ->algorithm;
}

// Equation (10): the fast algorithm saves half a second, and the copy that makes room for its
// workspace takes 5 s or 0.05 s.
TEST(Algorithms, ACopyOutMustNotTakeLongerThanTheAlgorithmSaves) {
  for (const double rate : {1.0, 100.0}) {
    Graphs graphs;
    const std::size_t y = graphs.Activation(5);
    const std::size_t z = graphs.Activation(1);
    graphs.Task({}, {y});
    graphs.Task({y}, {z});
    graphs.Task({z}, {}, {{"a", 1, 0}, {"b", 0.5, 5}});
    graphs.Task({y});
    const absl::StatusOr<Schedule> schedule = Modnn(graphs.graph(), graphs.With(6, rate));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ(AlgorithmOf(*schedule, 2), rate == 1 ? 0 : 1);
  }
}

// A block of exactly the size is taken before a larger one at a lower address.
TEST(MemoryMap, TakesTheExactBlockFirst) {
  MemoryMap memory(10, 1);
  const auto a = memory.Allocate(4, 0).value();
  memory.Allocate(1, 1).value();
  const auto c = memory.Allocate(3, 2).value();
  memory.Allocate(2, 3).value();
  memory.Free(a, 7);
  memory.Free(c, 5);
  EXPECT_EQ(memory.FreeFromFor(3), 5);
  EXPECT_EQ(memory.Offset(memory.Allocate(3, 4).value()), 5);
  EXPECT_EQ(memory.FreeFromFor(2), 7);
  EXPECT_EQ(memory.Offset(memory.Allocate(2, 5).value()), 0);
  EXPECT_FALSE(memory.Allocate(3, 6).has_value());
}

}  // namespace
}  // namespace tidepool::modnn
