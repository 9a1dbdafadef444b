// SPDX-License-Identifier: Apache-2.0
// Loads of regions: an example, hostile times, and a slow obvious model.
#include "tidepool/trace/region_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/random_trace.h"
#include "tidepool/trace/sizing.h"

namespace tidepool {
namespace {

using Kind = TraceEvent::Kind;
using RandomEvents = testing::RandomTrace;

constexpr auto kResident = Hint::kResident;

RegionLoads Loads(const Trace& trace, std::int64_t alignment = 1) {
  const absl::StatusOr<RegionLoads> loads = MeasureRegions(trace, alignment);
  EXPECT_TRUE(loads.ok()) << loads.status();
  return loads.value_or(RegionLoads());
}

TEST(RegionLoad, TellsPeaksPausesAndSleep) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.SetRegion("weights").ok());
  ASSERT_TRUE(builder.Allocate("a", 100, kResident, "", 0).ok());
  ASSERT_TRUE(builder.Allocate("b", 50, kResident, "", 1).ok());
  ASSERT_TRUE(builder.Failure(999, kResident, "", 2).ok());
  ASSERT_TRUE(builder.Free("b", "", 3));
  ASSERT_TRUE(builder.Pause("weights", SleepMode::kHost, "", 10).ok());
  ASSERT_TRUE(builder.SetRegion("cache").ok());
  ASSERT_TRUE(builder.Allocate("c", 120, kResident, "", 11).ok());
  ASSERT_TRUE(builder.SetRegion("").ok());
  ASSERT_TRUE(builder.Allocate("d", 7, kResident, "", 12).ok());
  ASSERT_TRUE(builder.Free("c", "", 13));
  ASSERT_TRUE(builder.Resume("weights", "", 15).ok());
  ASSERT_TRUE(builder.Pause("weights", SleepMode::kDisk, "", 20).ok());
  ASSERT_TRUE(builder.Free("a", "", 21));
  builder.Mark("end", 29);
  const RegionLoads loads = Loads(builder.Build());
  ASSERT_EQ(loads.regions.size(), 2);
  const RegionLoad& weights = loads.regions[0];
  EXPECT_EQ(weights.allocations, 2);
  EXPECT_EQ(weights.failures, 1);
  EXPECT_EQ(weights.peak_live_bytes, 150);
  EXPECT_EQ(weights.unfreed_bytes, 0);
  EXPECT_EQ(weights.pause_count, 2);
  EXPECT_EQ(weights.pauses, (std::array<std::int64_t, kSleepModes>{1, 0, 0, 1, 0}));
  EXPECT_EQ(weights.paused_bytes, 200);
  EXPECT_EQ(weights.asleep_ns, 5 + 9);
  EXPECT_TRUE(weights.is_asleep);
  EXPECT_EQ(loads.regions[1].peak_live_bytes, 120);
  EXPECT_EQ(loads.regions[1].asleep_ns, 0);
  EXPECT_EQ(loads.peak_awake_bytes, 150);
  EXPECT_EQ(loads.peak_awake_event, 1);
}

// Times of a file may be any.
TEST(RegionLoad, SumsTimesWithoutOverflow) {
  constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  TraceBuilder builder(TraceFormat::kNative);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(builder.Pause("r", SleepMode::kHost, "", kFirst).ok());
    ASSERT_TRUE(builder.Resume("r", "", kLast).ok());
    ASSERT_TRUE(builder.Pause("back", SleepMode::kHost, "", kLast).ok());
    ASSERT_TRUE(builder.Resume("back", "", kFirst).ok());
  }
  const RegionLoads loads = Loads(builder.Build());
  EXPECT_EQ(loads.regions[0].asleep_ns, kLast);
  EXPECT_EQ(loads.regions[1].asleep_ns, 0);
}

TEST(RegionLoad, HasTheErrorsOfTheLoad) {
  EXPECT_EQ(MeasureRegions(Trace(), 3).status(), MeasureLoad(Trace(), 3).status());
  EXPECT_TRUE(Loads(Trace()).regions.empty());
}

// Returns the live bytes of a region after an event; of all that are awake for region -1.
std::int64_t SlowLiveBytes(const Trace& trace, std::size_t event, int wanted) {
  std::vector<bool> live(trace.allocations.size());
  std::vector<bool> sleeps(trace.region_names.size() + 1);
  for (std::size_t i = 0; i <= event; ++i) {
    const TraceEvent& each = trace.events[i];
    if (each.TouchesMemory()) live[each.index] = each.kind == Kind::kAllocate;
    if (each.kind == Kind::kPause) sleeps[trace.pauses[each.index].region] = true;
    if (each.kind == Kind::kResume) sleeps[trace.pauses[each.index].region] = false;
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const TraceRegion region = trace.allocations[i].region;
    if (live[i] && (wanted < 0 ? !sleeps[region] : region == wanted)) {
      sum += (trace.allocations[i].bytes + 255) & -256;
    }
  }
  return sum;
}

TEST(RegionLoad, IsThatOfASlowModel) {
  int measured = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Trace trace = RandomEvents(seed).Make(150);
    const absl::StatusOr<RegionLoads> loads = MeasureRegions(trace, 256);
    if (!loads.ok()) continue;  // too many bytes are live
    ++measured;
    std::vector<std::int64_t> peaks(trace.region_names.size() + 1);
    std::vector<std::int64_t> paused(trace.region_names.size() + 1);
    std::int64_t awake = 0;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
      awake = std::max(awake, SlowLiveBytes(trace, i, -1));
      for (std::size_t region = 1; region < peaks.size(); ++region) {
        const std::int64_t bytes = SlowLiveBytes(trace, i, static_cast<int>(region));
        peaks[region] = std::max(peaks[region], bytes);
        const TraceEvent& event = trace.events[i];
        if (event.kind == Kind::kPause && trace.pauses[event.index].region == region) {
          paused[region] += bytes;
        }
      }
    }
    EXPECT_EQ(loads->peak_awake_bytes, awake) << seed;
    for (std::size_t region = 1; region < peaks.size(); ++region) {
      EXPECT_EQ(loads->regions[region - 1].peak_live_bytes, peaks[region]) << seed;
      EXPECT_EQ(loads->regions[region - 1].paused_bytes, paused[region]) << seed;
    }
  }
  EXPECT_GT(measured, 50);
}

}  // namespace
}  // namespace tidepool
