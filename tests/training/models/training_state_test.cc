// SPDX-License-Identifier: Apache-2.0
// The parts of the zoo's graphs besides sizes and times: optimizer state, types of numbers, homes,
// labels, layers' numbers, and the tasks that may run again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "tests/support/paper_models.h"
#include "tests/training/models/made_model.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

const GraphData& DataOf(const TaskGraph& graph, const std::string& name) {
  static const GraphData none;
  for (const GraphData& data : graph.data) {
    if (data.name == name) return data;
  }
  ADD_FAILURE() << "no data " << name;
  return none;
}

// Weights that are learned, their gradients, and the optimizer's state.
std::int64_t StateBytes(const TaskGraph& graph) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) {
    const bool is_learned = data.kind == DataKind::kWeight && !data.name.ends_with(".running");
    if (is_learned || data.kind == DataKind::kWeightGradient ||
        data.kind == DataKind::kOptimizerState) {
      bytes += data.bytes;
    }
  }
  return bytes;
}

class EveryState : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Zoo, EveryState, ::testing::ValuesIn(KnownModels()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Adam with 16 bits takes 16 bytes a parameter: Rajbhandari et al., arXiv:1910.02054, section 3.1.
TEST_P(EveryState, BytesOfAParameterAreThoseKnown) {
  struct Case {
    Optimizer optimizer;
    Precision precision;
    std::int64_t bytes;
  };
  const std::int64_t parameters = *ModelParameters(GetParam());
  for (const Case& c : {Case{Optimizer::kGradientDescent, Precision::kFloat32, 8},
                        Case{Optimizer::kMomentum, Precision::kFloat32, 12},
                        Case{Optimizer::kAdam, Precision::kFloat32, 16},
                        Case{Optimizer::kGradientDescent, Precision::kFloat16, 8},
                        Case{Optimizer::kMomentum, Precision::kBfloat16, 12},
                        Case{Optimizer::kAdam, Precision::kFloat16, 16},
                        Case{Optimizer::kAdam, Precision::kBfloat16, 16}}) {
    const TaskGraph graph =
        Made(GetParam(), {.batch = 2, .optimizer = c.optimizer, .precision = c.precision});
    EXPECT_EQ(StateBytes(graph), c.bytes * parameters);
  }
}

TEST_P(EveryState, DataHasTypesAndHomes) {
  const TaskGraph graph = Made(GetParam(), {.batch = 2, .precision = Precision::kBfloat16});
  for (const GraphData& data : graph.data) {
    EXPECT_NE(data.type, DataType::kUnknown) << data.name;
    const bool stays = data.kind == DataKind::kWeight || data.kind == DataKind::kWeightGradient ||
                       data.kind == DataKind::kOptimizerState;
    const bool is_input = data.kind == DataKind::kInput;
    EXPECT_EQ(data.before, stays      ? DataHome::kDevice
                           : is_input ? DataHome::kHost
                                      : DataHome::kNowhere)
        << data.name;
    EXPECT_EQ(data.after, stays ? DataHome::kDevice : DataHome::kNowhere) << data.name;
  }
}

TEST_P(EveryState, WeightsMayLiveOnTheHost) {
  const TaskGraph graph = Made(GetParam(), {.batch = 2,
                                            .optimizer = Optimizer::kAdam,
                                            .inputs = DataHome::kDevice,
                                            .weights = DataHome::kHost});
  for (const GraphData& data : graph.data) {
    if (data.kind == DataKind::kInput) {
      EXPECT_EQ(data.before, DataHome::kDevice);
    }
    if (data.kind != DataKind::kWeight && data.kind != DataKind::kOptimizerState) continue;
    EXPECT_EQ(data.before, DataHome::kHost) << data.name;
    EXPECT_EQ(data.after, DataHome::kHost) << data.name;
  }
}

TEST_P(EveryState, EachTaskHasTheNumbersOfItsLayer) {
  const TaskGraph graph = Made(GetParam(), {.batch = 2});
  for (const GraphTask& task : graph.tasks) {
    EXPECT_FALSE(std::holds_alternative<std::monostate>(task.parameters)) << task.name;
    EXPECT_EQ(task.data_type, DataType::kFloat32) << task.name;
    EXPECT_NE(task.compute_type, DataType::kUnknown) << task.name;
  }
}

// A slow model: the value of data is a list of the tasks that made it. A task that may run again
// must find, at any later time of the iteration, values that give the same result.
TEST_P(EveryState, TasksThatRunAgainWriteTheSame) {
  const TaskGraph graph = Made(GetParam(), {.batch = 1, .image = GetParam() == "fcn-8s" ? 64 : 0});
  std::vector<int> version(graph.data.size());
  std::vector<std::vector<int>> read(graph.tasks.size());
  std::vector<int> written(graph.data.size());
  int reruns = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    if (task.phase == TaskPhase::kUpdate) break;
    for (const std::size_t data : task.reads) read[i].push_back(version[data]);
    for (const std::size_t data : task.updates) ++version[data];
    for (const std::size_t data : task.writes) written[data] = version[data];
  }
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    bool is_same = task.phase != TaskPhase::kUpdate && task.updates.empty();
    for (std::size_t use = 0; is_same && use < task.reads.size(); ++use) {
      is_same = read[i][use] == version[task.reads[use]];
    }
    for (const std::size_t data : task.writes) {
      is_same = is_same && written[data] == version[data] &&
                graph.data[data].kind != DataKind::kWeightGradient;
    }
    const bool is_random = task.operation == "dropout" && task.phase == TaskPhase::kForward;
    EXPECT_EQ(task.may_rerun, is_same && !is_random) << task.name;
    reruns += task.may_rerun ? 1 : 0;
  }
  EXPECT_GT(reruns, 0);
}

