// SPDX-License-Identifier: Apache-2.0
// The backward pass of the zoo's networks: gradients of weights and of data as tasks of their own
// or as one, and updates at the end or at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/support/paper_models.h"
#include "tests/training/models/made_model.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

std::int64_t Count(const TaskGraph& graph, const std::string& operation, TaskPhase phase,
                   TaskGradients gradients) {
  return std::ranges::count_if(graph.tasks, [&](const GraphTask& task) {
    return task.operation == operation && task.phase == phase && task.gradients == gradients;
  });
}

TEST(SplitBackward, ResNet50Has159ConvolutionKernels) {
  const TaskGraph graph = Made("resnet-50", {.batch = 1, .input_gradient = true});
  EXPECT_EQ(Count(graph, "conv", TaskPhase::kForward, TaskGradients::kAll), 53);
  EXPECT_EQ(Count(graph, "conv", TaskPhase::kBackward, TaskGradients::kWeights), 53);
  EXPECT_EQ(Count(graph, "conv", TaskPhase::kBackward, TaskGradients::kData), 53);
  EXPECT_EQ(Count(graph, "conv", TaskPhase::kBackward, TaskGradients::kAll), 0);
}

// Training needs no gradient of the image.
TEST(SplitBackward, TheFirstConvolutionHasNoGradientOfDataByDefault) {
  const TaskGraph graph = Made("resnet-50", {.batch = 1});
  EXPECT_EQ(Count(graph, "conv", TaskPhase::kBackward, TaskGradients::kWeights), 53);
  EXPECT_EQ(Count(graph, "conv", TaskPhase::kBackward, TaskGradients::kData), 52);
}

// micro-cuDNN (Oyama et al., CLUSTER 2018) counts 15.
TEST(SplitBackward, AlexNetHas15ConvolutionKernels) {
  const TaskGraph graph = Made("alexnet", {.batch = 1, .input_gradient = true});
  EXPECT_EQ(std::ranges::count_if(graph.tasks,
                                  [](const GraphTask& task) {
                                    return task.operation == "conv" &&
                                           task.phase != TaskPhase::kUpdate;
                                  }),
            15);
}

TEST(SplitBackward, TokensHaveNoGradient) {
  EXPECT_EQ(Made("gpt2-small", {.batch = 1, .input_gradient = true}),
            Made("gpt2-small", {.batch = 1}));
}

TEST(SplitBackward, ResNet152HasFifteenHundredTasksOrMore) {
  const std::size_t tasks = Made("resnet-152", {.batch = 1}).tasks.size();
  EXPECT_GE(tasks, 1400);
  EXPECT_LE(tasks, 2100);
}

class EveryBackward : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Zoo, EveryBackward, ::testing::ValuesIn(KnownModels()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(EveryBackward, UpdatesComeAtTheEnd) {
  const TaskGraph graph = Made(GetParam(), {.batch = 2});
  EXPECT_TRUE(std::ranges::is_sorted(graph.tasks, {}, &GraphTask::phase));
}

TEST_P(EveryBackward, TemporaryGradientsAreUsedUpAtOnce) {
  for (const BackwardTasks backward : {BackwardTasks::kSplit, BackwardTasks::kFused}) {
    const TaskGraph graph =
        Made(GetParam(),
             {.batch = 2, .backward = backward, .weight_gradients = WeightGradients::kTemporary});
    for (std::size_t i = 1; i < graph.tasks.size(); ++i) {
      if (graph.tasks[i].phase != TaskPhase::kUpdate) continue;
      EXPECT_EQ(graph.tasks[i].layer, graph.tasks[i - 1].layer);
    }
  }
}

// The data that the tasks of a layer use together, and their times without workspaces.
struct LayerUse {
  std::set<std::string> reads;
  std::set<std::string> changes;
  double least_workspace_seconds = 0;

  friend bool operator==(const LayerUse&, const LayerUse&) = default;
};

std::map<std::string, LayerUse> BackwardUses(const TaskGraph& graph) {
  std::map<std::string, LayerUse> layers;
  for (const GraphTask& task : graph.tasks) {
    if (task.phase != TaskPhase::kBackward) continue;
    LayerUse& layer = layers[task.layer];
    layer.reads.merge(NamesOf(graph, task.reads));
    layer.changes.merge(NamesOf(graph, task.writes));
    layer.changes.merge(NamesOf(graph, task.updates));
    layer.least_workspace_seconds += task.algorithms.front().seconds - 5e-6;
  }
  return layers;
}

TEST_P(EveryBackward, BothTasksUseWhatTheFusedTaskUses) {
  const auto split = BackwardUses(Made(GetParam(), {.batch = 2}));
  const auto fused =
      BackwardUses(Made(GetParam(), {.batch = 2, .backward = BackwardTasks::kFused}));
  ASSERT_EQ(split.size(), fused.size());
  for (const auto& [name, layer] : fused) {
    EXPECT_EQ(split.at(name).reads, layer.reads) << name;
    EXPECT_EQ(split.at(name).changes, layer.changes) << name;
    EXPECT_NEAR(split.at(name).least_workspace_seconds, layer.least_workspace_seconds, 1e-12);
  }
}

// moDNN (Chen et al., TPDS 2019): BP1(l - 1) reads the weights of layer l last, before the update.
TEST_P(EveryBackward, GradientsOfDataReadWeightsLast) {
  const TaskGraph graph = Made(GetParam(), {.batch = 2});
  std::map<std::size_t, const GraphTask*> last;
  for (const GraphTask& task : graph.tasks) {
    if (task.phase == TaskPhase::kUpdate) continue;
    for (const std::size_t data : task.reads) last[data] = &task;
  }
  for (const GraphTask& task : graph.tasks) {
    if (task.gradients != TaskGradients::kData) continue;
    for (const std::size_t data : task.reads) {
      if (graph.data[data].kind != DataKind::kWeight) continue;
      // A language model's last layer shares its weights with the first.
      if (task.layer == "head") continue;
      EXPECT_EQ(last[data], &task) << task.name;
    }
  }
}

TEST(SplitBackward, FusedTasksHaveNoGradientOfTheInput) {
  const absl::StatusOr<TaskGraph> graph = MakeModel(
      "resnet-18", {.batch = 1, .backward = BackwardTasks::kFused, .input_gradient = true});
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(graph.status().message()), ::testing::HasSubstr("expected split ones"));
}

TEST(SplitBackward, FusedTasksHaveNoParts) {
  const TaskGraph graph = Made("resnet-18", testing::PaperModel(2));
  for (const GraphTask& task : graph.tasks) {
    EXPECT_EQ(task.gradients, TaskGradients::kAll) << task.name;
  }
}

}  // namespace
}  // namespace tidepool
