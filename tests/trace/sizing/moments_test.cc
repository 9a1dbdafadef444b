// SPDX-License-Identifier: Apache-2.0
// Peaks of marks, and reserved memory at an event: examples, and a slow obvious model.
#include "tidepool/trace/moments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/support/random_trace.h"

namespace tidepool {
namespace {

using Kind = TraceEvent::Kind;

void AllocateUntagged(TraceBuilder& builder, std::string_view id, std::int64_t bytes) {
  ASSERT_TRUE(builder.Allocate(id, bytes, Hint::kResident, "", 0).ok());
}

TEST(PeaksByMark, FollowsNestedAndOverlappingMarks) {
  TraceBuilder builder(TraceFormat::kNative);
  builder.Mark("step", 0);
  builder.Mark("forward", 0);
  AllocateUntagged(builder, "a", 100);
  builder.Mark("overlapping", 0);
  builder.MarkEnd("forward", 0);
  AllocateUntagged(builder, "b", 50);
  builder.MarkEnd("step", 0);
  AllocateUntagged(builder, "c", 7);
  builder.MarkEnd("overlapping", 0);
  builder.Mark("plain", 0);
  ASSERT_TRUE(builder.Free("a", "", 0));
  builder.Mark("next", 0);
  builder.MarkEnd("never begun", 0);
  std::map<std::string, std::int64_t> peaks;
  for (const NamedBytes& peak : PeaksByMark(builder.Build(), 1)) peaks[peak.name] = peak.bytes;
  EXPECT_THAT(peaks,
              ::testing::ElementsAre(::testing::Pair("forward", 100), ::testing::Pair("next", 57),
                                     ::testing::Pair("overlapping", 157),
                                     ::testing::Pair("plain", 157), ::testing::Pair("step", 150)));
}

// Finds the end of each mark and sums the live bytes in between.
std::map<std::string, std::int64_t> SlowPeaks(const Trace& trace) {
  const auto name = [&](std::size_t i) {
    return std::string(trace.mark_names[trace.events[i].index]);
  };
  const auto ends = [&](const std::string& wanted) {
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
      if (trace.events[i].kind == Kind::kMarkEnd && name(i) == wanted) return true;
    }
    return false;
  };
  std::vector<std::int64_t> live = {0};  // before each event
  for (const TraceEvent& event : trace.events) {
    std::int64_t bytes = event.TouchesMemory() ? trace.allocations[event.index].bytes : 0;
    live.push_back(live.back() + (event.kind == Kind::kFree ? -bytes : bytes));
  }
  std::map<std::string, std::int64_t> peaks;
  std::vector<std::size_t> open;  // begins of marks with ends
  const auto record = [&](std::size_t begin, std::size_t end) {
    std::int64_t& peak = peaks[name(begin)];
    for (std::size_t i = begin; i < end; ++i) peak = std::max(peak, live[i + 1]);
  };
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events[i].kind == Kind::kMark && ends(name(i))) open.push_back(i);
    if (trace.events[i].kind == Kind::kMark && !ends(name(i))) {
      std::size_t end = i + 1;
      while (end < trace.events.size() &&
             (trace.events[end].kind != Kind::kMark || ends(name(end)))) {
        ++end;
      }
      record(i, end);
    }
    if (trace.events[i].kind != Kind::kMarkEnd) continue;
    const auto last = std::find_if(open.rbegin(), open.rend(),
                                   [&](std::size_t begin) { return name(begin) == name(i); });
    if (last == open.rend()) continue;
    record(*last, i);
    open.erase(std::next(last).base());
  }
  for (const std::size_t begin : open) record(begin, trace.events.size());
  return peaks;
}

TEST(PeaksByMark, AgreesWithASlowModel) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Trace trace = testing::RandomTrace(seed).Make(static_cast<int>(seed));
    for (TraceAllocation& allocation : trace.allocations)
      allocation.bytes = allocation.bytes % 1000 + 1;
    std::map<std::string, std::int64_t> peaks;
    for (const NamedBytes& peak : PeaksByMark(trace, 1)) peaks[peak.name] = peak.bytes;
    ASSERT_EQ(peaks, SlowPeaks(trace)) << seed;
  }
}

TEST(ReservedAfter, TellsFreeBytesBySegment) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Reserve({0x1000, 4096}, "", 0).ok());
  ASSERT_TRUE(builder.Reserve({0x2000, 8192}, "", 0).ok());
  AllocateUntagged(builder, "0x1000", 4096);
  AllocateUntagged(builder, "0x2000", 1000);
  ASSERT_TRUE(builder.Reserve({0x3000, -4096}, "", 0).ok());
  Trace trace = builder.Build();
  const auto before = ReservedAfter(trace, 3, 512);
  ASSERT_TRUE(before.ok() && before->has_value());
  EXPECT_EQ((*before)->reserved_bytes, 12288);
  EXPECT_EQ((*before)->live_bytes, 5120);
  EXPECT_EQ((*before)->free_bytes(), 7168);
  ASSERT_EQ((*before)->segments.size(), 1);
  EXPECT_EQ((*before)->segments[0].address, 0x2000);
  EXPECT_EQ((*before)->segments[0].free_bytes, 7168);
  EXPECT_EQ((*ReservedAfter(trace, 4, 512))->segments[0].bytes, 4096);
  trace.allocator_settings = {{"expandable_segments", "True"}};
  EXPECT_EQ((*ReservedAfter(trace, 4, 512))->segments[0].bytes, 8192);  // joined
  EXPECT_FALSE(ReservedAfter(trace, 5, 512).ok());
}

TEST(ReservedAfter, IsUnknownWithoutReservations) {
  TraceBuilder builder(TraceFormat::kNative);
  AllocateUntagged(builder, "a", 1);
  EXPECT_EQ(*ReservedAfter(builder.Build(), 0, 1), std::nullopt);
}

TEST(ReservedAfter, SurvivesAnyTrace) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Trace trace = testing::RandomTrace(seed).Make(static_cast<int>(seed));
    if (trace.events.empty()) continue;
    EXPECT_TRUE(ReservedAfter(trace, static_cast<std::int64_t>(trace.events.size()) - 1, 512).ok());
  }
}

}  // namespace
}  // namespace tidepool
