// SPDX-License-Identifier: Apache-2.0
// The requests of each stream as traces of their own.
#include "tidepool/trace/streams_apart.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/random_trace.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

// "+512 -512 ...": the sizes of allocations and frees in their order.
std::string Requests(const Trace& trace) {
  std::string text;
  for (const TraceEvent& event : trace.events) {
    text += event.kind == TraceEvent::Kind::kAllocate ? " +" : " -";
    text += std::to_string(trace.allocations[event.index].bytes);
  }
  return text;
}

std::vector<std::string> Apart(const Trace& trace) {
  std::vector<std::string> texts;
  for (const Trace& part : StreamsApart(trace, *ToPlanProblem(trace, 1))) {
    texts.push_back(Requests(part));
  }
  return texts;
}

TEST(StreamsApart, EachStreamHasItsRequests) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("x", 1, Hint::kResident, "a", 0).ok());
  ASSERT_TRUE(builder.Allocate("y", 2, Hint::kResident, "b", 1).ok());
  builder.Mark("m", 2);
  ASSERT_TRUE(builder.Free("x", "a", 3));
  ASSERT_TRUE(builder.Allocate("z", 3, Hint::kResident, "a", 4).ok());
  ASSERT_TRUE(builder.Free("y", "b", 5));
  EXPECT_EQ(Apart(builder.Build()), (std::vector<std::string>{" +1 -1 +3", " +2 -2"}));
}

TEST(StreamsApart, AFreeOfAnotherStreamCountsAfterTheWaitForIt) {
  TraceBuilder builder(TraceFormat::kNative);
  for (const std::string id : {"x", "y"}) {
    ASSERT_TRUE(builder.Allocate(id, id == "x" ? 1 : 2, Hint::kResident, "a", 0).ok());
  }
  ASSERT_TRUE(builder.Free("x", "b", 1));
  ASSERT_TRUE(builder.Allocate("z", 3, Hint::kResident, "a", 2).ok());
  builder.Wait("a", "b", 3);
  ASSERT_TRUE(builder.Free("y", "b", 4));  // never known to a
  ASSERT_TRUE(builder.Allocate("w", 4, Hint::kResident, "a", 5).ok());
  EXPECT_EQ(Apart(builder.Build()), (std::vector<std::string>{" +1 +2 +3 -1 +4"}));
}

TEST(StreamsApart, RandomTracesGiveEachAllocationToOneStream) {
  for (int seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Trace trace = testing::RandomTrace(seed).Make(120);
    trace.original_format = TraceFormat::kNative;
    std::size_t allocations = 0;
    for (const Trace& part : StreamsApart(trace, *ToPlanProblem(trace, 1))) {
      allocations += part.allocations.size();
      // A free follows its allocation, and no other.
      std::vector<bool> live(part.allocations.size());
      for (const TraceEvent& event : part.events) {
        const bool allocates = event.kind == TraceEvent::Kind::kAllocate;
        ASSERT_NE(live[event.index], allocates);
        live[event.index] = allocates;
      }
    }
    EXPECT_EQ(allocations, trace.allocations.size());
  }
}

}  // namespace
}  // namespace tidepool
