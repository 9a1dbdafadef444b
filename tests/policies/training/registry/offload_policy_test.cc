// SPDX-License-Identifier: Apache-2.0
// Offload policies: names, the data that leaves and comes back, and the validity of every schedule.
#include "tidepool/training/offload_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "lib/training/schedule/steps/begin_on_host.h"
#include "tests/support/pool_schedule.h"
#include "tests/support/rounds.h"
#include "tests/support/sizes.h"
#include "tests/training/graph/random_graph.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kPlenty = std::int64_t{1} << 44;

testing::PoolPolicy Plenty() {
  testing::PoolPolicy options;
  options.machine.memory() = kPlenty;
  return options;
}

TaskGraph SmallBatch(const std::string& name, std::int64_t batch = 2) {
  return MakeModel(name, {.batch = batch}).value();
}

// Names of data, in the order of their steps.
std::vector<std::string> DataOf(const TaskGraph& graph, const Schedule& schedule, StepKind kind) {
  std::vector<std::string> names;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == kind) names.push_back(graph.data[step.index].name);
  }
  return names;
}

TEST(OffloadPolicy, NamesAreFound) {
  EXPECT_THAT(OffloadPolicyNames(),
              ElementsAre("none", "base", "vdnn", "vdnn++", "modnn", "best", "greedy", "vdnn-ratio",
                          "tflms", "dynprog", "autoswap", "recompute", "pofo"));
  EXPECT_EQ(*OffloadSetFromName("all"), OffloadSet::kAll);
  EXPECT_EQ(*OffloadSetFromName("conv"), OffloadSet::kConvolutions);
  EXPECT_EQ(*OffloadSetFromName("aconv"), OffloadSet::kAlternateConvolutions);
  EXPECT_EQ(*OffloadSetFromName("dynamic"), OffloadSet::kDynamic);
  EXPECT_EQ(*AlgorithmChoiceFromName("m"), AlgorithmChoice::kLeastMemory);
  EXPECT_EQ(*AlgorithmChoiceFromName("p"), AlgorithmChoice::kFastest);
  EXPECT_EQ(*AllocationOrderFromName("prefetch-first"), AllocationOrder::kPrefetchFirst);
  EXPECT_EQ(*AllocationOrderFromName("derivative-first"), AllocationOrder::kDerivativeFirst);
}

// Policies that send nothing keep data on the device where others send some. `best` may do either.
TEST(OffloadPolicy, TheTableTellsWhichPoliciesSendData) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 64, .inputs = DataHome::kDevice}).value();
  ScheduleRequest request;
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = 1e12;
  for (const OffloadPolicyInfo& policy : OffloadPolicies()) {
    if (policy.name == "best") continue;
    std::int64_t bytes_out = 0;
    for (const std::int64_t memory : {680 * kMiB, 700 * kMiB, kPlenty}) {
      request.machine.devices.front().memory_bytes = memory;
      const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy.name, graph, request);
      if (!made.ok()) continue;
      const absl::StatusOr<Timeline> timeline = Simulate(*made);
      if (timeline.ok()) bytes_out += timeline->bytes_out;
    }
    EXPECT_EQ(bytes_out > 0, policy.sends) << policy.name;
  }
}

