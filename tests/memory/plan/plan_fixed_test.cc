// SPDX-License-Identifier: Apache-2.0
// Plans around buffers that are fixed at an offset.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/budget/budget.h"
#include "lib/memory/plan/exact_search.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/order.h"
#include "lib/memory/plan/twins.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using testing::FixSome;
using ::testing::HasSubstr;
using testing::kNoLimit;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::SlowIsValid;

constexpr std::int64_t kMost = std::int64_t{1} << 60;

PlanBuffer Fixed(std::int64_t lower, std::int64_t upper, std::int64_t bytes, std::int64_t offset) {
  return {.lower = lower, .upper = upper, .bytes = bytes, .offset = offset};
}

void ExpectError(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
}

void ExpectRefused(const PlanProblem& problem, const std::string& text) {
  ExpectError(MakePlan(problem).status(), text);
  ExpectError(PlanLowerBound(problem).status(), text);
}

TEST(FixedBuffers, StayAndTheOthersGoAround) {
  const PlanProblem problem = {{Fixed(0, 9, 10, 5), {0, 9, 5}, {0, 9, 6}, {3, 4, 7}, {5, 6, 7}}};
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->offsets, ElementsAre(5, 0, ::testing::_, ::testing::_, ::testing::_));
  EXPECT_EQ(plan->height, 28);
  EXPECT_TRUE(plan->optimal);
}

