// SPDX-License-Identifier: Apache-2.0
// Statistics of a pool as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/memory/pool/pool_fixture.h"
#include "tidepool/metrics.h"

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

using ::testing::HasSubstr;

TEST(MetricsText, HasAFamilyForEachFigureOfPools) {
  const std::string text = MetricsText(
      {{.labels = {{"pool", "weights"}}, .stats = {.live_bytes = 512, .frees = 3}, .regions = {}},
       {.labels = {{"pool", "a\"b\\c\nd"}, {"host", "n1"}},
        .stats = {.live_bytes = 1},
        .regions = {}}});
  EXPECT_THAT(text, HasSubstr("# HELP tidepool_live_bytes bytes of live allocations\n"
                              "# TYPE tidepool_live_bytes gauge\n"
                              "tidepool_live_bytes{pool=\"weights\"} 512\n"
                              "tidepool_live_bytes{pool=\"a\\\"b\\\\c\\nd\",host=\"n1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE tidepool_frees_total counter\n"
                              "tidepool_frees_total{pool=\"weights\"} 3\n"));
}

TEST(MetricsText, WritesUnicodeAloneAndKeepsValuesApart) {
  const std::string text = MetricsText(
      {{.labels = {{"pool", "\xff\xe2\x82\xac\xed\xa0\x80"}}, .stats = {}, .regions = {}},
       {.labels = {{"pool", "\xfe"}}, .stats = {}, .regions = {}}});
  EXPECT_THAT(text,
              HasSubstr("tidepool_live_bytes{pool=\"\\\\xff\xe2\x82\xac\\\\xed\\\\xa0\\\\x80\"} 0\n"
                        "tidepool_live_bytes{pool=\"\\\\xfe\"} 0\n"));
}

TEST(MetricsText, HasTheFiguresOfRegions) {
  const RegionStats region = {.tag = "kv", .is_asleep = true, .host_bytes = 4096, .pauses = 2};
  const std::string text =
      MetricsText({{.labels = {{"pool", "1"}}, .stats = {}, .regions = {region}}});
  EXPECT_THAT(text, HasSubstr("tidepool_region_is_asleep{pool=\"1\",region=\"kv\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tidepool_region_host_bytes{pool=\"1\",region=\"kv\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("tidepool_region_pauses_total{pool=\"1\",region=\"kv\"} 2\n"));
}

}  // namespace
}  // namespace tidepool
