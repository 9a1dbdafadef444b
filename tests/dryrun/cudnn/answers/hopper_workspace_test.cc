// SPDX-License-Identifier: Apache-2.0
// The assumed workspaces of convolutions on Hopper against those that PyTorch asked for on an H200.
#include "dryrun/cudnn/answers/hopper_workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace tidepool::cudart_host {
namespace {

constexpr Gpu kH200 = {90, 4.8e12, 67e12, 67e12, 989e12, 132, 2048};

struct Recorded {
  std::string from;
  Convolution convolution;
  std::int64_t bytes = 0;
};

cudnnDataType_t TypeOf(const std::string& name) {
  if (name == "float") return CUDNN_DATA_FLOAT;
  return name == "half" ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

Pass PassOf(const std::string& name) {
  if (name == "forward") return Pass::kForward;
  return name == "data" ? Pass::kData : Pass::kFilter;
}

Recorded RecordedOf(const nlohmann::json& row) {
  Convolution made = {.pass = PassOf(row[3]),
                      .type = TypeOf(row[1]),
                      .is_channels_last = row[2] == "NHWC",
                      .x = row[4],
                      .w = row[5],
                      .y = {row[4][0], row[5][0]},
                      .padding = row[7],
                      .stride = row[6],
                      .dilation = std::vector<std::int64_t>(row[6].size(), 1)};
  for (std::size_t i = 0; i < made.stride.size(); ++i) {
    made.y.push_back((made.x[i + 2] + 2 * made.padding[i] - made.w[i + 2]) / made.stride[i] + 1);
  }
  return {row[0], made, row[8]};
}

std::vector<Recorded> AllRecorded() {
  std::ifstream file(TIDEPOOL_SOURCE_DIR
                     "/tests/frameworks/dryrun/recorded/h200_convolutions.json");
  const nlohmann::json all = nlohmann::json::parse(file);
  std::vector<Recorded> made;
  for (const nlohmann::json& row : all["rows"]) made.push_back(RecordedOf(row));
  return made;
}

std::int64_t Assumed(const Recorded& one) {
  const Algorithm first = AlgorithmsOf(one.convolution, kH200).front();
  EXPECT_EQ(first.kind, AlgorithmKind::kTensorGemm);
  return first.workspace_bytes;
}

bool Agrees(const Recorded& one) {
  const std::int64_t difference = std::abs(Assumed(one) - one.bytes);
  return difference <= std::max<std::int64_t>(one.bytes / 100, 1024);
}

struct Share {
  std::size_t agreeing = 0;
  std::size_t all = 0;
};

template <typename Takes>
Share ShareOf(const Takes& takes) {
  Share share;
  for (const Recorded& one : AllRecorded()) {
    if (!takes(one)) continue;
    ++share.all;
    share.agreeing += Agrees(one) ? 1 : 0;
  }
  return share;
}

TEST(HopperWorkspace, AgreesWithAnH200WithinOnePercent) {
  const Share share = ShareOf([](const Recorded&) { return true; });
  EXPECT_EQ(share.all, 478U);
  EXPECT_GE(share.agreeing, 410U);
}

TEST(HopperWorkspace, AgreesWithAnH200InTrainedNetworks) {
  const std::set<std::string> networks = {"alexnet", "resnet50", "resnet50-bf16", "convnext",
                                          "unet"};
  const Share share = ShareOf([&](const Recorded& one) { return networks.contains(one.from); });
  EXPECT_EQ(share.all, 160U);
  EXPECT_GE(share.agreeing, 148U);
}

// A convolution of 64 samples of 56 x 56, of stride 1, that keeps their size.
Convolution Images(Pass pass, cudnnDataType_t type, std::int64_t inputs, std::int64_t outputs,
                   std::int64_t kernel) {
  return {.pass = pass,
          .type = type,
          .x = {64, inputs, 56, 56},
          .w = {outputs, inputs, kernel, kernel},
          .y = {64, outputs, 56, 56},
          .padding = {kernel / 2, kernel / 2},
          .stride = {1, 1},
          .dilation = {1, 1}};
}

TEST(HopperWorkspace, HasCopiesOfTensorsThatAreNotChannelsLast) {
  constexpr double kImages = 64.0 * 56 * 56;
  Convolution convolution = Images(Pass::kForward, CUDNN_DATA_HALF, 64, 128, 3);
  EXPECT_EQ(HopperWorkspace(convolution, kH200), 2 * (kImages * (64 + 128) + 128 * 64 * 9) + 16);
  convolution.is_channels_last = true;
  EXPECT_EQ(HopperWorkspace(convolution, kH200), 0);
}

TEST(HopperWorkspace, FollowsTheNumberOfMultiprocessors) {
  Convolution convolution = Images(Pass::kFilter, CUDNN_DATA_FLOAT, 64, 64, 3);
  convolution.is_channels_last = true;
  EXPECT_EQ(HopperWorkspace(convolution, kH200), 14 * 9 * 64 * 64 * 4);
  Gpu smaller = kH200;
  smaller.multiprocessors = 114;
  EXPECT_EQ(HopperWorkspace(convolution, smaller), 12 * 9 * 64 * 64 * 4);
}

TEST(HopperWorkspace, ProductsOfAlignedImagesHaveNoCopies) {
  EXPECT_EQ(HopperWorkspace(Images(Pass::kForward, CUDNN_DATA_HALF, 64, 256, 1), kH200), 0);
  EXPECT_EQ(HopperWorkspace(Images(Pass::kFilter, CUDNN_DATA_HALF, 64, 256, 1), kH200),
            64.0 * 64 * 256 * 4);
}

}  // namespace
}  // namespace tidepool::cudart_host
