// SPDX-License-Identifier: Apache-2.0
// Emitted programs train: with offload the losses are those without, to the last bit; with
// sub-batches to the order of summation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/training/emit/compiled_program.h"
#include "tests/training/emit/small_networks.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

using testing::kSmallBatch;
using testing::LossesOf;
using testing::MakeFixed;
using testing::ProgramFolder;
using testing::SmallFamily;

constexpr std::int64_t kAmple = std::int64_t{1} << 30;
constexpr std::size_t kSteps = 20;
constexpr double kRate = 0.05;

std::vector<double> Losses(const std::string& command, double rate = kRate) {
  const testing::ProgramResult result =
      testing::RunCommand(absl::StrCat(command, " ", kSteps, " ", rate));
  EXPECT_EQ(result.status, 0) << result.output;
  std::vector<double> losses = LossesOf(result.output);
  EXPECT_EQ(losses.size(), kSteps) << result.output;
  losses.resize(kSteps);
  return losses;
}
std::vector<double> Losses(const MadeSchedule& made, double rate = kRate) {
  ProgramFolder folder;
  return Losses(folder.Compile(made), rate);
}

std::int64_t BoundOf(const GraphFamily& family, std::int64_t sub_batch) {
  const absl::StatusOr<TaskGraph> graph = GraphAt(family, sub_batch);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return LeastMemory(*graph, 512).bytes;
}

std::size_t CountOffloads(const MadeSchedule& made) {
  return static_cast<std::size_t>(
      std::ranges::count(made.schedule.steps, StepKind::kOffload, &ScheduleStep::kind));
}

// Return the mean of five losses.
double FirstLoss(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.begin() + 5, 0.0) / 5;
}
double LastLoss(const std::vector<double>& losses) {
  return std::accumulate(losses.end() - 5, losses.end(), 0.0) / 5;
}

// Expects that the network learns: the last losses are less than a share of the first. Expects that
// offloads at its bound change nothing.
std::vector<double> ExpectLearns(const GraphFamily& family, double rate = kRate,
                                 double share = 0.7) {
  const std::vector<double> losses = Losses(MakeFixed(family, "none", kSmallBatch, kAmple), rate);
  EXPECT_LT(LastLoss(losses), share * FirstLoss(losses));
  const MadeSchedule at_bound =
      MakeFixed(family, "modnn", kSmallBatch, BoundOf(family, kSmallBatch));
  EXPECT_GT(CountOffloads(at_bound), 0U);
  ProgramFolder folder;
  const std::string program = folder.Compile(at_bound);
  EXPECT_EQ(Losses(program, rate), losses);
  // Late copies show a wait that is missing.
  EXPECT_EQ(Losses("CUDART_HOST_COPY_LATENCY_NANOSECONDS=100000 " + program, rate), losses);
  return losses;
}

void ExpectNear(const std::vector<double>& losses, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(losses[i], expected[i], 1e-4 * expected[0]) << "step " << i;
  }
}

TEST(TrainedTest, VggLearnsAtItsBoundsAsWithoutOffload) {
  const GraphFamily family = SmallFamily(testing::AddSmallVgg, {.optimizer = Optimizer::kMomentum});
  const std::vector<double> losses = ExpectLearns(family);
  for (const std::int64_t sub_batch : {1, 3}) {
    ExpectNear(
        Losses(MakeFixed(family, "modnn", kSmallBatch, BoundOf(family, sub_batch), sub_batch)),
        losses);
  }
}

// Weights at home on the host, their gradients and momenta come and go in each round.
TEST(TrainedTest, VggLearnsWhereItsWeightsLeaveInRounds) {
  const GraphFamily family = SmallFamily(
      testing::AddSmallVgg, {.optimizer = Optimizer::kMomentum, .weights = DataHome::kHost});
  const std::int64_t bound = LeastMemory(GraphAt(family, 3).value(), 512, StayingData::kNone).bytes;
  ExpectNear(Losses(MakeFixed(family, "modnn", kSmallBatch, bound, 3)),
             Losses(MakeFixed(family, "none", kSmallBatch, kAmple)));
}

TEST(TrainedTest, ResNetLearnsAtItsBoundAsWithoutOffload) {
  ExpectLearns(SmallFamily(testing::AddSmallResNet));
}

TEST(TrainedTest, DenseNetLearnsAtItsBoundAsWithoutOffload) {
  ExpectLearns(SmallFamily(testing::AddSmallDenseNet));
}

TEST(TrainedTest, InceptionLearnsWithDropoutAndAdamAtItsBoundAsWithoutOffload) {
  ExpectLearns(SmallFamily(testing::AddSmallInception, {.optimizer = Optimizer::kAdam}), 0.005);
}

TEST(TrainedTest, UnetLearnsAtItsBoundsAsWithoutOffload) {
  const GraphFamily family =
      SmallFamily(testing::AddSmallUnet, {.optimizer = Optimizer::kMomentum});
  constexpr double kHighRate = 0.1;
  ExpectNear(Losses(MakeFixed(family, "modnn", kSmallBatch, BoundOf(family, 3), 3), kHighRate),
             ExpectLearns(family, kHighRate, 0.9));
}

