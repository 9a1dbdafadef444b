// SPDX-License-Identifier: Apache-2.0
// The memory of regions that sleep: an example, and a slow obvious model of which are awake.
#include "tidepool/trace/region_needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tidepool {
namespace {

using Kind = TraceEvent::Kind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kResident = Hint::kResident;

RegionNeeds NeedsOfRegions(const Trace& trace, std::vector<std::string> without = {}) {
  const absl::StatusOr<RegionNeeds> needs =
      FindRegionNeeds(trace, {.alignment = 1, .without = std::move(without)});
  EXPECT_TRUE(needs.ok()) << needs.status();
  return needs.value_or(RegionNeeds());
}

// Weights of 100 that sleep while a cache of 80 lives, beside 10 of no region.
Trace Turns() {
  TraceBuilder builder(TraceFormat::kNative);
  EXPECT_TRUE(builder.Allocate("x", 10, kResident, "", 0).ok());
  EXPECT_TRUE(builder.SetRegion("weights").ok());
  EXPECT_TRUE(builder.Allocate("w", 100, kResident, "", 0).ok());
  EXPECT_TRUE(builder.Pause("weights", SleepMode::kHost, "", 0).ok());
  EXPECT_TRUE(builder.SetRegion("cache").ok());
  EXPECT_TRUE(builder.Allocate("k", 80, kResident, "", 0).ok());
  EXPECT_TRUE(builder.Pause("cache", SleepMode::kDiscard, "", 0).ok());
  EXPECT_TRUE(builder.Resume("weights", "", 0).ok());
  return builder.Build();
}

TEST(RegionNeeds, CountsRegionsThatAreAwakeTogether) {
  const RegionNeeds needs = NeedsOfRegions(Turns());
  ASSERT_EQ(needs.regions.size(), 3);
  EXPECT_EQ(needs.regions[0].name, "");
  EXPECT_EQ(needs.regions[0].plan_bytes, 10);
  EXPECT_EQ(needs.regions[1].name, "weights");
  EXPECT_EQ(needs.regions[1].pauses, 1);
  EXPECT_EQ(needs.regions[1].peak_bytes, 100);
  EXPECT_EQ(needs.regions[1].plan_bytes, 100);
  EXPECT_EQ(needs.regions[2].plan_bytes, 80);
  EXPECT_EQ(needs.needed_bytes, 110);
  EXPECT_EQ(needs.needed_event, 1);
  EXPECT_EQ(needs.peak_awake_bytes, 110);
  EXPECT_EQ(needs.sleepless_bytes, 190);
}

TEST(RegionNeeds, LeavesRegionsOut) {
  const RegionNeeds needs = NeedsOfRegions(Turns(), {"weights"});
  ASSERT_EQ(needs.regions.size(), 2);
  EXPECT_EQ(needs.needed_bytes, 90);
  EXPECT_EQ(needs.sleepless_bytes, 90);
  const auto error = FindRegionNeeds(Turns(), {.without = {"kache"}});
  EXPECT_THAT(std::string(error.status().message()),
              HasSubstr("no region \"kache\", expected one of weights, cache"));
}

TEST(RegionNeeds, RefusesWhatHasNone) {
  EXPECT_THAT(std::string(FindRegionNeeds(Trace(), {}).status().message()),
              HasSubstr("has no regions, expected"));
  EXPECT_FALSE(FindRegionNeeds(Turns(), {.alignment = 3}).ok());
}

// Phases are those of FindPhaseNeeds: a mark inside a span begins none, and what comes after a span
// is outside.
TEST(RegionNeeds, TellsWhatEachPhaseNeeds) {
  TraceBuilder builder(TraceFormat::kNative);
  EXPECT_TRUE(builder.SetRegion("weights").ok());
  EXPECT_TRUE(builder.Allocate("w", 100, kResident, "", 0).ok());
  for (int i = 0; i < 2; ++i) {
    builder.Mark("generate", 0);
    builder.Mark("batch", 0);
    EXPECT_TRUE(builder.SetRegion("cache").ok());
    EXPECT_TRUE(builder.Allocate("k", 80, kResident, "", 0).ok());
    EXPECT_TRUE(builder.Free("k", "", 0));
    EXPECT_TRUE(builder.Pause("weights", SleepMode::kHost, "", 0).ok());
    builder.MarkEnd("generate", 0);
    builder.Mark("train", 0);
    EXPECT_TRUE(builder.SetRegion("optimizer").ok());
    EXPECT_TRUE(builder.Allocate("o", 120, kResident, "", 0).ok());
    EXPECT_TRUE(builder.Free("o", "", 0));
    builder.MarkEnd("train", 0);
    EXPECT_TRUE(builder.Resume("weights", "", 0).ok());
  }
  const Trace trace = builder.Build();
  const RegionNeeds needs = NeedsOfRegions(trace);
  EXPECT_EQ(needs.needed_bytes, 180);
  const auto phase = [](std::string_view name, std::int64_t times, std::int64_t bytes) {
    return AllOf(Field(&RegionPhase::name, name), Field(&RegionPhase::times, times),
                 Field(&RegionPhase::needed_bytes, bytes));
  };
  EXPECT_THAT(needs.phases,
              ElementsAre(phase("", 1, 100), phase("generate", 2, 180), phase("train", 2, 120)));
  EXPECT_THAT(NeedsOfRegions(Turns()).phases, IsEmpty());
  const auto error = FindRegionNeeds(trace, {.without = {"train"}});
  EXPECT_THAT(std::string(error.status().message()),
              HasSubstr("no region \"train\", expected one of weights, cache, optimizer; of a "
                        "trace with regions, regions are left out and not phases"));
}

// Each region has less than 2^60 bytes, and all together more than 2^63.
TEST(RegionNeeds, RefusesSumsThatOverflow) {
  TraceBuilder builder(TraceFormat::kNative);
  for (int region = 0; region < 9; ++region) {
    ASSERT_TRUE(builder.SetRegion(absl::StrCat(region)).ok());
    for (int i = 0; i < 1024; ++i) {
      ASSERT_TRUE(
          builder.Allocate(absl::StrCat(region, ".", i), kMaxRequestBytes, kResident, "", 0).ok());
    }
  }
  EXPECT_THAT(std::string(FindRegionNeeds(builder.Build(), {.alignment = 1}).status().message()),
              HasSubstr("2^63 bytes or more"));
}

// Regions with one live allocation at a time need its largest one, so the model needs no plan.
TEST(RegionNeeds, IsThatOfASlowModel) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    TraceBuilder builder(TraceFormat::kNative);
    const std::vector<std::string> names = {"a", "b", "c", "d"};
    std::map<std::string, std::int64_t> live;
    std::map<std::string, std::int64_t> largest;
    std::map<std::string, bool> sleeps;
    std::vector<std::vector<std::string>> awake;  // regions with memory, by event
    for (int i = 0; i < 80; ++i) {
      const std::string& name = names[random() % names.size()];
      if (random() % 3 == 0) {
        EXPECT_TRUE((sleeps[name] ? builder.Resume(name, "", i)
                                  : builder.Pause(name, SleepMode::kHost, "", i))
                        .ok());
        sleeps[name] = !sleeps[name];
      } else if (live[name] > 0) {
        EXPECT_TRUE(builder.Free(name, "", i));
        live[name] = 0;
      } else if (!sleeps[name]) {
        live[name] = static_cast<std::int64_t>(1 + random() % 1000);
        largest[name] = std::max(largest[name], live[name]);
        EXPECT_TRUE(builder.SetRegion(name).ok());
        EXPECT_TRUE(builder.Allocate(name, live[name], kResident, "", i).ok());
      }
      awake.emplace_back();
      for (const std::string& each : names) {
        if (live[each] > 0 && !sleeps[each]) awake.back().push_back(each);
      }
    }
    std::int64_t most = 0;
    for (const std::vector<std::string>& regions : awake) {
      std::int64_t sum = 0;
      for (const std::string& each : regions) sum += largest[each];
      most = std::max(most, sum);
    }
    EXPECT_EQ(NeedsOfRegions(builder.Build()).needed_bytes, most) << seed;
  }
}

}  // namespace
}  // namespace tidepool
