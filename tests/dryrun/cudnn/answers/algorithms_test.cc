// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/answers/algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace tidepool::cudart_host {
namespace {

constexpr Gpu kA100 = {80, 2.039e12, 19.5e12, 19.5e12, 312e12};
constexpr Gpu kP100 = {60, 0.732e12, 5.3e12, 10.6e12, 0};

// A square convolution of stride 1 that keeps the size of images.
Convolution Square(std::int64_t batch, std::int64_t channels, std::int64_t outputs,
                   std::int64_t side, std::int64_t kernel, std::int64_t groups = 1) {
  return {.type = CUDNN_DATA_FLOAT,
          .x = {batch, channels, side, side},
          .w = {outputs, channels / groups, kernel, kernel},
          .y = {batch, outputs, side, side},
          .padding = {kernel / 2, kernel / 2},
          .stride = {1, 1},
          .dilation = {1, 1}};
}

std::optional<Algorithm> Find(const std::vector<Algorithm>& algorithms, AlgorithmKind kind) {
  const auto found = std::find_if(algorithms.begin(), algorithms.end(),
                                  [&](const Algorithm& one) { return one.kind == kind; });
  return found == algorithms.end() ? std::nullopt : std::optional(*found);
}

std::int64_t WorkspaceOf(const Convolution& convolution, AlgorithmKind kind, const Gpu& gpu) {
  const std::optional<Algorithm> found = Find(AlgorithmsOf(convolution, gpu), kind);
  return found.has_value() ? found->workspace_bytes : -1;
}

// micro-cuDNN's figure 10. Both channels of conv2 are halved in two groups.
TEST(Convolution, FourierWorkspacesAreThoseOfMicroCudnn) {
  for (const AlgorithmKind kind : {AlgorithmKind::kFft, AlgorithmKind::kFftTiling}) {
    EXPECT_EQ(WorkspaceOf(Square(256, 96, 256, 27, 5, 2), kind, kP100), 425 * (1 << 19) - 1);
    EXPECT_EQ(WorkspaceOf(Square(32, 96, 256, 27, 5, 2), kind, kP100), 391 * (1 << 17) - 1);
  }
}

// pytorch#26112: ConvTranspose2d(2048, 512, 4, stride=2, padding=1) on 32 x 2048 x 8 x 8 held 96
// MiB before its forward pass, which is a gradient of X, and took 4.676 GiB on a V100.
TEST(Convolution, TransposedConvolutionsMayTakeAnFft) {
  Convolution transposed = {.pass = Pass::kData,
                            .type = CUDNN_DATA_FLOAT,
                            .x = {32, 512, 16, 16},
                            .w = {2048, 512, 4, 4},
                            .y = {32, 2048, 8, 8},
                            .padding = {1, 1},
                            .stride = {2, 2},
                            .dilation = {1, 1}};
  EXPECT_EQ(LargestWorkspace(transposed, kP100), std::int64_t{4692} * (1 << 20) - 1);
  EXPECT_EQ(WorkspaceOf(transposed, AlgorithmKind::kFft, kP100), -1);
  transposed.pass = Pass::kForward;
  EXPECT_LT(LargestWorkspace(transposed, kP100), 1 << 25);
}

TEST(Convolution, TheLargestWorkspaceIsOfAnAlgorithm) {
  const Convolution conv2 = Square(256, 96, 256, 27, 5, 2);
  EXPECT_EQ(LargestWorkspace(conv2, kP100), WorkspaceOf(conv2, AlgorithmKind::kFft, kP100));
}

// It reports 4.3 KiB, and the formula has 4.7 KiB in blocks of 512 bytes.
TEST(Convolution, IndexesAndColumns) {
  const Convolution conv2 = Square(256, 96, 256, 27, 5, 2);
  EXPECT_EQ(WorkspaceOf(conv2, AlgorithmKind::kImplicitGemm, kP100), 0);
  EXPECT_EQ(WorkspaceOf(conv2, AlgorithmKind::kPrecomputedGemm, kP100), 10 * 512 - 1);
  EXPECT_EQ(WorkspaceOf(conv2, AlgorithmKind::kGemm, kP100),
            (48 * 25 * 27 * 27 * 4 + 511) / 512 * 512 - 1);
}

TEST(Convolution, WinogradIsForSmallKernelsOfStrideOne) {
  const std::int64_t numbers = 64 * 56 * 56;
  Convolution small = Square(32, 64, 64, 56, 3);
  EXPECT_EQ(WorkspaceOf(small, AlgorithmKind::kWinograd, kP100),
            9 * 32 * 2 * numbers + 16 * 64 * 64 * 9 - 1);
  EXPECT_EQ(AlgorithmsOf(small, kP100).front().kind, AlgorithmKind::kWinograd);
  small.stride = {2, 2};
  EXPECT_EQ(WorkspaceOf(small, AlgorithmKind::kWinograd, kP100), -1);
  EXPECT_EQ(WorkspaceOf(Square(32, 64, 64, 56, 5), AlgorithmKind::kWinograd, kP100), -1);
}

TEST(Convolution, TensorCoresCopyDataThatIsNotChannelsLast) {
  Convolution small = Square(32, 64, 64, 56, 3);
  small.type = CUDNN_DATA_HALF;
  const std::int64_t copies = 2 * (2 * 32 * 64 * 56 * 56 + 64 * 64 * 9);
  EXPECT_EQ(AlgorithmsOf(small, kA100).front().kind, AlgorithmKind::kTensorGemm);
  EXPECT_EQ(WorkspaceOf(small, AlgorithmKind::kTensorGemm, kA100),
            (copies + 64 * 9 * 4 + 511) / 512 * 512 - 1);
  small.is_channels_last = true;
  EXPECT_EQ(WorkspaceOf(small, AlgorithmKind::kTensorGemm, kA100), 5 * 512 - 1);
  EXPECT_EQ(WorkspaceOf(small, AlgorithmKind::kTensorGemm, kP100), -1);
}

TEST(Convolution, TensorCoresForFloatsCanBeRefused) {
  Convolution floats = Square(32, 64, 64, 56, 3);
  EXPECT_EQ(AlgorithmsOf(floats, kA100).front().kind, AlgorithmKind::kTensorGemm);
  floats.may_use_tensor_cores = false;
  EXPECT_EQ(AlgorithmsOf(floats, kA100).front().kind, AlgorithmKind::kWinograd);
  floats.type = CUDNN_DATA_DOUBLE;
  EXPECT_EQ(AlgorithmsOf(floats, kA100).front().kind, AlgorithmKind::kPrecomputedGemm);
}

TEST(Convolution, WorkspacesAreOddAndAlgorithmsSorted) {
  for (const std::int64_t kernel : {1, 3, 5, 7, 11}) {
    const std::vector<Algorithm> algorithms = AlgorithmsOf(Square(8, 64, 32, 56, kernel), kA100);
    EXPECT_TRUE(std::is_sorted(algorithms.begin(), algorithms.end(),
                               [](const Algorithm& a, const Algorithm& b) {
                                 return kA100.Seconds(a.work) < kA100.Seconds(b.work);
                               }));
    for (const Algorithm& one : algorithms) {
      EXPECT_TRUE(one.workspace_bytes == 0 || one.workspace_bytes % 2 == 1);
    }
  }
}

// Sizes of images that no GPU holds do not overflow.
TEST(Convolution, HugeShapesHaveFiniteWorkspaces) {
  const std::int64_t huge = std::int64_t{1} << 40;
  for (const Algorithm& one : AlgorithmsOf(Square(huge, 1024, 1024, huge, 5), kA100)) {
    EXPECT_GE(one.workspace_bytes, 0);
    EXPECT_LE(one.workspace_bytes, std::int64_t{1} << 60);
  }
}

TEST(Convolution, VolumesHaveNeitherWinogradNorFourier) {
  const Convolution volume = {.type = CUDNN_DATA_FLOAT,
                              .x = {2, 16, 8, 32, 32},
                              .w = {16, 16, 3, 3, 3},
                              .y = {2, 16, 8, 32, 32},
                              .padding = {1, 1, 1},
                              .stride = {1, 1, 1},
                              .dilation = {1, 1, 1}};
  EXPECT_EQ(AlgorithmsOf(volume, kP100).size(), 3);
}

TEST(Gpu, TakesTheTimeOfOperationsOrOfBytes) {
  const Work work = {Numbers::kHalf, 156e12, 2.039e12, 0.5};
  EXPECT_DOUBLE_EQ(kA100.Seconds(work), 1);
  EXPECT_DOUBLE_EQ(kA100.Seconds({Numbers::kTensorFloat, 156e12, 0, 0.5}), 2);
  EXPECT_DOUBLE_EQ(kA100.Seconds({Numbers::kSingle, 0, 4.078e12}), 2);
  EXPECT_DOUBLE_EQ(Gpu().Seconds(work), 0);
}

}  // namespace
}  // namespace tidepool::cudart_host
