// SPDX-License-Identifier: Apache-2.0
// Types of a graph: homes, tasks that may run again, configurations, layer parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tidepool/training/graph.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x and w make y; y makes the gradient of w, which changes w and its momentum m.
TaskGraph Small() {
  TaskGraph graph;
  graph.batch = 4;
  graph.data = {{"x", 8, DataKind::kInput},
                {"w", 16, DataKind::kWeight},
                {"y", 32},
                {"dw", 16, DataKind::kWeightGradient},
                {"m", 16, DataKind::kOptimizerState}};
  graph.tasks = {
      {.name = "f", .reads = {0, 1}, .writes = {2}, .algorithms = {{"a", 1, 0}, {"b", 0.5, 64}}},
      {.name = "b",
       .phase = TaskPhase::kBackward,
       .reads = {0, 2},
       .writes = {3},
       .algorithms = {{"a", 1, 0}}},
      {.name = "u",
       .phase = TaskPhase::kUpdate,
       .reads = {3},
       .updates = {1, 4},
       .algorithms = {{"a", 1, 0}}}};
  return graph;
}

std::string ErrorOf(const TaskGraph& graph) { return std::string(ValidateGraph(graph).message()); }

TEST(GraphHomes, FollowFromTheKind) {
  const TaskGraph graph = Small();
  EXPECT_EQ(ErrorOf(graph), "");
  const auto is_at = [](const GraphData& data, DataHome before, DataHome after) {
    return data.before == before && data.after == after;
  };
  EXPECT_TRUE(is_at(graph.data[0], DataHome::kDevice, DataHome::kNowhere));
  EXPECT_TRUE(is_at(graph.data[1], DataHome::kDevice, DataHome::kDevice));
  EXPECT_TRUE(is_at(graph.data[2], DataHome::kNowhere, DataHome::kNowhere));
  EXPECT_TRUE(is_at(graph.data[3], DataHome::kNowhere, DataHome::kNowhere));
  EXPECT_TRUE(is_at(graph.data[4], DataHome::kDevice, DataHome::kDevice));
}

TEST(GraphHomes, MayBeOnTheHost) {
  TaskGraph graph = Small();
  graph.data[0].before = DataHome::kHost;
  graph.data[1].before = graph.data[1].after = DataHome::kHost;
  graph.data[4].before = graph.data[4].after = DataHome::kHost;
  EXPECT_EQ(ErrorOf(graph), "");
  // A result for the host.
  graph.data[2].after = DataHome::kHost;
  EXPECT_EQ(ErrorOf(graph), "");
}

TEST(GraphHomes, OfAWeightAreTheSameBeforeAndAfter) {
  TaskGraph graph = Small();
  graph.data[1].after = DataHome::kHost;
  EXPECT_EQ(ErrorOf(graph),
            "data 'w' of the kind weight is at home device before the iteration and host after it, "
            "expected the home before also after");
  graph.data[1].after = DataHome::kNowhere;
  EXPECT_THAT(ErrorOf(graph), HasSubstr("and nowhere after it"));
  graph.data[1].before = DataHome::kNowhere;
  EXPECT_THAT(ErrorOf(graph), HasSubstr("expected device or host before"));
}

TEST(GraphHomes, OfDataThatATaskWritesAreNowhereBefore) {
  TaskGraph graph = Small();
  graph.data[2].before = graph.data[2].after = DataHome::kDevice;
  EXPECT_EQ(ErrorOf(graph),
            "task 'f': it writes 'y', which is of the kind activation and exists before the "
            "iteration, expected an update instead");
  // State that lives through iterations is updated.
  graph.tasks[0].writes = {};
  graph.tasks[0].updates = {2};
  EXPECT_EQ(ErrorOf(graph), "");
}

TEST(GraphHomes, WeightGradientsMayStay) {
  TaskGraph graph = Small();
  graph.data[3].before = graph.data[3].after = DataHome::kDevice;
  EXPECT_EQ(ErrorOf(graph), "");
  graph.tasks[1].writes = {};
  graph.tasks[1].updates = {3};
  EXPECT_EQ(ErrorOf(graph), "");
  graph.data[3].before = graph.data[3].after = DataHome::kNowhere;
  EXPECT_THAT(ErrorOf(graph), HasSubstr("'dw' is written by no task"));
}

