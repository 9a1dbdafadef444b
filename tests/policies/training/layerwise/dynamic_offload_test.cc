// SPDX-License-Identifier: Apache-2.0
// The dynamic offload mode: no more leaves than the memory asks for, and more memory is never
// slower. And the layers of `all`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "policies/training/layerwise/layers.h"
#include "policies/training/layerwise/layerwise.h"
#include "policies/training/layerwise/peak_live.h"
#include "tests/support/pool_schedule.h"
#include "tests/support/rounds.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using layerwise::LayerwiseMode;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kDoesNotFit = std::numeric_limits<double>::infinity();

testing::PoolPolicy Planned(OffloadSet set, double gib) {
  testing::PoolPolicy options;
  options.set = set;
  options.machine.placing.placement = "planned";
  options.machine.memory() = static_cast<std::int64_t>(gib * kGiB);
  return options;
}

double SecondsOf(const std::string& policy, const TaskGraph& graph,
                 const testing::PoolPolicy& options) {
  const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule(policy, graph, options);
  if (!schedule.ok()) return kDoesNotFit;
  const absl::StatusOr<Timeline> timeline = Simulate(graph, *schedule, options.machine);
  return timeline.ok() ? timeline->seconds : kDoesNotFit;
}

// A chain of layers with an input and a weight each, and its backward pass.
TaskGraph Chain(int layers, const std::string& operation) {
  TaskGraph graph;
  graph.name = operation;
  constexpr std::int64_t kBytes = std::int64_t{1} << 24;
  graph.data.push_back({"x0", kBytes, DataKind::kInput});
  for (int i = 0; i < layers; ++i) {
    graph.data.push_back({absl::StrCat("x", i + 1), kBytes, DataKind::kActivation});
    graph.tasks.push_back({.name = absl::StrCat("f", i),
                           .layer = absl::StrCat("l", i),
                           .operation = operation,
                           .reads = {static_cast<std::size_t>(i)},
                           .writes = {static_cast<std::size_t>(i) + 1},
                           .algorithms = {{"only", 0.01, 0}}});
  }
  std::size_t gradient = graph.data.size();
  graph.data.push_back({"d", kBytes, DataKind::kGradient});
  graph.tasks.push_back({.name = "loss",
                         .phase = TaskPhase::kBackward,
                         .reads = {static_cast<std::size_t>(layers)},
                         .writes = {gradient},
                         .algorithms = {{"only", 0.01, 0}}});
  for (int i = layers - 1; i >= 0; --i) {
    graph.data.push_back({absl::StrCat("d", i), kBytes, DataKind::kGradient});
    graph.tasks.push_back({.name = absl::StrCat("b", i),
                           .layer = absl::StrCat("l", i),
                           .operation = operation,
                           .phase = TaskPhase::kBackward,
                           .reads = {static_cast<std::size_t>(i), gradient},
                           .writes = {gradient + 1},
                           .algorithms = {{"only", 0.01, 0}}});
    ++gradient;
  }
  return graph;
}

TEST(OffloadAll, ChainsOfLinearLayersLeaveAsThoseOfConvolutionsDo) {
  const TaskGraph convolutions = Chain(40, "conv");
  const TaskGraph linear = Chain(40, "linear");
  ASSERT_EQ(ValidateGraph(linear), absl::OkStatus());
  for (const char* policy : {"vdnn", "vdnn++"}) {
    const double expected = SecondsOf(policy, convolutions, Planned(OffloadSet::kAll, 0.2));
    ASSERT_NE(expected, kDoesNotFit);
    EXPECT_EQ(SecondsOf(policy, linear, Planned(OffloadSet::kAll, 0.2)), expected);
  }
}

// The papers keep the data between the linear layers that follow the convolutions.
TEST(OffloadAll, ClassifiersOfConvolutionalNetworksStay) {
  TaskGraph graph = Chain(6, "linear");
  graph.tasks[1].operation = "conv";
  graph.tasks[4].operation = "relu";
  const Schedule schedule =
      testing::MakePoolSchedule("vdnn++", graph, Planned(OffloadSet::kAll, 1)).value();
  std::vector<std::string> leaving;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == StepKind::kOffload) leaving.push_back(graph.data[step.index].name);
  }
  EXPECT_THAT(leaving, ::testing::ElementsAre("x0", "x1", "x2", "x4", "x5"));
}

