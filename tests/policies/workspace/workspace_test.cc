// SPDX-License-Identifier: Apache-2.0
// Examples with answers by hand, limits of numbers, and errors.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace {

constexpr KernelPrecision kTrueHalf = KernelPrecision::kTrueHalf;
constexpr KernelPrecision kPseudoHalf = KernelPrecision::kPseudoHalf;

// A slow algorithm without workspace, and a fast one with 10 bytes a sample.
WorkspaceCase TwoAlgorithms(std::int64_t limit) {
  return {.batch = 4,
          .limit_bytes = limit,
          .kernels = {{{4, 0, 8, 0}, {4, 1, 2, 40}, {2, 1, 1.5, 20}, {1, 1, 1, 10}}}};
}

std::vector<KernelPart> PartsAt(std::int64_t limit) {
  const auto answer = ChooseWorkspaces(TwoAlgorithms(limit));
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? answer->kernels.front().parts : std::vector<KernelPart>();
}

std::string ErrorOf(const WorkspaceCase& question) {
  return std::string(ChooseWorkspaces(question).status().message());
}

TEST(ChooseWorkspaces, DividesUntilTheFastAlgorithmFits) {
  EXPECT_EQ(PartsAt(0), (std::vector<KernelPart>{{0, 4}}));
  EXPECT_EQ(PartsAt(10), (std::vector<KernelPart>{{1, 1}, {1, 1}, {1, 1}, {1, 1}}));
  EXPECT_EQ(PartsAt(39), (std::vector<KernelPart>{{1, 2}, {1, 2}}));
  EXPECT_EQ(PartsAt(kMostWorkspaceBytes), (std::vector<KernelPart>{{1, 4}}));
}

TEST(ChooseWorkspaces, ReuseGivesEachKernelTheLimit) {
  WorkspaceCase question = TwoAlgorithms(20);
  question.kernels.push_back(question.kernels.front());
  const auto answer = ChooseWorkspaces(question);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->seconds, 6);
  EXPECT_EQ(answer->workspace_bytes, 40);
  EXPECT_EQ(answer->front, (std::vector<WorkspacePoint>{{16, 0}, {8, 20}, {6, 40}}));
}

TEST(ChooseWorkspaces, DivisionSpendsTheLimitWhereItSavesMost) {
  WorkspaceCase question = TwoAlgorithms(40);
  question.kind = WorkspaceKind::kDivision;
  question.kernels.push_back({{4, 0, 100, 0}, {4, 1, 10, 30}});
  const auto answer = ChooseWorkspaces(question);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->seconds, 14);
  EXPECT_EQ(answer->kernels[0].workspace_bytes, 10);
  EXPECT_EQ(answer->kernels[1].workspace_bytes, 30);
}

TEST(ChooseWorkspaces, KernelsThatTakeTurnsShareMemory) {
  WorkspaceCase question = TwoAlgorithms(40);
  question.kind = WorkspaceKind::kShared;
  question.kernels.push_back(question.kernels.front());
  const auto apart = ChooseWorkspaces(question);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->seconds, 4);
  EXPECT_EQ(apart->workspace_bytes, 40);
  question.groups = {{0, 1}};
  const auto together = ChooseWorkspaces(question);
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_EQ(together->seconds, 6);
  EXPECT_EQ(together->workspace_bytes, 40);
}

TEST(ChooseWorkspaces, TakesNoArithmeticBelowThePrecision) {
  WorkspaceCase question = {
      .batch = 1, .kernels = {{{1, 0, 1, 0, kTrueHalf}, {1, 0, 2, 0, kPseudoHalf}, {1, 0, 3, 0}}}};
  const auto seconds = [&](KernelPrecision precision) {
    question.precision = precision;
    const auto answer = ChooseWorkspaces(question);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->seconds : -1;
  };
  EXPECT_EQ(seconds(kTrueHalf), 1);
  EXPECT_EQ(seconds(kPseudoHalf), 2);
  EXPECT_EQ(seconds(KernelPrecision::kFloat), 3);
  question.kernels[0][1].seconds = 0.5;
  EXPECT_EQ(seconds(kTrueHalf), 0.5);
}

