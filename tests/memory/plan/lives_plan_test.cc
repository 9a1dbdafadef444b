// SPDX-License-Identifier: Apache-2.0
// Plans of buffers that leave and come back to the same memory.
#include "lib/memory/plan/lives_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "lib/memory/plan/ejection_search.h"
#include "lib/memory/plan/instance.h"

namespace tidepool::plan {
namespace {

constexpr double kWork = 1e6;

Plan PlanWithin(const std::vector<LivingBuffer>& buffers, std::int64_t capacity,
                std::int64_t alignment = 1, const std::vector<std::int64_t>& start_offsets = {}) {
  budget::Budget budget(1e9, {});
  return PlanLives(buffers,
                   {.alignment = alignment,
                    .capacity = capacity,
                    .work = kWork,
                    .seed = 1,
                    .start_offsets = start_offsets},
                   budget);
}

bool ShareAStep(const LivingBuffer& a, const LivingBuffer& b) {
  return std::any_of(a.lives.begin(), a.lives.end(), [&](const Life& one) {
    return std::any_of(b.lives.begin(), b.lives.end(), [&](const Life& other) {
      return one.lower < other.upper && other.lower < one.upper;
    });
  });
}

void ExpectPlan(const std::vector<LivingBuffer>& buffers, std::int64_t alignment,
                const Plan& plan) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  std::int64_t height = 0;
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_GE(plan.offsets[a], 0);
    EXPECT_EQ(plan.offsets[a] % alignment, 0);
    height = std::max(height, plan.offsets[a] + buffers[a].bytes);
    for (std::size_t b = 0; b < a; ++b) {
      if (!ShareAStep(buffers[a], buffers[b])) continue;
      EXPECT_TRUE(plan.offsets[a] + buffers[a].bytes <= plan.offsets[b] ||
                  plan.offsets[b] + buffers[b].bytes <= plan.offsets[a])
          << a << " and " << b;
    }
  }
  EXPECT_EQ(plan.height, height);
}

std::int64_t LiveBytes(const std::vector<LivingBuffer>& buffers, std::int64_t step) {
  std::int64_t bytes = 0;
  for (const LivingBuffer& buffer : buffers) {
    for (const Life& life : buffer.lives) {
      if (life.lower <= step && step < life.upper) bytes += buffer.bytes;
    }
  }
  return bytes;
}

// Buffers with up to three lives in `steps` steps; some are there at both ends.
std::vector<LivingBuffer> RandomBuffers(std::mt19937_64& random, std::int64_t steps) {
  std::vector<LivingBuffer> buffers(2 + random() % 20);
  for (LivingBuffer& buffer : buffers) {
    buffer.bytes = 1 + static_cast<std::int64_t>(random() % 64);
    for (std::uint64_t lives = 1 + random() % 3; lives > 0; --lives) {
      const auto lower = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(steps));
      const auto length = static_cast<std::int64_t>(1 + random() % 6);
      buffer.lives.push_back({lower, std::min(lower + length, steps)});
    }
    if (random() % 3 == 0) {
      buffer.lives.push_back({-1, 1});
      buffer.lives.push_back({steps - 1, steps});
    }
    Join(buffer.lives);
  }
  return buffers;
}

TEST(LivesPlan, SharesNoAddressAtOneStep) {
  constexpr std::int64_t kSteps = 24;
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const std::vector<LivingBuffer> buffers = RandomBuffers(random, kSteps);
    std::int64_t most = 0;
    for (std::int64_t step = -1; step < kSteps; ++step) {
      most = std::max(most, LiveBytes(buffers, step));
    }
    const std::int64_t alignment = std::int64_t{1} << random() % 5;
    for (const std::int64_t memory : {most, most + most / 4, most / 2}) {
      const Plan plan = PlanWithin(buffers, memory, alignment);
      ExpectPlan(buffers, alignment, plan);
      EXPECT_GE(plan.height, most);
    }
  }
}

TEST(LivesPlan, SharesNoAddressWhenItGoesOnFromAnyOffsets) {
  constexpr std::int64_t kSteps = 24;
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const std::vector<LivingBuffer> buffers = RandomBuffers(random, kSteps);
    const std::int64_t alignment = std::int64_t{1} << random() % 5;
    std::vector<std::int64_t> near;
    near.reserve(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      near.push_back(static_cast<std::int64_t>(random() % 300) - 50);
    }
    ExpectPlan(buffers, alignment, PlanWithin(buffers, 200, alignment, near));
  }
}

TEST(LivesPlan, KeepsAPlanNearByThatFits) {
  std::mt19937_64 random(13);
  int kept = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const std::vector<LivingBuffer> buffers = RandomBuffers(random, 24);
    const Plan plan = PlanWithin(buffers, 300);
    if (plan.height > 300) continue;
    ++kept;
    EXPECT_EQ(PlanWithin(buffers, 300, 1, plan.offsets).offsets, plan.offsets);
  }
  EXPECT_GT(kept, 0);
}