TEST(OffloadPolicy, UnknownNamesAreAnsweredWithTheKnownOnes) {
  EXPECT_THAT(OffloadSetFromName("some").status().message(),
              AllOf(HasSubstr("'some'"), HasSubstr("expected one of all, conv, aconv, dynamic")));
  EXPECT_THAT(AlgorithmChoiceFromName("").status().message(), HasSubstr("expected one of m, p"));
  EXPECT_THAT(AllocationOrderFromName("x").status().message(),
              HasSubstr("expected one of prefetch-first, derivative-first"));
  const absl::StatusOr<Schedule> schedule =
      testing::MakePoolSchedule("bane", SmallBatch("alexnet"), Plenty());
  EXPECT_EQ(schedule.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(schedule.status().message(), HasSubstr("expected one of base, none, vdnn, "));
}

TEST(OffloadPolicy, SetsAreThoseOfThePaper) {
  const TaskGraph graph = SmallBatch("alexnet");
  testing::PoolPolicy options = Plenty();
  const auto leaving = [&](OffloadSet set) {
    options.set = set;
    return DataOf(graph, testing::MakePoolSchedule("vdnn++", graph, options).value(),
                  StepKind::kOffload);
  };
  EXPECT_THAT(leaving(OffloadSet::kConvolutions),
              ElementsAre("input", "pool1.output", "pool2.output", "conv3.output", "conv4.output"));
  EXPECT_THAT(leaving(OffloadSet::kAlternateConvolutions),
              ElementsAre("input", "pool2.output", "conv4.output"));
  EXPECT_THAT(leaving(OffloadSet::kAll),
              ElementsAre("input", "conv1.output", "pool1.output", "conv2.output", "pool2.output",
                          "conv3.output", "conv4.output", "conv5.output", "pool5.output"));
}

TEST(OffloadPolicy, WhatLeftComesBackInTheOrderInWhichItIsNeeded) {
  const TaskGraph graph = SmallBatch("alexnet");
  const Schedule schedule = testing::MakePoolSchedule("vdnn++", graph, Plenty()).value();
  // The input and the labels begin on the host.
  EXPECT_THAT(DataOf(graph, schedule, StepKind::kPrefetch),
              ElementsAre("input", "labels", "conv4.output", "conv3.output", "pool2.output",
                          "pool1.output", "input"));
}

// Weights that live on the host come at the begin, and go home after the last task.
TEST(OffloadPolicy, DataAtHomeOnTheHostComesAndGoes) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 4, .weights = DataHome::kHost}).value();
  ASSERT_EQ(ValidateGraph(graph), absl::OkStatus());
  for (const char* policy : {"none", "vdnn", "vdnn++"}) {
    const Schedule schedule = testing::MakePoolSchedule(policy, graph, Plenty()).value();
    EXPECT_EQ(ValidateSchedule(graph, schedule), absl::OkStatus());
    for (std::size_t i = 0; i < graph.data.size(); ++i) {
      if (graph.data[i].kind != DataKind::kWeight) continue;
      std::vector<StepKind> moves;
      for (const ScheduleStep& step : schedule.steps) {
        if (step.kind != StepKind::kRun && step.index == i) moves.push_back(step.kind);
      }
      EXPECT_THAT(moves, ElementsAre(StepKind::kPrefetch, StepKind::kOffload, StepKind::kDrop));
    }
  }
}

TEST(OffloadPolicy, AlgorithmsAreTheFastestOrThoseOfLeastMemory) {
  const TaskGraph graph = SmallBatch("vgg16");
  for (const auto choice : {AlgorithmChoice::kLeastMemory, AlgorithmChoice::kFastest}) {
    testing::PoolPolicy options = Plenty();
    options.algorithms = choice;
    const Schedule schedule = testing::MakePoolSchedule("none", graph, options).value();
    for (const ScheduleStep& step : schedule.steps) {
      if (step.kind != StepKind::kRun) continue;
      const std::vector<TaskAlgorithm>& algorithms = graph.tasks[step.index].algorithms;
      const TaskAlgorithm& chosen = algorithms[step.algorithm];
      for (const TaskAlgorithm& other : algorithms) {
        if (choice == AlgorithmChoice::kLeastMemory) {
          EXPECT_LE(chosen.workspace_bytes, other.workspace_bytes);
        } else {
          EXPECT_LE(chosen.seconds, other.seconds);
        }
      }
    }
  }
}