TEST(ChooseWorkspaces, SumsNearTheLargestNumbers) {
  WorkspaceCase question = {
      .kind = WorkspaceKind::kDivision,
      .limit_bytes = kMostWorkspaceBytes,
      .kernels = std::vector<KernelTable>(5, {{1, 0, 1e9, 0}, {1, 1, 1, kMostWorkspaceBytes}})};
  const auto answer = ChooseWorkspaces(question);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->seconds, 4e9 + 1);
  EXPECT_EQ(answer->workspace_bytes, kMostWorkspaceBytes);
  question.kernels.resize(2, {{1, 1, 1, kMostWorkspaceBytes}});
  for (KernelTable& table : question.kernels) table = {{1, 1, 1, kMostWorkspaceBytes}};
  EXPECT_TRUE(absl::IsResourceExhausted(ChooseWorkspaces(question).status()));
  question.kind = WorkspaceKind::kReuse;
  EXPECT_TRUE(ChooseWorkspaces(question).ok());
}

// Every byte saves as much time, so the linear program tells nothing apart.
TEST(DivideWorkspace, EndsWithoutAProofAndFits) {
  std::mt19937_64 random(1);
  std::vector<std::vector<KernelConfiguration>> fronts(200);
  for (std::vector<KernelConfiguration>& front : fronts) {
    KernelConfiguration point = {.seconds = 1e6};
    for (int k = 0; k < 8; ++k) {
      front.push_back(point);
      const auto bytes = static_cast<std::int64_t>(1000 + random() % 1'000'000'007);
      point.seconds -= static_cast<double>(bytes) * 1e-6;
      point.workspace_bytes += bytes;
    }
  }
  constexpr std::int64_t kLimit = 250'000'000'000;
  const auto answer = DivideWorkspace(fronts, kLimit);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->proved);
  EXPECT_LE(answer->workspace_bytes, kLimit);
  EXPECT_LE(answer->seconds, 200e6 - 249'000);
}

TEST(ChooseWorkspaces, NamesTheKernelThatDoesNotFit) {
  WorkspaceCase question = TwoAlgorithms(9);
  question.kernels.push_back({{1, 1, 1, 10}, {2, 1, 1, 20}});
  EXPECT_EQ(ErrorOf(question),
            "kernel 1 needs at least 10 bytes of workspace, and the limit is 9 bytes");
  question.policy = "3";
  EXPECT_EQ(ErrorOf(question),
            "kernel 0 has no micro-batches of the policy 3 that add up to 4 samples");
  question.policy = "all";
  question.kind = WorkspaceKind::kDivision;
  question.kernels.erase(question.kernels.begin());
  question.kernels.push_back({{4, 0, 1, 7}});
  question.limit_bytes = 16;
  EXPECT_EQ(ErrorOf(question),
            "the kernels need at least 17 bytes of workspace together, kernel 0 alone 10 bytes, "
            "and the limit is 16 bytes");
}

TEST(ChooseWorkspaces, RefusesInvalidQuestions) {
  WorkspaceCase question = TwoAlgorithms(9);
  question.policy = "powersOfTwo";
  EXPECT_EQ(ErrorOf(question),
            "the unknown policy 'powersOfTwo', expected undivided, powerOfTwo, all, or numbers "
            "such as 8,16,32");
  question = TwoAlgorithms(9);
  question.kernels[0][2].seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ErrorOf(question), "kernel 0, row 2: a time of nan seconds, expected 0 to 1e9");
  question.kernels.clear();
  EXPECT_EQ(ErrorOf(question), "no kernel, expected one or more");
  question.kind = WorkspaceKind::kDevices;
  EXPECT_EQ(std::string(SplitBatch(question).status().message()),
            "no device, expected one or more");
}

TEST(MicroBatchSizes, AreThoseOfThePolicy) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(*MicroBatchSizes("undivided", 12), Sizes({12}));
  EXPECT_EQ(*MicroBatchSizes("powerOfTwo", 12), Sizes({1, 2, 4, 8, 12}));
  EXPECT_EQ(*MicroBatchSizes("powerOfTwo", 8), Sizes({1, 2, 4, 8}));
  EXPECT_EQ(*MicroBatchSizes("all", 3), Sizes({1, 2, 3}));
  EXPECT_EQ(*MicroBatchSizes("8,2,2", 8), Sizes({2, 8}));
  for (const char* wrong : {"", "0", "-1", "8,", "all,1", "65537", "1.5"}) {
    EXPECT_FALSE(MicroBatchSizes(wrong, 8).ok()) << wrong;
  }
}

}  // namespace
}  // namespace tidepool