TEST(FixedBuffers, AloneTheyAreThePlan) {
  const auto plan = MakePlan({{Fixed(0, 9, 10, 5), Fixed(0, 3, 1, 100), Fixed(9, 12, 7, 4)}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->offsets, ElementsAre(5, 100, 4));
  EXPECT_EQ(plan->height, 101);
  EXPECT_EQ(plan->lower_bound, 101);
  EXPECT_TRUE(plan->optimal);
}

TEST(FixedBuffers, AreOneObstacleWhereTheyTouchAtTheSameTimes) {
  const auto obstacles = [](const PlanBuffer& other) {
    const PlanProblem problem = {{Fixed(0, 4, 8, 16), {0, 9, 8}, other, {3, 9, 8}}};
    return plan::ToInstances(problem).front().obstacles();
  };
  EXPECT_EQ(obstacles(Fixed(0, 4, 8, 24)), 1);
  EXPECT_EQ(obstacles(Fixed(0, 4, 8, 8)), 1);
  EXPECT_EQ(obstacles(Fixed(0, 4, 8, 32)), 2);
  EXPECT_EQ(obstacles(Fixed(0, 2, 8, 24)), 2);
}

TEST(FixedBuffers, NeedNoAlignment) {
  PlanBuffer odd = Fixed(0, 9, 10, 3);
  odd.alignment = 8;
  const auto plan = MakePlan({{odd, {0, 9, 8, 8}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->offsets, ElementsAre(3, 16));
  EXPECT_TRUE(plan->optimal);
}

TEST(FixedBuffers, RefusesOffsetsThatAreNone) {
  ExpectRefused({{{0, 1, 1}, Fixed(0, 1, 8, -2)}}, "buffer 1: 8 bytes at offset -2");
  ExpectRefused({{{0, 1, 1}, Fixed(0, 1, 8, std::numeric_limits<std::int64_t>::min())}},
                "buffer 1: 8 bytes at offset -9223372036854775808");
  for (const std::int64_t offset : {std::int64_t{1} << 62, (std::int64_t{1} << 62) - 1,
                                    std::numeric_limits<std::int64_t>::max(), kMost, kMost - 7}) {
    ExpectRefused({{{0, 1, 1}, Fixed(0, 1, 8, offset)}},
                  absl::StrCat("buffer 1: 8 bytes at offset ", offset));
  }
  const auto highest = MakePlan({{{0, 1, 1}, Fixed(0, 1, 8, kMost - 8), {0, 1, 3, 4}}});
  ASSERT_TRUE(highest.ok()) << highest.status();
  EXPECT_EQ(highest->height, kMost);
}

TEST(FixedBuffers, RefusesThoseThatOverlap) {
  const std::string text =
      "buffer 0 fixed at offset 10 and buffer 2 fixed at offset 5 overlap in time and address";
  ExpectRefused({{Fixed(0, 5, 4, 10), {0, 5, 4}, Fixed(4, 9, 6, 5)}}, text);
  ExpectRefused({{Fixed(4, 9, 4, 10), {0, 5, 4}, Fixed(0, 5, 6, 5)}}, text);
  // At other times, or side by side.
  EXPECT_TRUE(MakePlan({{Fixed(0, 4, 4, 10), {0, 5, 4}, Fixed(4, 9, 6, 5)}}).ok());
  EXPECT_TRUE(MakePlan({{Fixed(0, 5, 4, 11), {0, 5, 4}, Fixed(4, 9, 6, 5)}}).ok());
}

TEST(FixedBuffers, RefusesACapacityBelowTheirEnd) {
  const PlanProblem problem = {{{0, 1, 5}, Fixed(1, 2, 9, 90), {2, 3, 7}}};
  ExpectError(MakePlan(problem, {.capacity = 98}).status(),
              "capacity 98, expected at least 99, the end of buffer 1, which is fixed");
  EXPECT_TRUE(MakePlan(problem, {.capacity = 99}).ok());
}

TEST(FixedBuffers, TheValidatorKnowsThem) {
  const PlanProblem problem = {{Fixed(0, 5, 10, 8), {0, 5, 4}}};
  EXPECT_TRUE(ValidatePlan(problem, {8, 0}, 18).ok());
  ExpectError(ValidatePlan(problem, {7, 0}, 18), "buffer 0 at offset 7, expected 8");
  ExpectError(ValidatePlan(problem, {8, 5}, 18), "buffers 0 and 1 overlap at time 0");
  ExpectError(ValidatePlan(problem, {8, 0}, 17), "expected its end within 17");
}

TEST(FixedBuffers, HolesThatAreTooSmallCountInTheBound) {
  // Nothing of 5 fits into holes of 4, and the smaller ones alone fill them.
  const PlanProblem problem = {
      {Fixed(0, 9, 6, 4), Fixed(0, 9, 6, 14), {0, 9, 5}, {2, 3, 5}, {4, 6, 4}, {5, 7, 2}}};
  EXPECT_EQ(*PlanLowerBound(problem), 30);
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 30);
  EXPECT_TRUE(plan->optimal);
}

TEST(FixedBuffers, TwinsAreFixedAtTheSameOffset) {
  const PlanProblem problem = {{{0, 100, 50},
                                {10, 14, 3},
                                Fixed(12, 16, 4, 60),
                                {20, 24, 3},
                                Fixed(22, 26, 4, 60),
                                {30, 34, 3},
                                Fixed(32, 36, 4, 61)}};
  EXPECT_THAT(plan::FindTwins(problem), ElementsAre(0, 1, 2, 1, 2, 5, 6));
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 65);
}

class FixedShapes : public ::testing::TestWithParam<ProblemShape> {};

// Some buffers of a random plan are fixed, so the smallest height is at most the height of that
// plan.
TEST_P(FixedShapes, ReachTheSmallestHeight) {
  std::mt19937_64 random(1);
  int higher = 0;
  int proved = 0;
  const int problems = testing::Rounds(200);
  for (int i = 0; i < problems; ++i) {
    SCOPED_TRACE(i);
    const PlanProblem free = RandomProblem(random, GetParam());
    const auto planted = MakePlan(free, {.time_limit_seconds = 0});
    ASSERT_TRUE(planted.ok()) << planted.status();
    const PlanProblem problem = FixSome(random, free, planted->offsets, 3);
    const std::int64_t smallest = testing::SlowSmallestHeightAroundFixed(problem);
    const auto plan = MakePlan(problem, {.time_limit_seconds = kNoLimit});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(SlowIsValid(problem, plan->offsets, plan->height));
    EXPECT_GE(plan->height, smallest);
    EXPECT_LE(plan->lower_bound, smallest);
    EXPECT_LE(*PlanLowerBound(problem), plan->lower_bound);
    EXPECT_LE(static_cast<double>(plan->height), 1.1 * static_cast<double>(planted->height));
    EXPECT_EQ(plan->optimal, plan->height == plan->lower_bound);
    higher += plan->height > smallest ? 1 : 0;
    proved += plan->optimal ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_EQ(higher, 0);
  EXPECT_GT(proved, problems / 3);
}

INSTANTIATE_TEST_SUITE_P(
    All, FixedShapes,
    ::testing::Values(
        ProblemShape{.buffers = 8}, ProblemShape{.buffers = 8, .times = 3},
        ProblemShape{.buffers = 8, .times = 1, .largest = 30},
        ProblemShape{.buffers = 8, .times = 12, .largest = 3},
        ProblemShape{.buffers = 8, .largest = 5, .unit = 512},
        ProblemShape{.buffers = 7, .alignment_bits = 3},
        ProblemShape{.buffers = 7, .largest = 40, .alignment_bits = 4},
        ProblemShape{.buffers = 7, .unit = (std::int64_t{1} << 33) + 1, .earliest = INT64_MIN}));

// Obstacles at random, most of which are there throughout, misaligned and far apart.
TEST(FixedProperty, ReachTheSmallestHeightAmongObstacles) {
  std::mt19937_64 random(2);
  for (int i = 0; i < testing::Rounds(500); ++i) {
    SCOPED_TRACE(i);
    PlanProblem problem = RandomProblem(random, {.buffers = 5, .alignment_bits = 2});
    std::int64_t offset = 0;
    for (unsigned k = 0; k < random() % 5; ++k) {
      offset += static_cast<std::int64_t>(random() % 12);
      const auto lower = static_cast<std::int64_t>(random() % 3 == 0 ? random() % 6 : 0);
      const std::int64_t upper = random() % 3 == 0 ? lower + 1 : 6;
      problem.buffers.push_back(
          Fixed(lower, upper, 1 + static_cast<std::int64_t>(random() % 6), offset));
      offset += problem.buffers.back().bytes;
    }
    const auto plan = MakePlan(problem, {.time_limit_seconds = kNoLimit});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(SlowIsValid(problem, plan->offsets, plan->height));
    EXPECT_EQ(plan->height, testing::SlowSmallestHeightAroundFixed(problem));
    EXPECT_LE(plan->lower_bound, plan->height);
    if (HasFailure()) return;
  }
}

// Obstacles that live throughout leave holes, in which the smallest height is proved.
TEST(FixedProperty, ReachAndProveTheSmallestHeightInHoles) {
  std::mt19937_64 random(4);
  for (int i = 0; i < testing::Rounds(1'000); ++i) {
    SCOPED_TRACE(i);
    const std::int64_t unit = i % 2 == 0 ? 1 : (std::int64_t{1} << 33) + 1;
    PlanProblem problem = RandomProblem(random, {.buffers = 6, .unit = unit});
    std::int64_t offset = 0;
    for (unsigned k = 0; k < 1 + random() % 6; ++k) {
      offset += unit * static_cast<std::int64_t>(random() % 12);
      const std::int64_t bytes = unit * static_cast<std::int64_t>(1 + random() % 6);
      problem.buffers.push_back(Fixed(-1, 7, bytes, offset));
      offset += bytes;
    }
    const auto plan = MakePlan(problem, {.time_limit_seconds = kNoLimit});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(SlowIsValid(problem, plan->offsets, plan->height));
    EXPECT_EQ(plan->height, testing::SlowSmallestHeightAroundFixed(problem));
    EXPECT_TRUE(plan->optimal);
    if (HasFailure()) return;
  }
}

// No byte is free, neither in the rectangle nor in the obstacles that cut through it.
TEST(FixedBuffers, HaveNoOffsetsInTheAnswersOfTheExactSearch) {
  const PlanProblem problem = {{Fixed(0, 9, 10, 5), {0, 9, 5}, {0, 4, 7}, {4, 9, 7}}};
  const std::vector<plan::Instance> instances = plan::ToInstances(problem);
  ASSERT_EQ(instances.size(), 1u);
  budget::Budget whole(kNoLimit, {});
  budget::Budget budget(whole, 1000);
  const plan::Key keys[] = {plan::Key::kArea};
  const plan::ExactAnswer answer = plan::ExactSearch(instances.front(), 1).Find(22, keys, budget);
  ASSERT_EQ(answer.kind, plan::ExactAnswer::Kind::kFound);
  EXPECT_THAT(answer.offsets, ElementsAre(0, 15, 15));
}

TEST(FixedProperty, RectanglesArePutTogetherAgainBetweenObstacles) {
  std::mt19937_64 random(5);
  for (const int pieces : {2, 10, 30, 60}) {
    SCOPED_TRACE(pieces);
    PlanProblem problem;
    std::int64_t offset = 0;
    for (int k = 0; k < 4; ++k) {
      for (PlanBuffer& buffer : testing::CutRectangle(random, pieces, 100'000, 200).buffers) {
        problem.buffers.push_back(buffer);
      }
      problem.buffers.push_back(Fixed(0, 100'000, 7, offset + 200));
      offset += 207;
    }
    const auto plan = MakePlan(problem, {.time_limit_seconds = kNoLimit});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->height, offset);
    EXPECT_TRUE(plan->optimal);
  }
}

// Problems too large for brute force: plans are valid, and not much higher than the planted plan.
TEST(FixedProperty, LargerPlansAreNearThePlantedOne) {
  std::mt19937_64 random(3);
  for (const int buffers : {50, 300, 3'000}) {
    for (const int alignment_bits : {0, 9}) {
      for (const int one_in : {2, 10}) {
        SCOPED_TRACE(absl::StrCat(buffers, " ", alignment_bits, " ", one_in));
        const PlanProblem free = RandomProblem(
            random,
            {.buffers = buffers, .times = 50, .largest = 1000, .alignment_bits = alignment_bits});
        const auto planted = MakePlan(free, {.time_limit_seconds = 0});
        ASSERT_TRUE(planted.ok()) << planted.status();
        const PlanProblem problem = FixSome(random, free, planted->offsets, one_in);
        const auto first = MakePlan(problem, {.time_limit_seconds = 0});
        const auto plan = MakePlan(problem, {.time_limit_seconds = 0.5});
        ASSERT_TRUE(first.ok() && plan.ok());
        EXPECT_TRUE(ValidatePlan(problem, plan->offsets, plan->height).ok());
        EXPECT_LE(plan->height, first->height);
        EXPECT_GE(plan->height, plan->lower_bound);
        EXPECT_LE(static_cast<double>(plan->height), 1.1 * static_cast<double>(planted->height));
      }
    }
  }
}

}  // namespace
}  // namespace tidepool
