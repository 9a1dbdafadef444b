// SPDX-License-Identifier: Apache-2.0
// CNMeM's figures add up for all combinations of live memory.
#include "bindings/cnmem/accounting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tidepool::cnmem {
namespace {

TEST(CnmemAccountingTest, WhatIsReservedIsNotFreeForEverybody) {
  const Shares shares = ShareOut({.pool_bytes = 100, .budget_bytes = 100, .live_bytes = 10},
                                 {{.reserved_bytes = 30, .live_bytes = 5}, {0, 20}, {40, 50}});
  EXPECT_EQ(shares.total_bytes, 100);
  EXPECT_EQ(shares.free_bytes, 0) << "15 are free, and more are reserved";
  EXPECT_EQ(shares.stream_free_bytes, (std::vector<std::int64_t>{15, 0, 0}));
}

TEST(CnmemAccountingTest, APoolThatMayGrowHasWhatIsReserved) {
  const Shares shares =
      ShareOut({.pool_bytes = 100, .budget_bytes = 1000, .live_bytes = 90}, {{30, 0}, {0, 5}});
  EXPECT_EQ(shares.total_bytes, 125);
  EXPECT_EQ(shares.free_bytes, 0);
  EXPECT_EQ(shares.stream_free_bytes, (std::vector<std::int64_t>{30, 0}));
}

TEST(CnmemAccountingTest, AddsUp) {
  std::mt19937 random(1);
  const auto below = [&](int bound) { return static_cast<std::int64_t>(random() % bound); };
  for (int round = 0; round < 20'000; ++round) {
    PoolUse pool = {.pool_bytes = below(100), .budget_bytes = 0, .live_bytes = below(50)};
    pool.budget_bytes = pool.pool_bytes + below(50);
    std::vector<StreamUse> streams(below(5));
    std::int64_t live = pool.live_bytes;
    for (StreamUse& stream : streams) {
      stream = {below(40), below(40)};
      live += stream.live_bytes;
    }
    const Shares shares = ShareOut(pool, streams);
    ASSERT_EQ(shares.stream_free_bytes.size(), streams.size());
    std::int64_t sum = live + shares.free_bytes;
    ASSERT_GE(shares.free_bytes, 0);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const std::int64_t own = shares.stream_free_bytes[i];
      sum += own;
      ASSERT_GE(own, 0);
      ASSERT_LE(own, std::max<std::int64_t>(0, streams[i].reserved_bytes - streams[i].live_bytes));
    }
    ASSERT_EQ(sum, shares.total_bytes);
    ASSERT_GE(shares.total_bytes, pool.pool_bytes);
    ASSERT_LE(shares.total_bytes, std::max(pool.budget_bytes, live));
  }
}

}  // namespace
}  // namespace tidepool::cnmem