TEST(TrainingState, MomentumAndMomentsAreData) {
  const TaskGraph sgd = Made("alexnet", {.batch = 1});
  const TaskGraph momentum = Made("alexnet", {.batch = 1, .optimizer = Optimizer::kMomentum});
  const TaskGraph adam = Made(
      "alexnet", {.batch = 1, .optimizer = Optimizer::kAdam, .precision = Precision::kFloat16});
  EXPECT_EQ(TaskOf(sgd, "fc8.update").updates.size(), 2);
  EXPECT_EQ(TaskOf(momentum, "fc8.update").updates.size(), 4);
  EXPECT_EQ(DataOf(momentum, "fc8.weight.momentum").kind, DataKind::kOptimizerState);
  EXPECT_EQ(TaskOf(adam, "fc8.update").updates.size(), 8);
  for (const char* name :
       {"fc8.weight.float32", "fc8.weight.first-moment", "fc8.weight.second-moment"}) {
    EXPECT_EQ(DataOf(adam, name).type, DataType::kFloat32);
    EXPECT_EQ(DataOf(adam, name).bytes, 4 * 4096 * 1000);
  }
  EXPECT_EQ(DataOf(adam, "fc8.weight").bytes, 2 * 4096 * 1000);
  EXPECT_EQ(DataOf(adam, "fc8.weight.gradient").type, DataType::kFloat16);
}

TEST(TrainingState, UpdatesTakeTheTimeOfTheirBytes) {
  const auto seconds = [](Optimizer optimizer, Precision precision) {
    const TaskGraph graph =
        Made("alexnet",
             {.batch = 1, .gpu = "gtx-1080-ti", .optimizer = optimizer, .precision = precision});
    return TaskOf(graph, "fc7.update").algorithms[0].seconds;
  };
  const auto of_bytes = [](double bytes) { return 4097.0 * 4096 * bytes / 484e9 + 5e-6; };
  using enum Optimizer;
  using enum Precision;
  EXPECT_DOUBLE_EQ(seconds(kGradientDescent, kFloat32), of_bytes(12));
  EXPECT_DOUBLE_EQ(seconds(kMomentum, kFloat32), of_bytes(20));
  EXPECT_DOUBLE_EQ(seconds(kAdam, kFloat32), of_bytes(28));
  // The gradient and the weight of 2 bytes, and three float32 states that are read and written.
  EXPECT_DOUBLE_EQ(seconds(kAdam, kFloat16), of_bytes(28));
  EXPECT_DOUBLE_EQ(seconds(kGradientDescent, kFloat16), of_bytes(12));
}

TEST(TrainingState, SixteenBitsHalveActivationsAndUseTheirRate) {
  const TaskGraph whole = Made("vgg-16", {.batch = 8, .gpu = "a100"});
  const TaskGraph half =
      Made("vgg-16", {.batch = 8, .gpu = "a100", .precision = Precision::kBfloat16});
  EXPECT_EQ(TotalsOf(whole).activations, 2 * TotalsOf(half).activations);
  const auto seconds = [](const TaskGraph& graph) {
    return TaskOf(graph, "conv3_2.forward").algorithms[0].seconds - 5e-6;
  };
  EXPECT_NEAR(seconds(whole) / seconds(half), 2, 1e-9);
  EXPECT_EQ(TaskOf(whole, "conv3_2.forward").compute_type, DataType::kTensorFloat32);
  EXPECT_EQ(TaskOf(whole, "relu3_2.forward").compute_type, DataType::kFloat32);
  EXPECT_EQ(TaskOf(half, "conv3_2.forward").compute_type, DataType::kFloat32);
  EXPECT_EQ(TaskOf(half, "conv3_2.forward").data_type, DataType::kBfloat16);
  // Volta has no bfloat16, Pascal's consumer cards no fast float16.
  const auto rated = [&](const char* gpu, Precision precision) {
    return seconds(Made("vgg-16", {.batch = 8, .gpu = gpu, .precision = precision}));
  };
  EXPECT_LT(rated("v100", Precision::kFloat16), rated("v100", Precision::kFloat32) / 4);
  EXPECT_EQ(rated("v100", Precision::kBfloat16), rated("v100", Precision::kFloat32));
  EXPECT_EQ(rated("gtx-1080-ti", Precision::kFloat16), rated("gtx-1080-ti", Precision::kFloat32));
}