TEST(LivesPlan, GivesTheMemoryToOthersMeanwhile) {
  const std::vector<LivingBuffer> buffers = {{.bytes = 8, .lives = {{-1, 2}, {8, 10}}},
                                             {.bytes = 5, .lives = {{3, 5}}},
                                             {.bytes = 3, .lives = {{4, 7}}},
                                             {.bytes = 2, .lives = {{-1, 10}}},
                                             {.bytes = 8, .lives = {{7, 8}}}};
  EXPECT_EQ(PlanWithin(buffers, 10).height, 10);
}

// Weights leave in one order and come back in another: a stack in either order has holes that the
// large buffer does not fit in.
TEST(LivesPlan, FindsOrdersThatAStackDoesNotHave) {
  const std::vector<LivingBuffer> buffers = {{.bytes = 4, .lives = {{-1, 2}, {9, 12}}},
                                             {.bytes = 4, .lives = {{-1, 5}, {11, 12}}},
                                             {.bytes = 4, .lives = {{-1, 3}, {6, 12}}},
                                             {.bytes = 8, .lives = {{3, 6}}},
                                             {.bytes = 8, .lives = {{7, 9}}}};
  EXPECT_EQ(PlanWithin(buffers, 12).height, 12);
}

TEST(LivesPlan, EndsWhereNoPlanFits) {
  const std::vector<LivingBuffer> buffers = {{.bytes = 4, .lives = {{0, 2}, {3, 4}}},
                                             {.bytes = 4, .lives = {{1, 4}}}};
  const Plan plan = PlanWithin(buffers, 6);
  ExpectPlan(buffers, 1, plan);
  EXPECT_EQ(plan.height, 8);
}

TEST(LivesPlan, TakesNoBuffers) { EXPECT_EQ(PlanWithin({}, 6).height, 0); }

TEST(LivesPlan, JoinsLivesThatTouch) {
  std::vector<Life> lives = {{5, 6}, {0, 2}, {2, 3}, {1, 2}};
  Join(lives);
  ASSERT_EQ(lives.size(), 2u);
  EXPECT_EQ(lives[0].lower, 0);
  EXPECT_EQ(lives[0].upper, 3);
  EXPECT_EQ(lives[1].lower, 5);
  EXPECT_EQ(lives[1].upper, 6);
}

// The third buffer is there while the second one is away.
TEST(LivesPlan, PlacesBuffersAboveTheStackedOnesThatTheyMeet) {
  const std::vector<LivingBuffer> buffers = {{.bytes = 4, .lives = {{-1, 9}}},
                                             {.bytes = 3, .lives = {{-1, 1}, {6, 9}}},
                                             {.bytes = 3, .lives = {{2, 6}}},
                                             {.bytes = 2, .lives = {{5, 8}}}};
  const Plan plan = PlanWithin(buffers, 1);
  EXPECT_EQ(plan.offsets, (std::vector<std::int64_t>{0, 4, 4, 7}));
}

TEST(EjectionSearch, ReturnsTheFullestPlanWhereNoneIsComplete) {
  const std::vector<LivingBuffer> buffers = {{.bytes = 6, .lives = {{0, 3}}},
                                             {.bytes = 5, .lives = {{0, 2}, {4, 5}}},
                                             {.bytes = 4, .lives = {{1, 5}}}};
  const std::vector<std::size_t> all = {0, 1, 2};
  const Instance instance = ToInstance(buffers, all, 1);
  EXPECT_EQ(instance.lower_bound, 15);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    budget::Budget whole;
    budget::Budget budget(whole, 100);
    const FullestPlan fullest = SearchByEjection(instance, 11, {0, 6, 11}, {.seed = seed}, budget);
    EXPECT_FALSE(fullest.IsComplete());
    EXPECT_EQ(fullest.unplaced_size, 4);
    EXPECT_EQ(fullest.offsets[2], kUnplaced);
  }
}

TEST(EjectionSearch, KeepsToFloors) {
  const std::vector<LivingBuffer> buffers = {{.bytes = 4, .lives = {{0, 3}}},
                                             {.bytes = 3, .lives = {{3, 5}}}};
  const std::vector<std::size_t> all = {0, 1};
  Instance instance = ToInstance(buffers, all, 1);
  instance.floor = {3, 0};
  budget::Budget budget;
  const FullestPlan plan = SearchByEjection(instance, 7, {7, 0}, {}, budget);
  EXPECT_TRUE(plan.IsComplete());
  EXPECT_EQ(plan.offsets, (Offsets{3, 0}));
}

TEST(LivesPlan, GivesTheSamePlanForASeed) {
  std::mt19937_64 random(3);
  const std::vector<LivingBuffer> buffers = RandomBuffers(random, 24);
  const Plan plan = PlanWithin(buffers, 1);
  EXPECT_EQ(PlanWithin(buffers, 1).offsets, plan.offsets);
}

}  // namespace
}  // namespace tidepool::plan
