// SPDX-License-Identifier: Apache-2.0
// Emitted programs train: with offload the losses are those without, to the last bit; with
// sub-batches to the order of summation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/emit/compiled_program.h"
#include "tests/emit/small_networks.h"
#include "tidepool/schedule/sub_batch.h"

namespace tidepool {
namespace {

using testing::kSmallBatch;
using testing::LossesOf;
using testing::MakeFixed;
using testing::ProgramFolder;
using testing::SmallFamily;

constexpr std::int64_t kAmple = std::int64_t{1} << 30;
constexpr std::size_t kSteps = 20;
const std::string kArguments = " 20 0.05";

std::vector<double> Losses(const std::string& command) {
  const testing::ProgramResult result = testing::RunCommand(command + kArguments);
  EXPECT_EQ(result.status, 0) << result.output;
  std::vector<double> losses = LossesOf(result.output);
  EXPECT_EQ(losses.size(), kSteps) << result.output;
  losses.resize(kSteps);
  return losses;
}
std::vector<double> Losses(const MadeSchedule& made) {
  ProgramFolder folder;
  return Losses(folder.Compile(made));
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

// Expects that the network learns, and that offloads at its bound change nothing.
std::vector<double> ExpectLearns(const GraphFamily& family) {
  const std::vector<double> losses = Losses(MakeFixed(family, "none", kSmallBatch, kAmple));
  EXPECT_LT(losses[kSteps - 1], 0.6 * losses[0]);
  const MadeSchedule at_bound =
      MakeFixed(family, "modnn", kSmallBatch, BoundOf(family, kSmallBatch));
  EXPECT_GT(CountOffloads(at_bound), 0U);
  ProgramFolder folder;
  const std::string program = folder.Compile(at_bound);
  EXPECT_EQ(Losses(program), losses);
  // Late copies show a wait that is missing.
  EXPECT_EQ(Losses("CUDART_HOST_COPY_LATENCY_NANOSECONDS=100000 " + program), losses);
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

TEST(TrainedTest, ResNetLearnsAtItsBoundAsWithoutOffload) {
  ExpectLearns(SmallFamily(testing::AddSmallResNet));
}

TEST(TrainedTest, DenseNetLearnsAtItsBoundAsWithoutOffload) {
  ExpectLearns(SmallFamily(testing::AddSmallDenseNet));
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
