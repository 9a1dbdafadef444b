// SPDX-License-Identifier: Apache-2.0
// Tests of the radix sort against std::stable_sort.
#include "lib/trace/model/order_by_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace tidepool::trace {
namespace {

std::vector<std::uint32_t> SlowOrder(const std::vector<std::int64_t>& times) {
  std::vector<std::uint32_t> order(times.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return times[a] < times[b]; });
  return order;
}

TEST(OrderByTime, EqualsAStableSort) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const std::int64_t span = INT64_MAX >> (round % 63);
    std::uniform_int_distribution<std::int64_t> time(-span, span);
    std::vector<std::int64_t> times(random() % 300);
    for (std::int64_t& value : times) value = time(random);
    ASSERT_EQ(OrderByTime(times), SlowOrder(times)) << "round " << round;
  }
}

TEST(OrderByTime, TakesTheLongestSpan) {
  EXPECT_EQ(OrderByTime({INT64_MAX, INT64_MIN, 0}), (std::vector<std::uint32_t>{1, 2, 0}));
  EXPECT_TRUE(OrderByTime({}).empty());
}

}  // namespace
}  // namespace tidepool::trace
