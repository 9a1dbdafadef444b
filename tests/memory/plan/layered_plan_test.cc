// SPDX-License-Identifier: Apache-2.0
// Plans in layers: valid, equal for equal arguments, and as low as the packing that a problem was
// cut from.
#include "lib/memory/plan/layered_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <stop_token>
#include <vector>

#include "tests/support/random_problem.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

using testing::kNoLimit;

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kEnd = 100;

Plan PlanOf(const PlanProblem& problem, std::int64_t capacity, double work = 1e5) {
  budget::Budget whole(kNoLimit, {});
  return plan::PlanInLayers(problem, {.capacity = capacity, .work = work}, whole);
}

// Returns buffers that fill a rectangle, in granules of the alignment.
PlanProblem Packing(std::mt19937_64& random) {
  PlanProblem problem = testing::CutRectangle(random, 60, kEnd, 20'000);
  for (PlanBuffer& buffer : problem.buffers) {
    buffer.bytes *= kAlignment;
    buffer.alignment = kAlignment;
  }
  return problem;
}

TEST(LayeredPlan, IsValidAndTheSameEachTime) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    PlanProblem problem;
    const std::uint64_t buffers = 1 + random() % 40;
    for (std::uint64_t k = 0; k < buffers; ++k) {
      const bool is_throughout = random() % 3 == 0;
      const auto lower = is_throughout ? -1 : static_cast<std::int64_t>(random() % 20);
      const auto length = static_cast<std::int64_t>(1 + random() % 20);
      const std::uint64_t most = random() % 2 == 0 ? 100 : 100'000;
      problem.buffers.push_back({.lower = lower,
                                 .upper = is_throughout ? 40 : lower + length,
                                 .bytes = static_cast<std::int64_t>(1 + random() % most),
                                 .alignment = kAlignment});
    }
    const std::int64_t bound = PlanLowerBound(problem).value();
    const Plan plan = PlanOf(problem, bound);
    EXPECT_EQ(ValidatePlan(problem, plan.offsets, plan.height), absl::OkStatus());
    EXPECT_EQ(plan.lower_bound, bound);
    EXPECT_GE(plan.height, bound);
    EXPECT_EQ(PlanOf(problem, bound).offsets, plan.offsets);
  }
}

// Weights between the activations of a packing without a hole: the search finds the packing again
// with a percent to spare.
TEST(LayeredPlan, FindsRoomAmongWeightsAndStatistics) {
  std::mt19937_64 random(2);
  int fits = 0;
  for (int i = 0; i < 10; ++i) {
    PlanProblem problem = Packing(random);
    for (int weight = 0; weight < 300; ++weight) {
      problem.buffers.push_back(
          {.lower = -1, .upper = kEnd + 1, .bytes = kAlignment * 7, .alignment = kAlignment});
    }
    const std::int64_t bound = PlanLowerBound(problem).value();
    const Plan plan = PlanOf(problem, bound + bound / 100, 1e6);
    EXPECT_EQ(ValidatePlan(problem, plan.offsets, plan.height), absl::OkStatus());
    if (plan.height <= bound + bound / 100) ++fits;
  }
  EXPECT_GE(fits, 8);
}

// Buffers that live throughout cost no height: any plan of the others lies above them.
TEST(LayeredPlan, StacksWhatLivesThroughout) {
  PlanProblem problem;
  for (int i = 0; i < 5; ++i) {
    problem.buffers.push_back({.lower = 0, .upper = 10, .bytes = 100, .alignment = kAlignment});
  }
  const Plan plan = PlanOf(problem, 0);
  EXPECT_EQ(plan.offsets, (std::vector<std::int64_t>{0, 256, 512, 768, 1024}));
  EXPECT_EQ(plan.height, 1124);
  EXPECT_TRUE(plan.optimal);
}

TEST(LayeredPlan, EndsAtAStop) {
  std::mt19937_64 random(3);
  const PlanProblem problem = Packing(random);
  std::stop_source source;
  source.request_stop();
  budget::Budget whole(kNoLimit, source.get_token());
  const Plan plan = plan::PlanInLayers(problem, {.capacity = 1, .work = 1e18}, whole);
  EXPECT_EQ(ValidatePlan(problem, plan.offsets, plan.height), absl::OkStatus());
}

}  // namespace
}  // namespace tidepool
