// SPDX-License-Identifier: Apache-2.0
// Demand of traces with refused requests: examples, and a slow obvious model.
#include "tidepool/trace/demand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/random_trace.h"
#include "tidepool/trace/sizing.h"

namespace tidepool {
namespace {

using Kind = TraceEvent::Kind;
using ::testing::HasSubstr;

Trace Example() {
  TraceBuilder builder(TraceFormat::kNative);
  const auto allocate = [&](std::string_view id, std::int64_t bytes) {
    EXPECT_TRUE(builder.Allocate(id, bytes, Hint::kResident, "s", 0).ok());
  };
  allocate("x", 1000);
  allocate("y", 5000);
  EXPECT_TRUE(builder.Free("y", "s", 0));
  const auto tag = builder.Frame(0, "f", "f.py", 1);
  builder.SetTag(*tag);
  EXPECT_TRUE(builder.Failure(9000, Hint::kOffloadable, "t", 7, 100).ok());
  EXPECT_TRUE(builder.Failure(0, Hint::kResident, "s", 8).ok());
  builder.SetTag(0);
  allocate("z", 512);
  return builder.Build();
}

TEST(Demand, CountsRefusedRequests) {
  const auto demand = MeasureDemand(Example(), 512);
  ASSERT_TRUE(demand.ok()) << demand.status();
  EXPECT_EQ(demand->peak_live_bytes, 1024 + 5120);
  EXPECT_EQ(demand->needs_bytes, 1024 + 9216);
  ASSERT_EQ(demand->refused.size(), 2);
  EXPECT_EQ(demand->refused[0].bytes, 9000);
  EXPECT_EQ(demand->refused[0].live_bytes, 1024);
  EXPECT_EQ(demand->refused[0].event, 3);
  EXPECT_EQ(demand->refused[0].tag, 1);
  EXPECT_EQ(demand->refused[0].device_free_bytes, 100);
  EXPECT_EQ(demand->refused[1].bytes, 0);
  EXPECT_EQ(demand->refused[1].device_free_bytes, std::nullopt);
}

TEST(Demand, IsThePeakWhereNoRefusalAsksForMore) {
  TraceBuilder builder(TraceFormat::kNative);
  EXPECT_TRUE(builder.Allocate("x", 5000, Hint::kResident, "", 0).ok());
  EXPECT_TRUE(builder.Free("x", "", 0));
  EXPECT_TRUE(builder.Failure(100, Hint::kResident, "", 0).ok());
  EXPECT_EQ(MeasureDemand(builder.Build(), 1)->needs_bytes, 5000);
}

TEST(Demand, StaysWithinItsType) {
  TraceBuilder builder(TraceFormat::kNative);
  EXPECT_TRUE(builder.Allocate("x", 1, Hint::kResident, "", 0).ok());
  EXPECT_TRUE(builder.Failure(INT64_MAX, Hint::kResident, "", 0).ok());
  const Trace trace = builder.Build();
  EXPECT_EQ(MeasureDemand(trace, 512)->needs_bytes, INT64_MAX);
  EXPECT_EQ(MeasureDemand(trace, 1)->needs_bytes, INT64_MAX);
  EXPECT_FALSE(MeasureDemand(trace, 3).ok());
}

TEST(WithRefusedRequests, ServesThemAndFreesThemAtOnce) {
  const auto trace = WithRefusedRequests(Example());
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->events.size(), 7);
  ASSERT_EQ(trace->allocations.size(), 4);
  EXPECT_EQ(trace->allocations[2].bytes, 9000);
  EXPECT_EQ(trace->allocations[2].hint, Hint::kOffloadable);
  EXPECT_EQ(trace->allocations[2].tag, 1);
  EXPECT_EQ(trace->allocation_ids[2], "refused request 0");
  EXPECT_EQ(trace->allocation_ids[3], "z");
  EXPECT_EQ(trace->events[3].kind, Kind::kAllocate);
  EXPECT_EQ(trace->events[4].kind, Kind::kFree);
  for (const int event : {3, 4}) {
    EXPECT_EQ(trace->events[event].index, 2);
    EXPECT_EQ(trace->events[event].time, 7);
    EXPECT_EQ(trace->stream_names[trace->events[event].stream], "t");
  }
  EXPECT_EQ(trace->events[6].index, 3);
  ASSERT_EQ(trace->failures.size(), 1);  // of 0 bytes
  EXPECT_EQ(trace->events[5].kind, Kind::kFailure);
  EXPECT_EQ(trace->events[5].index, 0);
}

TEST(WithRefusedRequests, RefusesRequestsThatNoPoolServes) {
  TraceBuilder builder(TraceFormat::kNative);
  EXPECT_TRUE(builder.Failure(kMaxRequestBytes + 1, Hint::kResident, "", 0).ok());
  EXPECT_THAT(WithRefusedRequests(builder.Build()).status().message(),
              HasSubstr("a request of 1125899906842625 bytes was refused at event 0"));
}

// Sums all live allocations again at each event.
std::int64_t SlowNeeds(const Trace& trace, std::int64_t alignment) {
  std::map<std::uint32_t, std::int64_t> live;
  std::int64_t needs = 0;
  for (const TraceEvent& event : trace.events) {
    std::int64_t bytes = 0;
    if (event.kind == Kind::kAllocate) live[event.index] = trace.allocations[event.index].bytes;
    if (event.kind == Kind::kFree) live.erase(event.index);
    if (event.kind == Kind::kFailure) bytes = trace.failures[event.index].bytes;
    std::int64_t sum = (bytes + alignment - 1) / alignment * alignment;
    for (const auto& [index, size] : live) sum += (size + alignment - 1) / alignment * alignment;
    needs = std::max(needs, sum);
  }
  return needs;
}

TEST(Demand, AgreesWithASlowModelAndWithTheServedTrace) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Trace trace = testing::RandomTrace(seed).Make(static_cast<int>(seed));
    for (TraceAllocation& allocation : trace.allocations) allocation.bytes %= 1 << 20;
    for (TraceAllocation& allocation : trace.allocations) ++allocation.bytes;
    for (TraceFailure& failure : trace.failures) failure.bytes %= 1 << 22;
    for (const std::int64_t alignment : {1, 512}) {
      const auto demand = MeasureDemand(trace, alignment);
      ASSERT_TRUE(demand.ok()) << demand.status();
      ASSERT_EQ(demand->needs_bytes, SlowNeeds(trace, alignment)) << seed;
      ASSERT_EQ(demand->refused.size(), trace.failures.size());
      const auto served = WithRefusedRequests(trace);
      ASSERT_TRUE(served.ok()) << served.status();
      ASSERT_EQ(MeasureLoad(*served, alignment)->peak_live_bytes, demand->needs_bytes) << seed;
    }
  }
}

}  // namespace
}  // namespace tidepool
