// SPDX-License-Identifier: Apache-2.0
// The walk of `best` through all schedules of a small graph, against the exact search of the tests.
#include "policies/training/search/small_walk.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "policies/training/transfers/copy_rates.h"
#include "tests/support/exact_search/exact_training.h"
#include "tests/support/exact_search/small_graphs.h"
#include "tests/support/expect_valid.h"
#include "tests/support/rounds.h"

namespace tidepool::search {
namespace {

using testing::ExactAnswer;
using testing::ExactTraining;
using testing::ExactTrainingAnswer;
using testing::Rounds;
using testing::SmallGraphs;

constexpr std::int64_t kUnit = 512;
constexpr std::size_t kMostStates = 300'000;

// Any homes, also data that must be sent at the end, and tasks with two results.
TaskGraph GraphOfAnyHomes(SmallGraphs& random) {
  const bool has_weights = random.Chance(40);
  TaskGraph graph =
      random.Make({.layers = static_cast<std::size_t>(has_weights ? 2 : random.From(2, 4)),
                   .has_loss = random.Chance(50),
                   .has_skips = random.Chance(50),
                   .has_workspaces = random.Chance(50),
                   .has_weights = has_weights,
                   .input = random.Chance(50) ? DataHome::kHost : DataHome::kDevice,
                   .has_labels = random.Chance(50)});
  for (GraphData& data : graph.data) {
    if (data.kind == DataKind::kWeight && random.Chance(50)) {
      data.before = data.after = DataHome::kHost;
    }
  }
  if (!has_weights && random.Chance(30)) graph.data.back().after = DataHome::kHost;
  if (!has_weights && random.Chance(30)) {
    // A second result of the first task, for the last one.
    graph.data.push_back({"mask", kUnit * random.From(1, 4), DataKind::kActivation});
    graph.tasks.front().writes.push_back(graph.data.size() - 1);
    graph.tasks.back().reads.push_back(graph.data.size() - 1);
  }
  return graph;
}

ExactTraining RandomTraining(SmallGraphs& random) {
  ExactTraining training = {.graph = GraphOfAnyHomes(random)};
  std::int64_t weights = 0;
  for (const GraphData& data : training.graph.data) {
    if (data.after == DataHome::kDevice) weights += data.bytes;
  }
  training.machine.devices[0].memory_bytes = TotalsOf(training.graph).largest_task +
                                             random.From(0, 1) * weights +
                                             kUnit * random.From(-1, 8);
  MachineLink& link = training.machine.links[0];
  link.out_bytes_per_second = static_cast<double>(kUnit) / random.From(1, 3);
  link.in_bytes_per_second = static_cast<double>(kUnit) / random.From(1, 3);
  link.full_duplex = random.Chance(50);
  training.recomputes = random.Chance(50);
  return training;
}

WalkOptions OptionsOf(const ExactTraining& training) {
  return {.memory_bytes = training.machine.devices[0].memory_bytes,
          .granule = kUnit,
          .rates = transfers::RatesOfDevice(training.machine, 0),
          .recomputes = training.recomputes,
          .most_states = kMostStates};
}

void ExpectItsTime(const ExactTraining& training, const WalkAnswer& answer) {
  MadeSchedule made;
  made.schedule = answer.schedule;
  made.schedule.fingerprint = GraphFingerprint(training.graph);
  made.schedule.memory = ScheduleMemory::kPaged;
  made.schedule.alignment = kUnit;
  made.graphs = {training.graph};
  made.machine = training.machine;
  ExpectValid(made);
  const absl::StatusOr<Timeline> timeline = Simulate(made);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_DOUBLE_EQ(timeline->seconds, answer.seconds);
}

TEST(SmallWalk, FindsTheOptimum) {
  SmallGraphs random(11);
  int found = 0;
  int without = 0;
  for (int i = 0; i < Rounds(80); ++i) {
    SCOPED_TRACE(i);
    const ExactTraining training = RandomTraining(random);
    ASSERT_TRUE(IsForWalk(training.graph));
    const ExactTrainingAnswer exact = SearchTrainingExactly(training, 100'000);
    if (exact.kind == ExactAnswer::Kind::kTooManyStates) continue;
    WalkOptions options = OptionsOf(training);
    const WalkAnswer answer = WalkSmallGraph(training.graph, options);
    ASSERT_TRUE(answer.is_complete);
    if (exact.kind == ExactAnswer::Kind::kNoSchedule) {
      EXPECT_TRUE(answer.schedule.steps.empty());
      ++without;
      continue;
    }
    ASSERT_DOUBLE_EQ(answer.seconds, exact.seconds) << GraphJson(training.graph);
    ExpectItsTime(training, answer);
    ++found;
    // Nothing takes less.
    options.below_seconds = exact.seconds;
    const WalkAnswer none = WalkSmallGraph(training.graph, options);
    EXPECT_TRUE(none.is_complete);
    EXPECT_TRUE(none.schedule.steps.empty());
    if (HasFailure()) return;
  }
  EXPECT_GT(found, Rounds(80) / 2);
  EXPECT_GT(without, 0);
}

TEST(SmallWalk, TakesAlgorithmsThatHaveRoom) {
  SmallGraphs random(12);
  ExactTraining training = {.graph = random.Make({.layers = 2})};
  const std::int64_t largest = TotalsOf(training.graph).largest_task;
  for (GraphTask& task : training.graph.tasks) {
    task.algorithms.push_back({"fast", task.algorithms[0].seconds / 2, largest});
  }
  training.machine.devices[0].memory_bytes = 8 * largest;
  const WalkAnswer answer = WalkSmallGraph(training.graph, OptionsOf(training));
  ASSERT_TRUE(answer.is_complete);
  ExpectItsTime(training, answer);
  for (const ScheduleStep& step : answer.schedule.steps) {
    EXPECT_TRUE(step.kind != StepKind::kRun || step.algorithm == 1);
  }
}

TEST(SmallWalk, EndsWithoutAnAnswer) {
  SmallGraphs random(13);
  const ExactTraining training = RandomTraining(random);
  WalkOptions options = OptionsOf(training);
  options.most_states = 1;
  EXPECT_FALSE(WalkSmallGraph(training.graph, options).is_complete);
  options = OptionsOf(training);
  options.go_on = [] { return false; };
  EXPECT_FALSE(WalkSmallGraph(training.graph, options).is_complete);
}

TEST(SmallWalk, IsForSmallGraphsWithoutOldGradientsOrRounds) {
  SmallGraphs random(14);
  EXPECT_FALSE(IsForWalk(random.Make({.layers = 13})));
  TaskGraph graph = random.Make({.layers = 2, .has_weights = true});
  EXPECT_TRUE(IsForWalk(graph));
  // A round of several has no updates.
  TaskGraph round = graph;
  std::erase_if(round.tasks,
                [](const GraphTask& task) { return task.phase == TaskPhase::kUpdate; });
  EXPECT_FALSE(IsForWalk(round));
  for (GraphData& data : graph.data) {
    if (data.kind == DataKind::kWeightGradient) data.before = data.after = DataHome::kDevice;
  }
  EXPECT_FALSE(IsForWalk(graph));
}

}  // namespace
}  // namespace tidepool::search
