// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/plan/taken_addresses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/memory/plan/first_fit_plan.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/order.h"

namespace tidepool::plan {
namespace {

// The lowest place: as long as something is in the way, the next one above it.
std::int64_t LowestPlace(const Instance& instance, const Offsets& offsets, std::int32_t buffer) {
  const std::int32_t all = instance.count() + instance.obstacles();
  std::int64_t place = instance.FloorOf(buffer);
  for (std::int32_t other = 0; other < all; ++other) {
    const std::int64_t offset = other < instance.count()
                                    ? offsets[other]
                                    : instance.obstacle_offset[other - instance.count()];
    if (offset == kUnplaced || !instance.Overlap(buffer, other)) continue;
    const std::int64_t top = offset + instance.size[other];
    if (place >= top || offset >= place + instance.size[buffer]) continue;
    place = RoundUp(top, instance.alignment[buffer]);
    other = -1;  // begins again
  }
  return place;
}

void ExpectLowestPlaces(const Instance& instance, Offsets offsets) {
  TakenAddresses taken(instance, offsets);
  for (std::int32_t buffer = 0; buffer < instance.count(); ++buffer) {
    if (offsets[buffer] != kUnplaced) continue;
    offsets[buffer] = LowestPlace(instance, offsets, buffer);
    ASSERT_EQ(taken.LowestPlace(buffer), offsets[buffer]) << buffer;
    taken.Insert(buffer, offsets[buffer]);
  }
}

class TakenAddressesTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::int64_t Below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  // A lifetime of any length, half of them short.
  Life AnyLife(std::int64_t times) {
    const std::int64_t lower = Below(times);
    const std::int64_t longest = Below(2) == 0 ? 8 : times;
    return {lower, lower + 1 + Below(longest)};
  }

  std::mt19937_64 random_{GetParam()};
};

TEST_P(TakenAddressesTest, FindsTheLowestPlacesAmongObstacles) {
  PlanProblem problem;
  const std::int64_t times = 1 + Below(400);
  for (int i = 0; i < 150; ++i) {
    const Life life = AnyLife(times);
    problem.buffers.push_back({.lower = life.lower,
                               .upper = life.upper,
                               .bytes = 1 + Below(20),
                               .alignment = std::int64_t{1} << Below(4)});
  }
  // Obstacles on top of each other overlap nothing.
  std::int64_t top = Below(5);
  for (int i = 0; i < 5; ++i) {
    const Life life = AnyLife(times);
    const std::int64_t bytes = 1 + Below(30);
    problem.buffers.push_back(
        {.lower = life.lower, .upper = life.upper, .bytes = bytes, .offset = top});
    top += bytes + Below(20);
  }
  for (const Instance& instance : ToInstances(problem)) {
    ExpectLowestPlaces(instance, Offsets(instance.buffer.size(), kUnplaced));
  }
}

TEST_P(TakenAddressesTest, FindsTheLowestPlacesOfSeveralLives) {
  std::vector<LivingBuffer> buffers;
  std::vector<std::size_t> members;
  const std::int64_t times = 1 + Below(400);
  for (std::size_t i = 0; i < 150; ++i) {
    LivingBuffer& buffer = buffers.emplace_back();
    buffer.bytes = 1 + Below(20);
    for (std::int64_t lives = 1 + Below(3); lives > 0; --lives) {
      buffer.lives.push_back(AnyLife(times));
    }
    Join(buffer.lives);
    members.push_back(i);
  }
  Instance instance = ToInstance(buffers, members, 1);
  for (int i = 0; i < 150; ++i) instance.floor.push_back(Below(3) * Below(20));
  // The first one is there before all others.
  Offsets offsets(150, kUnplaced);
  offsets[0] = instance.floor[0] + Below(30);
  ExpectLowestPlaces(instance, offsets);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TakenAddressesTest, ::testing::Range<std::uint64_t>(1, 101));

TEST(FirstFitTest, PlacesThousandsOfBuffersAsLowAsTheirOrderAllows) {
  PlanProblem problem;
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    const auto lower = static_cast<std::int64_t>(random() % 5000);
    problem.buffers.push_back({.lower = lower,
                               .upper = lower + 1 + static_cast<std::int64_t>(random() % 300),
                               .bytes = 1 + static_cast<std::int64_t>(random() % 20)});
  }
  for (const Instance& instance : ToInstances(problem)) {
    constexpr Key kLargestFirst[] = {Key::kSize};
    const std::vector<std::int32_t> order = OrderBy(instance, kLargestFirst);
    Offsets found(instance.buffer.size(), kUnplaced);
    CompleteByFirstFit(instance, order, found);
    Offsets expected(found.size(), kUnplaced);
    for (const std::int32_t buffer : order) {
      expected[buffer] = LowestPlace(instance, expected, buffer);
    }
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace tidepool::plan