// Without offloads 17.8 GiB are needed. The bytes that are missing take 0.03 s each way at 12 GB/s.
TEST(DynamicOffload, ALittleMissingMemoryCostsALittleTime) {
  const ModelOptions options = {.batch = 8, .gpu = "h200", .inputs = DataHome::kDevice};
  const TaskGraph graph = MakeModel("gpt2-medium", options).value();
  const double ideal = TotalsOf(graph).least_seconds;
  EXPECT_EQ(SecondsOf("none", graph, Planned(OffloadSet::kDynamic, 17.5)), kDoesNotFit);
  EXPECT_NEAR(SecondsOf("vdnn++", graph, Planned(OffloadSet::kDynamic, 18)), ideal, 1e-9);
  EXPECT_LT(SecondsOf("vdnn++", graph, Planned(OffloadSet::kDynamic, 17.5)), 3 * ideal);
  EXPECT_GT(SecondsOf("vdnn++", graph, Planned(OffloadSet::kAll, 17.5)), 35 * ideal);
}

struct Sweep {
  const char* model;
  std::int64_t batch;
  const char* gpu;
  double least_gib;
  double most_gib;
};

class DynamicOffloads : public ::testing::TestWithParam<Sweep> {};

TEST_P(DynamicOffloads, AreNeverSlowerWithMoreMemory) {
  const Sweep& sweep = GetParam();
  const TaskGraph graph = MakeModel(sweep.model, {.batch = sweep.batch, .gpu = sweep.gpu}).value();
  const int points = testing::Rounds(12);
  for (const char* policy : {"none", "vdnn", "vdnn++"}) {
    for (const double link : testing::Cases({12e9, 4e9, 48e9})) {
      double slowest = kDoesNotFit;
      for (int i = 0; i <= points; ++i) {
        testing::PoolPolicy options =
            Planned(OffloadSet::kDynamic,
                    sweep.least_gib + (sweep.most_gib - sweep.least_gib) * i / std::max(points, 1));
        options.machine.SetRate(link);
        const double seconds = SecondsOf(policy, graph, options);
        EXPECT_LE(seconds, slowest * (1 + 1e-9))
            << policy << " " << link << " " << options.machine.memory();
        slowest = seconds;
      }
      EXPECT_NE(slowest, kDoesNotFit);
    }
  }
}

// The modes of the papers: a set as a whole, or no offload.
TEST_P(DynamicOffloads, AreNeverSlowerThanWholeSets) {
  const Sweep& sweep = GetParam();
  const TaskGraph graph = MakeModel(sweep.model, {.batch = sweep.batch, .gpu = sweep.gpu}).value();
  for (const char* policy : {"vdnn", "vdnn++"}) {
    for (const char* placement : {"planned", "best-fit"}) {
      const int points = testing::Rounds(4);
      for (int i = 0; i < points; ++i) {
        const double share = 0.1 + 0.85 * i / points;
        testing::PoolPolicy options = Planned(
            OffloadSet::kDynamic, sweep.least_gib + (sweep.most_gib - sweep.least_gib) * share);
        options.machine.placing.placement = placement;
        const double dynamic = SecondsOf(policy, graph, options);
        EXPECT_LE(dynamic, SecondsOf("none", graph, options)) << policy << " " << share;
        for (const OffloadSet set :
             {OffloadSet::kAll, OffloadSet::kConvolutions, OffloadSet::kAlternateConvolutions}) {
          for (const auto algorithms : {AlgorithmChoice::kFastest, AlgorithmChoice::kLeastMemory}) {
            options.set = set;
            options.algorithms = algorithms;
            EXPECT_LE(dynamic, SecondsOf(policy, graph, options) * (1 + 1e-9))
                << policy << " " << share;
          }
        }
        options.set = OffloadSet::kDynamic;
      }
    }
  }
}

