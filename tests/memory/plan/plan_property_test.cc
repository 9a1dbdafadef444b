// SPDX-License-Identifier: Apache-2.0
// Plans of small problems, compared with a planner that tries everything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"
#include "tests/support/shared_files.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using testing::kNoLimit;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::SlowIsValid;
using testing::SlowSmallestHeight;

void ExpectSmallest(const PlanProblem& problem) {
  const absl::StatusOr<Plan> plan = MakePlan(problem, {.time_limit_seconds = kNoLimit});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(SlowIsValid(problem, plan->offsets, plan->height));
  EXPECT_EQ(plan->height, SlowSmallestHeight(problem));
  EXPECT_TRUE(plan->optimal);
  EXPECT_EQ(plan->lower_bound, plan->height);
  EXPECT_LE(*PlanLowerBound(problem), plan->height);
}

class PlanShapes : public ::testing::TestWithParam<ProblemShape> {};

TEST_P(PlanShapes, ReachAndProveTheSmallestHeight) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    ProblemShape shape = GetParam();
    shape.buffers = 1 + static_cast<int>(random() % shape.buffers);
    ExpectSmallest(RandomProblem(random, shape));
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PlanShapes,
    ::testing::Values(
        ProblemShape{.buffers = 7}, ProblemShape{.buffers = 7, .times = 3},
        ProblemShape{.buffers = 7, .times = 12, .largest = 3},
        ProblemShape{.buffers = 7, .largest = 5, .unit = 512},
        ProblemShape{.buffers = 6, .alignment_bits = 3},
        ProblemShape{.buffers = 6, .largest = 40, .alignment_bits = 4},
        ProblemShape{.buffers = 6, .times = 2, .largest = 100'000, .unit = 1 << 20},
        // Heights beyond 32 bits, and times at both ends of the range.
        ProblemShape{.buffers = 6, .unit = (std::int64_t{1} << 33) + 1, .earliest = INT64_MIN},
        ProblemShape{.buffers = 6, .times = 5, .alignment_bits = 30, .earliest = INT64_MAX - 5}));

TEST(PlanProperty, CutRectanglesArePutTogetherAgain) {
  std::mt19937_64 random(5);
  for (const int pieces : {2, 10, 30, 60, 100, 150}) {
    for (const std::int64_t height : {std::int64_t{200}, std::int64_t{1} << 45}) {
      SCOPED_TRACE(absl::StrCat(pieces, " ", height));
      const PlanProblem problem = testing::CutRectangle(random, pieces, 100'000, height);
      const auto plan = MakePlan(problem, {.time_limit_seconds = kNoLimit});
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->height, height);
      EXPECT_TRUE(plan->optimal);
    }
  }
}

// Whether a capacity can be met is decided, one way or the other.
TEST(PlanProperty, CapacitiesAreMetOrRefuted) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const PlanProblem problem = RandomProblem(random, {.buffers = 7, .largest = 6});
    const std::int64_t smallest = SlowSmallestHeight(problem);
    for (std::int64_t capacity = 6; capacity <= smallest + 3; ++capacity) {
      const auto plan = MakePlan(problem, {.capacity = capacity, .time_limit_seconds = kNoLimit});
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->height <= capacity, smallest <= capacity);
      EXPECT_EQ(plan->lower_bound > capacity, smallest > capacity);
      EXPECT_LE(plan->lower_bound, smallest);
    }
  }
}

// The referee agrees with the comparison of all pairs.
TEST(PlanProperty, ValidatorAgreesWithAllPairs) {
  std::mt19937_64 random(3);
  int valid = 0;
  for (int i = 0; i < 20'000; ++i) {
    const PlanProblem problem =
        RandomProblem(random, {.buffers = 4, .largest = 3, .alignment_bits = 1});
    std::vector<std::int64_t> offsets(4);
    for (std::int64_t& offset : offsets) offset = static_cast<std::int64_t>(random() % 10);
    const bool expected = SlowIsValid(problem, offsets, 9);
    valid += expected ? 1 : 0;
    ASSERT_EQ(ValidatePlan(problem, offsets, 9).ok(), expected) << i;
  }
  EXPECT_GT(valid, 500);
  EXPECT_LT(valid, 19'500);
}

// Plans of problems that are too large to be solved by trying everything.
TEST(PlanProperty, LargerPlansAreValidAndNoHigherThanAnyHeuristic) {
  std::mt19937_64 random(4);
  for (const int buffers : {100, 1'000, 10'000}) {
    for (const int alignment_bits : {0, 9}) {
      SCOPED_TRACE(absl::StrCat(buffers, " ", alignment_bits));
      const PlanProblem problem = RandomProblem(
          random,
          {.buffers = buffers, .times = 50, .largest = 1000, .alignment_bits = alignment_bits});
      const auto first = MakePlan(problem, {.time_limit_seconds = 0});
      const auto later = MakePlan(problem, {.time_limit_seconds = 0.2});
      ASSERT_TRUE(first.ok() && later.ok());
      EXPECT_TRUE(ValidatePlan(problem, later->offsets, later->height).ok());
      EXPECT_LE(later->height, first->height);
      EXPECT_GE(later->height, *PlanLowerBound(problem));
    }
  }
}

PlanProblem ToProblem(const nlohmann::json& buffers) {
  PlanProblem problem;
  for (const nlohmann::json& buffer : buffers) {
    problem.buffers.push_back({.lower = buffer[1], .upper = buffer[2], .bytes = buffer[0]});
  }
  return problem;
}

TEST(PlanVectors, ReachAndProveTheExactHeights) {
  TIDEPOOL_SKIP_WITHOUT(testing::SharedFile("vectors/dsa.json"));
  int count = 0;
  for (const nlohmann::json& vector : testing::Json(testing::SharedFile("vectors/dsa.json"))) {
    SCOPED_TRACE(vector["name"]);
    const PlanProblem problem = ToProblem(vector["buffers"]);
    const auto plan = MakePlan(problem, {.time_limit_seconds = kNoLimit});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->height, vector["expect"]["height"]);
    EXPECT_TRUE(plan->optimal);
    EXPECT_EQ(*PlanLowerBound(problem), vector["expect"]["load_bound"]);
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(PlanVectors, HardPublicInputsFitTheirCapacity) {
  const auto folder = testing::SharedFile("traces/lifetimes");
  TIDEPOOL_SKIP_WITHOUT(folder);
  int count = 0;
  for (const auto& file : testing::Cases(testing::FilesIn(folder, ".1048576.csv"))) {
    SCOPED_TRACE(file);
    const auto trace = ReadTrace(file);
    ASSERT_TRUE(trace.ok()) << trace.status();
    const auto problem = ToPlanProblem(*trace, 1);
    ASSERT_TRUE(problem.ok()) << problem.status();
    const auto plan = MakePlan(*problem, {.capacity = 1'048'576, .time_limit_seconds = kNoLimit});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LE(plan->height, 1'048'576);
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace tidepool
