// SPDX-License-Identifier: Apache-2.0
// Repetitions are found and planned once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lib/memory/plan/twins.h"
#include "tests/support/random_problem.h"

namespace tidepool {
namespace {

using plan::FindTwins;
using ::testing::ElementsAre;

PlanBuffer Shifted(PlanBuffer buffer, std::int64_t by) {
  buffer.lower += by;
  buffer.upper += by;
  return buffer;
}

TEST(FindTwins, NothingHasNone) { EXPECT_TRUE(FindTwins({}).empty()); }

TEST(FindTwins, EqualEpisodesBesideWeights) {
  // A weight, two equal steps, and a third one in another order of rows and with another size.
  const PlanProblem problem = {
      {{0, 100, 50}, {10, 14, 3}, {12, 16, 4}, {20, 24, 3}, {22, 26, 4}, {32, 36, 5}, {30, 34, 3}}};
  EXPECT_THAT(FindTwins(problem), ElementsAre(0, 1, 2, 1, 2, 5, 6));
}

TEST(FindTwins, AnotherBackgroundIsAnotherEpisode) {
  // The second weight comes after the first step; the second and third steps are equal.
  const PlanProblem problem = {
      {{0, 100, 50}, {10, 14, 3}, {18, 100, 50}, {20, 24, 3}, {30, 34, 3}, {95, 96, 1}}};
  EXPECT_THAT(FindTwins(problem), ElementsAre(0, 1, 2, 3, 3, 5));
}

TEST(FindTwins, TheBackgroundMayNotChangeWithinAnEpisode) {
  const PlanProblem problem = {
      {{0, 100, 50}, {12, 100, 50}, {10, 14, 3}, {20, 24, 3}, {95, 96, 1}}};
  EXPECT_THAT(FindTwins(problem), ElementsAre(0, 1, 2, 3, 4));
}

TEST(FindTwins, AlignmentsCount) {
  const PlanProblem problem = {{{10, 14, 8}, {20, 24, 8}, {30, 34, 8, 8}, {40, 44, 8, 8}}};
  EXPECT_THAT(FindTwins(problem), ElementsAre(0, 0, 2, 2));
}

// Repeated steps beside weights need as much as one step, and are planned to the smallest height.
TEST(PlanTwins, RepeatedStepsNeedNoMoreThanOne) {
  std::mt19937_64 random(1);
  constexpr std::int64_t kTimes = 8;
  constexpr int kRepeats = 20;
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    PlanProblem step =
        testing::RandomProblem(random, {.buffers = 5, .times = kTimes, .largest = 9});
    PlanProblem problem = {{{-5, kTimes * kRepeats, 4}, {-3, kTimes * kRepeats, 3}}};
    for (int k = 0; k < kRepeats; ++k) {
      for (const PlanBuffer& buffer : step.buffers) {
        problem.buffers.push_back(Shifted(buffer, kTimes * k));
      }
    }
    for (std::size_t k = 0; k < 2; ++k) step.buffers.push_back(problem.buffers[k]);
    const auto plan = MakePlan(problem, {.time_limit_seconds = 1e9});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->height, testing::SlowSmallestHeight(step));
    EXPECT_TRUE(plan->optimal);
    const std::vector<std::uint32_t> twins = FindTwins(problem);
    std::size_t planned = 0;
    for (std::uint32_t k = 0; k < twins.size(); ++k) {
      planned += twins[k] == k ? 1 : 0;
      EXPECT_EQ(plan->offsets[k], plan->offsets[twins[k]]);
    }
    EXPECT_LE(planned, step.buffers.size());  // less where a step repeats something itself
  }
}

}  // namespace
}  // namespace tidepool