std::vector<testing::PoolPolicy> AllModes() {
  std::vector<testing::PoolPolicy> modes;
  for (const auto set : {OffloadSet::kAll, OffloadSet::kConvolutions,
                         OffloadSet::kAlternateConvolutions, OffloadSet::kDynamic}) {
    for (const auto algorithms : {AlgorithmChoice::kLeastMemory, AlgorithmChoice::kFastest}) {
      // The dynamic mode chooses algorithms itself.
      if (set == OffloadSet::kDynamic && algorithms == AlgorithmChoice::kFastest) continue;
      for (const auto order :
           {AllocationOrder::kPrefetchFirst, AllocationOrder::kDerivativeFirst}) {
        modes.push_back(Plenty());
        modes.back().set = set;
        modes.back().algorithms = algorithms;
        modes.back().order = order;
      }
    }
  }
  return modes;
}

void ExpectSchedules(const TaskGraph& graph) {
  for (const std::string policy : testing::kLayerwisePolicies) {
    for (const testing::PoolPolicy& mode : AllModes()) {
      const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule(policy, graph, mode);
      ASSERT_TRUE(schedule.ok()) << graph.name << " " << schedule.status();
      ASSERT_EQ(ValidateSchedule(graph, *schedule), absl::OkStatus())
          << graph.name << " " << schedule->policy;
      if (schedule->memory != ScheduleMemory::kPool) continue;
      const std::vector<std::string> out = DataOf(graph, *schedule, StepKind::kOffload);
      std::vector<std::string> in = out;
      for (const GraphData& data : graph.data) {
        if (data.before == DataHome::kHost) in.push_back(data.name);
      }
      EXPECT_THAT(DataOf(graph, *schedule, StepKind::kPrefetch),
                  ::testing::UnorderedElementsAreArray(in));
      EXPECT_TRUE(policy != "none" || out.empty());
    }
  }
}

TEST(OffloadPolicy, MakesSchedulesOfEveryKnownNetwork) {
  const std::vector<std::string> models = KnownModels();
  const auto count = static_cast<int>(models.size());
  const int tried = testing::Rounds(count);
  for (int i = 0; i < tried; ++i) {
    ExpectSchedules(SmallBatch(models[static_cast<std::size_t>(i * count / tried)]));
  }
}

TEST(OffloadPolicy, MakesSchedulesOfAnyGraph) {
  const int rounds = testing::Rounds(300);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    testing::RandomGraphs graphs(static_cast<std::uint64_t>(seed));
    ExpectSchedules(graphs.Valid(1 + graphs.Below(20)));
  }
}