// The search of whole sets bisects the limit of workspaces, so it finds at best these modes.
TEST(DynamicOffload, IsNeverSlowerThanWholeSetsWithAnyLimitOfWorkspaces) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 256, .gpu = "gtx-970"}).value();
  const layerwise::Layers layers = layerwise::LayersOf(graph);
  std::set<std::int64_t> limits = {0};
  for (const GraphTask& task : graph.tasks) {
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      limits.insert(algorithm.workspace_bytes);
    }
  }
  ASSERT_GT(limits.size(), 5);
  int compared = 0;
  for (const double gib : {1.0, 1.2, 1.4, 1.7, 2.2}) {
    const testing::PoolPolicy options = Planned(OffloadSet::kDynamic, gib);
    const double dynamic = SecondsOf("vdnn++", graph, options);
    for (const OffloadSet set :
         {OffloadSet::kAll, OffloadSet::kConvolutions, OffloadSet::kAlternateConvolutions}) {
      for (const std::int64_t limit : limits) {
        const Schedule whole = MakeLayerwise(graph, layers, {.set = set, .most_workspace = limit});
        const absl::StatusOr<Timeline> timeline = Simulate(graph, whole, options.machine);
        if (!timeline.ok()) continue;
        ++compared;
        EXPECT_LE(dynamic, timeline->seconds * (1 + 1e-9)) << gib << " " << limit;
      }
    }
  }
  EXPECT_GT(compared, 50);
}

INSTANTIATE_TEST_SUITE_P(Networks, DynamicOffloads,
                         ::testing::Values(Sweep{"gpt2-medium", 8, "h200", 7, 20},
                                           Sweep{"vgg-16", 64, "gtx-1080-ti", 2, 8},
                                           Sweep{"resnet-50", 64, "gtx-1080-ti", 0.7, 5.5},
                                           Sweep{"alexnet", 256, "gtx-970", 0.9, 2.4},
                                           Sweep{"vit-b-16", 32, "a100", 1.5, 7}),
                         [](const auto& sweep) {
                           std::string name = sweep.param.model;
                           std::erase(name, '-');
                           return name;
                         });

// The bound is that of the trace in which offloads leave at once.
TEST(PeakLive, IsThatOfTheTrace) {
  for (const char* model : {"alexnet", "googlenet", "gpt2-small"}) {
    const TaskGraph graph = MakeModel(model, {.batch = 2}).value();
    const layerwise::Layers layers = layerwise::LayersOf(graph);
    for (const OffloadSet set : {OffloadSet::kAll, OffloadSet::kConvolutions}) {
      for (const bool synchronizes : {false, true}) {
        for (const int parts : {1, 17, 64}) {
          const Schedule schedule = MakeLayerwise(
              graph, layers, {.set = set, .parts = parts, .synchronizes = synchronizes});
          EXPECT_EQ(ValidateSchedule(graph, schedule), absl::OkStatus());
          const Trace trace = ScheduleTrace(graph, schedule, Leaving::kAtOnce).value();
          EXPECT_EQ(layerwise::PeakLive(graph, schedule, 512),
                    MeasureLoad(trace, 512)->peak_live_bytes);
        }
      }
    }
  }
}

// A share of p / 64 lacks at most the largest datum.
TEST(Shares, AreThoseOfTheirParts) {
  const TaskGraph graph = MakeModel("bert-base", {.batch = 2}).value();
  const layerwise::Layers layers = layerwise::LayersOf(graph);
  const auto bytes_of = [&](int parts) {
    double bytes = 0;
    for (const auto& data :
         LeavingAfter(graph, layers, LayerwiseMode{.set = OffloadSet::kAll, .parts = parts})) {
      for (const std::size_t one : data) bytes += static_cast<double>(graph.data[one].bytes);
    }
    return bytes;
  };
  double largest = 0;
  for (const GraphData& data : graph.data) {
    if (data.kind != DataKind::kActivation) continue;
    largest = std::max(largest, static_cast<double>(data.bytes));
  }
  const double all = bytes_of(64);
  ASSERT_GT(all, 5 * largest);
  for (int parts = 1; parts <= 64; ++parts) {
    EXPECT_LE(bytes_of(parts), all * parts / 64);
    EXPECT_GE(bytes_of(parts), all * parts / 64 - largest);
  }
}

}  // namespace
}  // namespace tidepool
