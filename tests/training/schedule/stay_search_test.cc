// SPDX-License-Identifier: Apache-2.0
// Plans of stays that go and come back to the same memory.
#include "lib/training/schedule/stay_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace tidepool::schedule {
namespace {

constexpr double kWork = 1e6;

Plan PlanWithin(const std::vector<LivingStay>& stays, std::int64_t memory_bytes,
                std::int64_t alignment = 1, const std::vector<std::int64_t>& near = {}) {
  budget::Budget budget(1e9, {});
  return PlanStays(stays,
                   {.alignment = alignment,
                    .memory_bytes = memory_bytes,
                    .work = kWork,
                    .seed = 1,
                    .near = near},
                   budget);
}

bool ShareAStep(const LivingStay& a, const LivingStay& b) {
  return std::any_of(a.lives.begin(), a.lives.end(), [&](const Life& one) {
    return std::any_of(b.lives.begin(), b.lives.end(), [&](const Life& other) {
      return one.lower < other.upper && other.lower < one.upper;
    });
  });
}

void ExpectPlan(const std::vector<LivingStay>& stays, std::int64_t alignment, const Plan& plan) {
  ASSERT_EQ(plan.offsets.size(), stays.size());
  std::int64_t height = 0;
  for (std::size_t a = 0; a < stays.size(); ++a) {
    EXPECT_GE(plan.offsets[a], 0);
    EXPECT_EQ(plan.offsets[a] % alignment, 0);
    height = std::max(height, plan.offsets[a] + stays[a].bytes);
    for (std::size_t b = 0; b < a; ++b) {
      if (!ShareAStep(stays[a], stays[b])) continue;
      EXPECT_TRUE(plan.offsets[a] + stays[a].bytes <= plan.offsets[b] ||
                  plan.offsets[b] + stays[b].bytes <= plan.offsets[a])
          << a << " and " << b;
    }
  }
  EXPECT_EQ(plan.height, height);
}

std::int64_t LiveBytes(const std::vector<LivingStay>& stays, std::int64_t step) {
  std::int64_t bytes = 0;
  for (const LivingStay& stay : stays) {
    for (const Life& life : stay.lives) {
      if (life.lower <= step && step < life.upper) bytes += stay.bytes;
    }
  }
  return bytes;
}

// Stays with up to three lives in `steps` steps; some are there at both ends.
std::vector<LivingStay> RandomStays(std::mt19937_64& random, std::int64_t steps) {
  std::vector<LivingStay> stays(2 + random() % 20);
  for (LivingStay& stay : stays) {
    stay.bytes = 1 + static_cast<std::int64_t>(random() % 64);
    for (std::uint64_t lives = 1 + random() % 3; lives > 0; --lives) {
      const auto lower = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(steps));
      const auto length = static_cast<std::int64_t>(1 + random() % 6);
      stay.lives.push_back({lower, std::min(lower + length, steps)});
    }
    if (random() % 3 == 0) {
      stay.lives.push_back({-1, 1});
      stay.lives.push_back({steps - 1, steps});
    }
    Join(stay.lives);
  }
  return stays;
}

TEST(StaySearch, SharesNoAddressAtOneStep) {
  constexpr std::int64_t kSteps = 24;
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const std::vector<LivingStay> stays = RandomStays(random, kSteps);
    std::int64_t most = 0;
    for (std::int64_t step = -1; step < kSteps; ++step) {
      most = std::max(most, LiveBytes(stays, step));
    }
    const std::int64_t alignment = std::int64_t{1} << random() % 5;
    for (const std::int64_t memory : {most, most + most / 4, most / 2}) {
      const Plan plan = PlanWithin(stays, memory, alignment);
      ExpectPlan(stays, alignment, plan);
      EXPECT_GE(plan.height, most);
    }
  }
}

TEST(StaySearch, SharesNoAddressWhenItGoesOnFromAnyOffsets) {
  constexpr std::int64_t kSteps = 24;
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const std::vector<LivingStay> stays = RandomStays(random, kSteps);
    const std::int64_t alignment = std::int64_t{1} << random() % 5;
    std::vector<std::int64_t> near;
    near.reserve(stays.size());
    for (std::size_t i = 0; i < stays.size(); ++i) {
      near.push_back(static_cast<std::int64_t>(random() % 300) - 50);
    }
    ExpectPlan(stays, alignment, PlanWithin(stays, 200, alignment, near));
  }
}

TEST(StaySearch, KeepsAPlanNearByThatFits) {
  std::mt19937_64 random(13);
  int kept = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const std::vector<LivingStay> stays = RandomStays(random, 24);
    const Plan plan = PlanWithin(stays, 300);
    if (plan.height > 300) continue;
    ++kept;
    EXPECT_EQ(PlanWithin(stays, 300, 1, plan.offsets).offsets, plan.offsets);
  }
  EXPECT_GT(kept, 0);
}

TEST(StaySearch, GivesTheMemoryToOthersMeanwhile) {
  const std::vector<LivingStay> stays = {{.bytes = 8, .lives = {{-1, 2}, {8, 10}}},
                                         {.bytes = 5, .lives = {{3, 5}}},
                                         {.bytes = 3, .lives = {{4, 7}}},
                                         {.bytes = 2, .lives = {{-1, 10}}},
                                         {.bytes = 8, .lives = {{7, 8}}}};
  EXPECT_EQ(PlanWithin(stays, 10).height, 10);
}

// Weights leave in one order and come back in another: a stack in either order has holes that the
// large stay does not fit in.
TEST(StaySearch, FindsOrdersThatAStackDoesNotHave) {
  const std::vector<LivingStay> stays = {{.bytes = 4, .lives = {{-1, 2}, {9, 12}}},
                                         {.bytes = 4, .lives = {{-1, 5}, {11, 12}}},
                                         {.bytes = 4, .lives = {{-1, 3}, {6, 12}}},
                                         {.bytes = 8, .lives = {{3, 6}}},
                                         {.bytes = 8, .lives = {{7, 9}}}};
  EXPECT_EQ(PlanWithin(stays, 12).height, 12);
}

TEST(StaySearch, EndsWhereNoPlanFits) {
  const std::vector<LivingStay> stays = {{.bytes = 4, .lives = {{0, 2}, {3, 4}}},
                                         {.bytes = 4, .lives = {{1, 4}}}};
  const Plan plan = PlanWithin(stays, 6);
  ExpectPlan(stays, 1, plan);
  EXPECT_EQ(plan.height, 8);
}

TEST(StaySearch, TakesNoStays) { EXPECT_EQ(PlanWithin({}, 6).height, 0); }

TEST(StaySearch, JoinsLivesThatTouch) {
  std::vector<Life> lives = {{5, 6}, {0, 2}, {2, 3}, {1, 2}};
  Join(lives);
  ASSERT_EQ(lives.size(), 2u);
  EXPECT_EQ(lives[0].lower, 0);
  EXPECT_EQ(lives[0].upper, 3);
  EXPECT_EQ(lives[1].lower, 5);
  EXPECT_EQ(lives[1].upper, 6);
}

TEST(StaySearch, GivesTheSamePlanForASeed) {
  std::mt19937_64 random(3);
  const std::vector<LivingStay> stays = RandomStays(random, 24);
  const Plan plan = PlanWithin(stays, 1);
  EXPECT_EQ(PlanWithin(stays, 1).offsets, plan.offsets);
}

}  // namespace
}  // namespace tidepool::schedule
