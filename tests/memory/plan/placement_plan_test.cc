// SPDX-License-Identifier: Apache-2.0
// Conversion of plans to the form that pools follow.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/random_problem.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

// Returns the nearest block below a request among the buffers live at that time.
std::int64_t UsedBelow(const PlanProblem& problem, const std::vector<std::int64_t>& offsets,
                       std::size_t request) {
  const PlanBuffer& asked = problem.buffers[request];
  std::int64_t below = Clue::kFirst;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const PlanBuffer& other = problem.buffers[i];
    const bool is_live = other.lower < asked.lower && asked.lower < other.upper;
    const bool came_before = other.lower == asked.lower && i < request;
    if ((is_live || came_before) && offsets[i] < offsets[request]) {
      below = std::max(below, offsets[i]);
    }
  }
  return below;
}

TEST(PlacementPlanTest, KnowsWhatLiesBelowEachRequest) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const PlanProblem problem = testing::RandomProblem(
        random, {.buffers = 1 + static_cast<int>(random() % 30), .times = 12});
    const Plan plan = MakePlan(problem, {.time_limit_seconds = 0}).value();
    const std::size_t requests = 1 + random() % problem.buffers.size();
    const auto placement = ToPlacementPlan(problem, plan.offsets, requests);
    ASSERT_EQ(placement->requests().size(), requests);
    for (std::size_t i = 0; i < requests; ++i) {
      const PlannedRequest& request = placement->requests()[i];
      EXPECT_EQ(request.bytes, problem.buffers[i].bytes);
      EXPECT_EQ(request.offset, plan.offsets[i]);
      EXPECT_EQ(request.clue.used_below, UsedBelow(problem, plan.offsets, i));
    }
  }
}

}  // namespace
}  // namespace tidepool