TEST(GraphHomes, DataThatStaysNeedsNoReader) {
  TaskGraph graph = Small();
  graph.data.push_back({"loss", 4});
  graph.tasks[0].writes.push_back(5);
  EXPECT_THAT(ErrorOf(graph), HasSubstr("'loss' is read and updated by no task"));
  graph.data[5].after = DataHome::kHost;
  EXPECT_EQ(ErrorOf(graph), "");
}

TEST(GraphTypes, UnknownValuesAreRefused) {
  TaskGraph graph = Small();
  graph.data[0].before = static_cast<DataHome>(9);
  EXPECT_THAT(ErrorOf(graph), HasSubstr("unknown home"));
  graph = Small();
  graph.data[0].type = static_cast<DataType>(99);
  EXPECT_THAT(ErrorOf(graph), HasSubstr("unknown type"));
  graph = Small();
  graph.tasks[0].compute_type = static_cast<DataType>(99);
  EXPECT_THAT(ErrorOf(graph), HasSubstr("unknown type of numbers"));
  graph = Small();
  graph.tasks[1].gradients = static_cast<TaskGradients>(9);
  EXPECT_THAT(ErrorOf(graph), HasSubstr("unknown gradients"));
}

TEST(GraphTypes, OnlyBackwardTasksComputeGradients) {
  TaskGraph graph = Small();
  graph.tasks[1].gradients = TaskGradients::kWeights;
  EXPECT_EQ(ErrorOf(graph), "");
  graph.tasks[0].gradients = TaskGradients::kData;
  EXPECT_EQ(ErrorOf(graph),
            "task 'f': it computes gradients of data in the phase forward, expected the phase "
            "backward");
}

TEST(GraphTypes, TasksThatMayRunAgainUpdateNothing) {
  TaskGraph graph = Small();
  graph.tasks[0].may_rerun = graph.tasks[1].may_rerun = true;
  EXPECT_EQ(ErrorOf(graph), "");
  graph.tasks[0].updates = {4};
  EXPECT_THAT(ErrorOf(graph), HasSubstr("task 'f': it may run again and updates data in place"));
  graph = Small();
  graph.tasks[2].may_rerun = true;
  EXPECT_THAT(ErrorOf(graph), HasSubstr("task 'u': it may run again and is an update"));
}

TEST(Configurations, TakeTheSumOfTimesAndTheLargestWorkspace) {
  const absl::StatusOr<TaskAlgorithm> made =
      MakeConfiguration("2 x b, a", {{"b", 0.5, 64}, {"b", 0.5, 64}, {"a", 2, 16}}, {1, 1, 2});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->name, "2 x b, a");
  EXPECT_EQ(made->seconds, 3);
  EXPECT_EQ(made->workspace_bytes, 64);
  EXPECT_THAT(made->micro_batches,
              ElementsAre(MicroBatch{"b", 1}, MicroBatch{"b", 1}, MicroBatch{"a", 2}));
  TaskGraph graph = Small();
  graph.tasks[0].algorithms.push_back(*made);
  EXPECT_EQ(ErrorOf(graph), "");
}

TEST(Configurations, NeedMicroBatches) {
  EXPECT_THAT(std::string(MakeConfiguration("c", {}, {}).status().message()),
              HasSubstr("at least one"));
  EXPECT_THAT(std::string(MakeConfiguration("c", {{"a", 1, 0}}, {1, 2}).status().message()),
              HasSubstr("as many of both"));
  EXPECT_THAT(std::string(MakeConfiguration("c", {{"a", 1, 0}}, {0}).status().message()),
              HasSubstr("a micro-batch of 0 samples, expected 1 or more"));
}