// Lets each task of a convolution run in two micro-batches, of different algorithms.
TaskGraph InMicroBatches(TaskGraph graph) {
  for (GraphTask& task : graph.tasks) {
    if (!std::holds_alternative<ConvolutionParameters>(task.parameters)) continue;
    if (task.phase == TaskPhase::kUpdate) continue;
    TaskAlgorithm parts = task.algorithms.front();
    parts.name = "parts";
    parts.workspace_bytes = std::int64_t{1} << 20;
    parts.micro_batches = {{"gemm", 5}, {"fft", kSmallBatch - 5}};
    task.algorithms = {parts};
  }
  return graph;
}

TEST(TrainedTest, ConvolutionsLearnInMicroBatches) {
  for (const auto add : {testing::AddSmallVgg, testing::AddSmallUnet}) {
    const GraphFamily family = SmallFamily(add);
    ScheduleRequest request;
    request.machine.devices.front().memory_bytes = kAmple;
    request.memory = ScheduleMemory::kFixed;
    const TaskGraph graph = InMicroBatches(GraphAt(family, kSmallBatch).value());
    const MadeSchedule made = MakeSchedule("none", graph, request).value();
    const std::string text = EmitProgram(made.graphs, made.schedule, made.machine).value();
    ProgramFolder folder;
    ExpectNear(Losses(folder.Compile(text)),
               Losses(MakeFixed(family, "none", kSmallBatch, kAmple)));
    EXPECT_NE(text.find("Convolve({{3, "), std::string::npos);
    EXPECT_EQ(text.find("Convolve({{8, "), std::string::npos);
  }
}

// The update of an emitted program beside Kingma and Ba's Algorithm 1, with more weights than a
// call takes.
constexpr char kAdamMain[] = R"cpp(
#include <vector>
  int main() {
    if (!Start()) return 2;
    StartKernels();
    StartLayers();
    StartUpdates();
    constexpr int kCount = kMostNumbers + 3;
    std::vector<float> weight(kCount, 1), first(kCount), second(kCount), gradient(kCount);
    double expected = 1, m = 0, v = 0;
    for (int t = 1; t <= 3; ++t) {
      const float g = 0.3F * static_cast<float>(t) - 0.5F;
      gradient.back() = g;
      StartIteration(t);
      DescendWithAdam(kCount, gradient.data(), weight.data(), first.data(), second.data());
      CHECK(cudaDeviceSynchronize());
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      expected -=
          0.01 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    }
    std::printf("%.9g %.9g %.9g\n", static_cast<double>(weight.back()), expected,
                static_cast<double>(weight.front()));
    EndUpdates();
    EndLayers();
    EndKernels();
    End();
    return 0;
  }
)cpp";

TEST(TrainedTest, AdamTakesTheStepsOfItsPaper) {
  const GraphFamily family =
      SmallFamily(testing::AddSmallInception, {.optimizer = Optimizer::kAdam});
  const MadeSchedule made = MakeFixed(family, "none", kSmallBatch, kAmple);
  const absl::StatusOr<std::string> text = EmitProgram(made.graphs, made.schedule, made.machine);
  ASSERT_TRUE(text.ok()) << text.status();
  ProgramFolder folder;
  const std::string program =
      folder.Compile(absl::StrReplaceAll(*text, {{"int main(", "int Train("}}) + kAdamMain);
  const testing::ProgramResult result = testing::RunCommand(program);
  ASSERT_EQ(result.status, 0) << result.output;
  std::istringstream numbers(result.output);
  double weight = 0;
  double expected = 0;
  double untouched = 0;
  numbers >> weight >> expected >> untouched;
  EXPECT_NEAR(weight, expected, 1e-6);
  EXPECT_NE(expected, 1);
  EXPECT_EQ(untouched, 1);
}

// Statistics are those of each sub-batch, so the losses are others.
TEST(TrainedTest, ResNetLearnsInSubBatches) {
  const GraphFamily family = SmallFamily(testing::AddSmallResNet);
  const std::vector<double> losses =
      Losses(MakeFixed(family, "modnn", kSmallBatch, BoundOf(family, 4), 4));
  EXPECT_LT(losses[kSteps - 1], 0.6 * losses[0]);
}

TEST(TrainedTest, AnyPolicyTrainsAlike) {
  const GraphFamily family = SmallFamily(testing::AddSmallVgg);
  const std::vector<double> losses = Losses(MakeFixed(family, "none", kSmallBatch, kAmple));
  const std::int64_t little = BoundOf(family, kSmallBatch) * 5 / 4;
  EXPECT_EQ(Losses(MakeFixed(family, "best", kSmallBatch, little)), losses);
}

TEST(TrainedTest, AProgramEndsBeforeTheFirstCopyWhereTheDeviceIsTooSmall) {
  const GraphFamily family = SmallFamily(testing::AddSmallVgg);
  const MadeSchedule made = MakeFixed(family, "none", kSmallBatch, kAmple);
  ProgramFolder folder;
  const testing::ProgramResult result =
      testing::RunCommand("CUDART_HOST_MEMORY=65536 " + folder.Compile(made));
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.output.find("65536 bytes free"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace tidepool