TEST(TrainingState, StatisticsTokensAndLabelsKeepTheirTypes) {
  const TaskGraph resnet = Made("resnet-18", {.batch = 4, .precision = Precision::kFloat16});
  EXPECT_EQ(DataOf(resnet, "bn1.running").bytes, 4 * 2 * 64);
  EXPECT_EQ(DataOf(resnet, "bn1.statistics").type, DataType::kFloat32);
  EXPECT_EQ(DataOf(resnet, "labels").bytes, 4 * 4);
  const TaskGraph gpt = Made("gpt2-small", {.batch = 4, .precision = Precision::kFloat16});
  EXPECT_EQ(DataOf(gpt, "input").bytes, 4 * 4 * 1024);
  EXPECT_EQ(DataOf(gpt, "input").type, DataType::kInt32);
  EXPECT_EQ(DataOf(gpt, "labels").bytes, 4 * 4 * 1024);
  EXPECT_EQ(DataOf(Made("fcn-8s", {.batch = 4}), "labels").bytes, 4 * 4 * 500 * 500);
}

TEST(TrainingState, NumbersOfLayersAreThoseOfThePapers) {
  const TaskGraph alexnet = Made("alexnet", {.batch = 128});
  const ConvolutionParameters conv2 = {.n = 128,
                                       .c = 96,
                                       .h = 27,
                                       .w = 27,
                                       .k = 256,
                                       .r = 5,
                                       .s = 5,
                                       .padding_height = 2,
                                       .padding_width = 2};
  for (const char* task : {"conv2.forward", "conv2.backward-data", "conv2.backward-weights"}) {
    EXPECT_EQ(TaskOf(alexnet, task).parameters, LayerParameters(conv2)) << task;
  }
  EXPECT_EQ(TaskOf(alexnet, "conv2.update").parameters,
            LayerParameters(ElementwiseParameters{.elements = 614'656}));
  EXPECT_EQ(TaskOf(alexnet, "fc6.forward").parameters,
            LayerParameters(
                LinearParameters{.n = 128, .inputs = 256 * 6 * 6, .outputs = 4096, .bias = 1}));
  EXPECT_EQ(TaskOf(alexnet, "pool1.backward").parameters,
            LayerParameters(PoolingParameters{.n = 128,
                                              .c = 96,
                                              .h = 55,
                                              .w = 55,
                                              .r = 3,
                                              .s = 3,
                                              .stride_height = 2,
                                              .stride_width = 2}));
  const TaskGraph gpt = Made("gpt2-small", {.batch = 8});
  EXPECT_EQ(TaskOf(gpt, "block0.ln1.forward").parameters,
            LayerParameters(NormalizationParameters{.n = 8, .c = 768, .h = 1024, .w = 1}));
  EXPECT_EQ(TaskOf(gpt, "embedding.forward").parameters,
            LayerParameters(EmbeddingParameters{
                .n = 8, .positions = 1024, .vocabulary = 50257, .features = 768}));
}

// The numbers of a layer give the sizes of its data.
TEST(TrainingState, ConvolutionsHaveTheSizesOfTheirNumbers) {
  for (const char* model : {"resnet-50", "inception-v3", "densenet-121", "fcn-8s", "vit-b-16"}) {
    const TaskGraph graph = Made(model, {.batch = 3});
    for (const GraphTask& task : graph.tasks) {
      const auto* c = std::get_if<ConvolutionParameters>(&task.parameters);
      if (c == nullptr || task.operation != "conv" || task.phase != TaskPhase::kForward) continue;
      EXPECT_EQ(graph.data[task.reads[0]].bytes, 4 * c->n * c->c * c->h * c->w) << task.name;
      EXPECT_EQ(graph.data[task.reads[1]].bytes, 4 * c->k * (c->c / c->groups) * c->r * c->s);
      const std::int64_t rows = (c->h + 2 * c->padding_height - c->r) / c->stride_height + 1;
      const std::int64_t columns = (c->w + 2 * c->padding_width - c->s) / c->stride_width + 1;
      EXPECT_EQ(graph.data[task.writes[0]].bytes, 4 * c->n * c->k * rows * columns) << task.name;
    }
  }
}

TEST(TrainingState, HomesThatAreNowhereAreRefused) {
  for (const ModelOptions& options : {ModelOptions{.batch = 1, .inputs = DataHome::kNowhere},
                                      ModelOptions{.batch = 1, .weights = DataHome::kNowhere}}) {
    const absl::StatusOr<TaskGraph> graph = MakeModel("alexnet", options);
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(graph.status().message()), ::testing::HasSubstr("nowhere"));
  }
}

}  // namespace
}  // namespace tidepool