TEST(OffloadPolicy, DynamicModeIsAtLeastAsQuickAsEveryOtherThatFits) {
  const TaskGraph graph = SmallBatch("vgg16", 16);
  testing::PoolPolicy dynamic = Plenty();
  dynamic.set = OffloadSet::kDynamic;
  for (const std::int64_t mib : {1100, 1400, 1700, 2000, 3000, 6000}) {
    dynamic.machine.memory() = mib << 20;
    const absl::StatusOr<Schedule> best = testing::MakePoolSchedule("vdnn++", graph, dynamic);
    double least = std::numeric_limits<double>::infinity();
    for (testing::PoolPolicy mode : AllModes()) {
      if (mode.set == OffloadSet::kDynamic || mode.order != dynamic.order) continue;
      mode.machine = dynamic.machine;
      const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule("vdnn++", graph, mode);
      if (!schedule.ok()) continue;
      const absl::StatusOr<Timeline> timeline = Simulate(graph, *schedule, mode.machine);
      if (timeline.ok()) least = std::min(least, timeline->seconds);
    }
    if (!best.ok()) {
      EXPECT_EQ(best.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(least, std::numeric_limits<double>::infinity()) << mib;
      continue;
    }
    EXPECT_LE(Simulate(graph, *best, dynamic.machine)->seconds, least) << mib;
  }
}

TEST(OffloadPolicy, DynamicModeTakesTheLargestWorkspacesThatFit) {
  TaskGraph graph;
  graph.data = {{"x", 1000, DataKind::kInput}, {"y", 1000}};
  GraphTask task = {.name = "f", .reads = {0}, .writes = {1}};
  constexpr int kCount = 8;
  for (int i = 0; i < kCount; ++i) {
    task.algorithms.push_back({std::to_string(i), 1.0 / (i + 1), 100 * i});
  }
  graph.tasks = {task};
  testing::PoolPolicy options;
  options.set = OffloadSet::kDynamic;
  options.machine.placing.alignment = 1;
  for (std::size_t i = 0; i < kCount; ++i) {
    options.machine.memory() = 2050 + 100 * static_cast<std::int64_t>(i);
    const Schedule schedule = testing::MakePoolSchedule("vdnn++", graph, options).value();
    const auto run = std::find_if(schedule.steps.begin(), schedule.steps.end(),
                                  [](const auto& step) { return step.kind == StepKind::kRun; });
    EXPECT_EQ(run->algorithm, i);
  }
}

TEST(OffloadPolicy, AMemoryBelowATaskIsRefusedWithTheTask) {
  const TaskGraph graph = SmallBatch("alexnet", 128);
  testing::PoolPolicy options = Plenty();
  options.machine.memory() = std::int64_t{300} << 20;
  for (const char* policy : {"none", "vdnn", "vdnn++"}) {
    const absl::Status status = testing::MakePoolSchedule(policy, graph, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(
        status.message(),
        "task 'conv1.forward' alone needs 693.2 MiB (726861312 bytes), with the weights of the "
        "graph, 475.9 MiB; the memory has 300.0 MiB (314572800 bytes)");
  }
}

TEST(OffloadPolicy, DensitiesAreChecked) {
  const TaskGraph graph = SmallBatch("alexnet");
  testing::PoolPolicy options = Plenty();
  options.densities = {0.5};
  EXPECT_THAT(testing::MakePoolSchedule("vdnn++", graph, options).status().message(),
              HasSubstr("1 densities, expected"));
  options.densities.assign(graph.data.size(), 0.5);
  options.densities[3] = 1.5;
  EXPECT_THAT(testing::MakePoolSchedule("vdnn++", graph, options).status().message(),
              AllOf(HasSubstr(graph.data[3].name), HasSubstr("expected 0 to 1")));
}

TEST(OffloadPolicy, AlignmentsAreChecked) {
  const TaskGraph graph = SmallBatch("alexnet");
  testing::PoolPolicy options = Plenty();
  for (const std::int64_t alignment :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{-512}, std::int64_t{3},
        std::int64_t{1} << 31, std::int64_t{1} << 62}) {
    options.machine.placing.alignment = alignment;
    const absl::Status status = testing::MakePoolSchedule("vdnn++", graph, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << alignment;
    EXPECT_THAT(status.message(), HasSubstr("expected a power of two up to 1073741824"));
  }
}

TEST(OffloadPolicy, ErrorsShowNamesOnOneLine) {
  TaskGraph graph = SmallBatch("alexnet");
  for (GraphTask& task : graph.tasks) task.name = "\n\x1b" + task.name;
  EXPECT_THAT(testing::MakePoolSchedule("vdnn++", graph, {}).status().message(),
              HasSubstr("task '\\n\\x1b"));
  EXPECT_THAT(testing::MakePoolSchedule("\n", graph, {}).status().message(), HasSubstr("'\\n'"));
}

// The host has room enough only for compressed data, and without offloads the device has too
// little.
TEST(OffloadPolicy, CompressesWhereNothingElseFits) {
  const TaskGraph graph = SmallBatch("vgg-16", 64);
  testing::PoolPolicy options = Plenty();
  options.set = OffloadSet::kAll;
  options.algorithms = AlgorithmChoice::kLeastMemory;
  options.machine.placing.placement = "planned";
  const Timeline plenty =
      Simulate(graph, testing::MakePoolSchedule("vdnn++", graph, options).value(), options.machine)
          .value();
  options.machine.memory() = plenty.pool_bytes;
  options.machine.host_memory() = plenty.peak_host_bytes / 5;
  const Schedule raw = testing::MakePoolSchedule("vdnn++", graph, options).value();
  ASSERT_EQ(Simulate(graph, raw, options.machine).status().code(),
            absl::StatusCode::kResourceExhausted);
  options.densities.assign(graph.data.size(), 0.1);
  const absl::StatusOr<Schedule> compressed = testing::MakePoolSchedule("vdnn++", graph, options);
  ASSERT_TRUE(compressed.ok()) << compressed.status();
  EXPECT_TRUE(Simulate(graph, *compressed, options.machine).ok());
  options.machine.host_memory() = 0;
  EXPECT_EQ(testing::MakePoolSchedule("vdnn++", graph, options).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// On a quick link compression takes longer than the copy.
TEST(OffloadPolicy, CompressesNoMoreThanThereIsTimeFor) {
  const TaskGraph graph = SmallBatch("vgg-16", 64);
  testing::PoolPolicy options = Plenty();
  options.set = OffloadSet::kAll;
  options.machine.SetRate(5e10);
  Schedule all = testing::MakePoolSchedule("vdnn++", graph, options).value();
  const double raw_seconds = Simulate(graph, all, options.machine).value().seconds;
  for (ScheduleStep& step : all.steps) {
    const bool is_offload = step.kind == StepKind::kOffload;
    if (is_offload && !schedule::HostMayRead(graph.data[step.index])) step.density = 0.3;
  }
  ASSERT_GT(Simulate(graph, all, options.machine).value().seconds, raw_seconds * 1.01);
  options.densities.assign(graph.data.size(), 0.3);
  const Schedule chosen = testing::MakePoolSchedule("vdnn++", graph, options).value();
  EXPECT_LE(Simulate(graph, chosen, options.machine).value().seconds, raw_seconds * 1.01);
}

TEST(OffloadPolicy, CompressesWhatSavesMemoryAndDelaysNothing) {
  const TaskGraph graph = SmallBatch("vgg16", 64);
  testing::PoolPolicy options = Plenty();
  options.set = OffloadSet::kAll;
  options.machine.SetRate(1e9);
  const Schedule raw = testing::MakePoolSchedule("vdnn++", graph, options).value();
  options.densities.assign(graph.data.size(), 0.3);
  const Schedule compressed = testing::MakePoolSchedule("vdnn++", graph, options).value();
  options.densities.assign(graph.data.size(), 1);
  EXPECT_EQ(testing::MakePoolSchedule("vdnn++", graph, options).value(), raw)
      << "dense data is left as it is";
  const Timeline before = Simulate(graph, raw, options.machine).value();
  const Timeline after = Simulate(graph, compressed, options.machine).value();
  EXPECT_LT(after.peak_host_bytes, before.peak_host_bytes / 2);
  EXPECT_LT(after.seconds, before.seconds * 1.02);
}

TEST(OffloadPolicy, LayersWithoutNamesAreFoundByTheirInputs) {
  TaskGraph graph = SmallBatch("vgg16");
  const Schedule named = testing::MakePoolSchedule("vdnn++", graph, Plenty()).value();
  for (GraphTask& task : graph.tasks) task.layer.clear();
  const Schedule nameless = testing::MakePoolSchedule("vdnn++", graph, Plenty()).value();
  EXPECT_EQ(DataOf(graph, nameless, StepKind::kPrefetch),
            DataOf(graph, named, StepKind::kPrefetch));
  // Its loss has no forward layer, and without names that is not seen: it fetches one earlier.
  EXPECT_NEAR(Simulate(graph, nameless, Plenty().machine)->seconds /
                  Simulate(graph, named, Plenty().machine)->seconds,
              1, 0.01);
}

}  // namespace
}  // namespace tidepool