TEST(Configurations, SumToTheBatch) {
  TaskGraph graph = Small();
  std::vector<MicroBatch>& parts = graph.tasks[0].algorithms[1].micro_batches;
  parts = {{"a", 3}, {"a", 1}};
  EXPECT_EQ(ErrorOf(graph), "");
  parts = {{"a", 3}};
  EXPECT_EQ(
      ErrorOf(graph),
      "task 'f': the micro-batches of configuration 'b' have 3 samples together, expected the "
      "batch of 4");
  parts = {{"a", 3}, {"a", 2}};
  EXPECT_THAT(ErrorOf(graph), HasSubstr("a micro-batch of 2 samples where 1 of the batch of 4 are "
                                        "left, expected 1 or more that sum to the batch"));
  parts = {{"a", 4}, {"a", 0}};
  EXPECT_THAT(ErrorOf(graph), HasSubstr("a micro-batch of 0 samples"));
  parts = {{"a", INT64_MAX}, {"a", INT64_MAX}};
  EXPECT_THAT(ErrorOf(graph), HasSubstr("where 4 of the batch of 4 are left"));
  parts = {{"", 4}};
  EXPECT_THAT(ErrorOf(graph), HasSubstr("expected a name in UTF-8"));
}

TEST(LayerParameters, HaveBounds) {
  TaskGraph graph = Small();
  ConvolutionParameters convolution = {.n = 4, .c = 6, .h = 5, .w = 5, .k = 4, .r = 3, .s = 3};
  const auto error = [&](const LayerParameters& parameters) {
    graph.tasks[0].parameters = parameters;
    return ErrorOf(graph);
  };
  EXPECT_EQ(error(convolution), "");
  convolution.groups = 2;
  EXPECT_EQ(error(convolution), "");
  convolution.groups = 3;
  EXPECT_EQ(error(convolution), "task 'f': k of a convolution is 4, expected a multiple of 3");
  convolution.groups = 0;
  EXPECT_EQ(error(convolution),
            "task 'f': groups of convolution parameters is 0, expected 1 to 2^40");
  EXPECT_THAT(error(LinearParameters{.n = 4, .inputs = 2, .outputs = kMostLayerNumber + 1}),
              HasSubstr("outputs of linear parameters is 1099511627777, expected 1 to 2^40"));
  EXPECT_THAT(error(LinearParameters{.n = -1, .inputs = 2, .outputs = 2}),
              HasSubstr("n of linear parameters is -1, expected 0 to 2^40"));
  EXPECT_THAT(error(LinearParameters{.n = 4, .inputs = 2, .outputs = 2, .bias = 2}),
              HasSubstr("bias of linear parameters is 2, expected 0 to 1"));
  EXPECT_THAT(error(PoolingParameters{.n = 4, .c = 1, .h = 2, .w = 2}),
              HasSubstr("r of pooling parameters is 0"));
  EXPECT_THAT(error(NormalizationParameters{.n = 4, .c = 5, .h = 1, .w = 1, .groups = 2}),
              HasSubstr("c of a normalization is 5, expected a multiple of 2"));
  EXPECT_THAT(error(AttentionParameters{
                  .n = 4, .heads = 4, .key_heads = 3, .queries = 1, .keys = 1, .features = 1}),
              HasSubstr("heads of attention is 4, expected a multiple of 3"));
  EXPECT_EQ(error(ElementwiseParameters{.n = 4, .elements = 10}), "");
  EXPECT_EQ(error(MatrixProductParameters{.n = 4, .rows = 1, .inner = 1, .columns = 1}), "");
  EXPECT_EQ(error(EmbeddingParameters{.n = 4, .vocabulary = 10, .features = 2}), "");
  EXPECT_EQ(error(RecurrentParameters{.n = 4, .steps = 1, .inputs = 2, .hidden = 2}), "");
}

TEST(LayerParameters, HaveNames) {
  EXPECT_EQ(LayerParametersName({}), "unknown");
  EXPECT_EQ(LayerParametersName(ConvolutionParameters{}), "convolution");
  EXPECT_EQ(LayerParametersName(RecurrentParameters{}), "recurrent");
  EXPECT_EQ(DataTypeName(DataType::kBfloat16), "bfloat16");
  EXPECT_EQ(DataHomeName(DataHome::kNowhere), "nowhere");
  EXPECT_EQ(DataKindName(DataKind::kOptimizerState), "optimizer-state");
  EXPECT_EQ(TaskGradientsName(TaskGradients::kWeights), "weights");
}

}  // namespace
}  // namespace tidepool
