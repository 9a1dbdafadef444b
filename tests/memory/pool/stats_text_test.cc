// SPDX-License-Identifier: Apache-2.0
// Statistics of a pool as text.
#include <gtest/gtest.h>

#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

TEST(PoolStatsText, HasEveryFigureOfAPool) {
  const PoolStats stats = {.live_bytes = 896532480,
                           .live_count = 12,
                           .peak_live_bytes = std::int64_t{1} << 30,
                           .reserved_bytes = std::int64_t{2} << 30,
                           .peak_reserved_bytes = std::int64_t{3} << 30,
                           .max_bytes = std::int64_t{4} << 30,
                           .free_bytes = 512,
                           .largest_hole_bytes = 256,
                           .allocations = 100,
                           .frees = 88,
                           .failures = 2,
                           .blocked = 1,
                           .stream_waits = 7,
                           .event_records = 6,
                           .growths = 5,
                           .remaps = 4};
  EXPECT_EQ(ToString(stats),
            "live      855.0 MiB in 12 allocations, peak 1.0 GiB\n"
            "reserved  2.0 GiB, peak 3.0 GiB, budget 4.0 GiB\n"
            "free      512 bytes, largest hole 256 bytes\n"
            "requests  100 allocations, 88 frees, 2 refused, 1 waited for memory\n"
            "device    5 growths, 4 remaps, 7 stream waits, 6 events\n");
}

TEST(PoolStatsText, HasPlansWhereThePoolFollowsSome) {
  EXPECT_NE(ToString({.planned = 540, .deviations = 9, .plans = 1})
                .find("planned   540 requests, 9 deviations, 1 plan\n"),
            std::string::npos);
}

TEST_F(PoolFixture, StatisticsOfAPoolArePrinted) {
  const auto pool = NewPool({.max_bytes = 4 * kMiB});
  const Stream stream = NewStream();
  void* const buffer = pool->Allocate(kMiB, stream).value();
  EXPECT_NE(ToString(pool->Stats()).find("live      1.0 MiB in 1 allocation,"), std::string::npos);
  EXPECT_TRUE(pool->Free(buffer, stream).ok());
}

}  // namespace
}  // namespace tidepool
