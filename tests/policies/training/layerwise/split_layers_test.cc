// SPDX-License-Identifier: Apache-2.0
// vDNN and vDNN++ move the same data whether a layer has one backward task or two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "policies/training/layerwise/layers.h"
#include "tests/support/paper_models.h"
#include "tests/support/pool_schedule.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using layerwise::Layer;
using layerwise::Layers;
using layerwise::LayersOf;

// Returns the names of layers from the last to the first, each with its forward layer.
std::vector<std::pair<std::string, std::string>> BackwardLayers(const TaskGraph& graph) {
  const Layers layers = LayersOf(graph);
  std::vector<std::pair<std::string, std::string>> names;
  for (const Layer& layer : layers.backward) {
    const bool has_forward = layer.forward != layerwise::kNone;
    names.emplace_back(graph.tasks[layer.head].layer,
                       has_forward ? graph.tasks[layers.forward[layer.forward].head].layer : "");
  }
  return names;
}

// Returns the copies of a schedule and the layers of its tasks, in order.
std::vector<std::string> Moves(const TaskGraph& graph, const std::string& policy) {
  testing::PoolPolicy options;
  options.set = OffloadSet::kAll;
  options.machine.memory() = std::int64_t{1} << 40;
  const Schedule schedule = testing::MakePoolSchedule(policy, graph, options).value();
  std::vector<std::string> moves;
  for (const ScheduleStep& step : schedule.steps) {
    std::string move;
    if (step.kind == StepKind::kOffload) move = "out " + graph.data[step.index].name;
    if (step.kind == StepKind::kPrefetch) move = "in " + graph.data[step.index].name;
    if (step.kind == StepKind::kRun && graph.tasks[step.index].phase != TaskPhase::kUpdate) {
      move = graph.tasks[step.index].layer;
    }
    if (!move.empty() && (moves.empty() || moves.back() != move)) moves.push_back(move);
  }
  return moves;
}

TEST(SplitLayers, AreTheLayersOfFusedTasks) {
  for (const char* name : {"alexnet", "vgg-16", "resnet-50", "googlenet", "gpt2-small"}) {
    const TaskGraph fused = MakeModel(name, testing::PaperModel(4)).value();
    ModelOptions options = testing::PaperModel(4);
    options.backward = BackwardTasks::kSplit;
    const TaskGraph temporary = MakeModel(name, options).value();
    options.weight_gradients = WeightGradients::kResident;
    const TaskGraph resident = MakeModel(name, options).value();
    EXPECT_EQ(BackwardLayers(temporary), BackwardLayers(fused)) << name;
    EXPECT_EQ(BackwardLayers(resident), BackwardLayers(fused)) << name;
    for (const char* policy : {"vdnn", "vdnn++"}) {
      EXPECT_EQ(Moves(temporary, policy), Moves(fused, policy)) << name;
      EXPECT_EQ(Moves(resident, policy), Moves(fused, policy)) << name;
    }
  }
}

// Gradients of weights and the state of the optimizer have memory from the first step to the last.
TEST(SplitLayers, DataThatStaysIsAllocatedFirstAndNeverFreed) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 4, .optimizer = Optimizer::kAdam}).value();
  testing::PoolPolicy options;
  options.machine.memory() = std::int64_t{1} << 40;
  for (const char* policy : testing::kLayerwisePolicies) {
    const Schedule schedule = testing::MakePoolSchedule(policy, graph, options).value();
    EXPECT_EQ(ValidateSchedule(graph, schedule), absl::OkStatus());
    std::size_t staying = 0;
    for (const GraphData& data : graph.data) staying += ExistsAfter(data) ? 1 : 0;
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const ScheduleStep& step = schedule.steps[i];
      if (step.kind == StepKind::kRun || !ExistsAfter(graph.data[step.index])) continue;
      EXPECT_EQ(step.kind, StepKind::kAllocate);
      EXPECT_LT(i, staying);
    }
  }
}

// An optimizer that makes temporary data frees it before it makes more.
TEST(SplitLayers, UpdatesThatWriteAreLayersOfTheirOwn) {
  const auto task = [](const std::string& name, TaskPhase phase, std::vector<std::size_t> reads,
                       std::vector<std::size_t> writes, std::vector<std::size_t> updates) {
    return GraphTask{.name = name,
                     .phase = phase,
                     .reads = std::move(reads),
                     .writes = std::move(writes),
                     .updates = std::move(updates),
                     .algorithms = {{"only", 1e-3}}};
  };
  TaskGraph graph;
  graph.data = {{"weight", 512, DataKind::kWeight},
                {"y", 512, DataKind::kActivation},
                {"gradient", 512, DataKind::kWeightGradient},
                {"root", 1024, DataKind::kGradient},
                {"quotient", 1024, DataKind::kGradient}};
  graph.tasks = {task("forward", TaskPhase::kForward, {0}, {1}, {}),
                 task("backward", TaskPhase::kBackward, {1}, {2}, {}),
                 task("decay", TaskPhase::kUpdate, {}, {}, {0}),
                 task("root", TaskPhase::kUpdate, {2}, {3}, {}),
                 task("add", TaskPhase::kUpdate, {}, {}, {3}),
                 task("divide", TaskPhase::kUpdate, {3}, {4}, {}),
                 task("update", TaskPhase::kUpdate, {4}, {}, {0})};
  ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
  std::vector<std::pair<std::size_t, std::size_t>> backward;
  for (const Layer& layer : LayersOf(graph).backward) backward.emplace_back(layer.begin, layer.end);
  const std::vector<std::pair<std::size_t, std::size_t>> expected = {{1, 3}, {3, 5}, {5, 7}};
  EXPECT_EQ(backward, expected);
}

}  // namespace
}  // namespace tidepool
