// SPDX-License-Identifier: Apache-2.0
// Tests of TraceEvents: events come back as they were added, whichever of their fields are 0.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "tidepool/trace/trace.h"

namespace tidepool {
namespace {

auto Fields(const TraceEvent& event) {
  return std::tuple(event.time, event.index, event.stream, event.thread, event.kind);
}

void ExpectEqual(const TraceEvents& events, const std::vector<TraceEvent>& expected) {
  ASSERT_EQ(events.size(), expected.size());
  EXPECT_TRUE(std::ranges::equal(events, expected, {}, Fields, Fields));
}

// Each field begins to differ from 0 at a random event, or at none.
TEST(TraceEvents, ReturnWhatWasAdded) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t first_time = random() % 40;
    const std::uint64_t first_stream = random() % 40;
    const std::uint64_t first_thread = random() % 40;
    TraceEvents events;
    std::vector<TraceEvent> expected;
    for (std::uint64_t i = 0; i < 30; ++i) {
      TraceEvent event;
      event.index = static_cast<std::uint32_t>(random());
      event.kind = static_cast<TraceEvent::Kind>(random() % 9);
      if (i >= first_time) event.time = static_cast<std::int64_t>(random());
      if (i >= first_stream) event.stream = static_cast<std::uint32_t>(random());
      if (i >= first_thread) event.thread = static_cast<std::uint32_t>(random());
      if (random() % 8 == 0) events.reserve(random() % 64);
      events.push_back(event);
      expected.push_back(event);
    }
    ExpectEqual(events, expected);
    EXPECT_EQ(Fields(events.front()), Fields(expected.front()));
    EXPECT_EQ(Fields(events.back()), Fields(expected.back()));
    events.clear();
    EXPECT_TRUE(events.empty());
    events.push_back({.index = 7});
    ExpectEqual(events, {{.index = 7}});
  }
}

TEST(TraceEvents, AreIteratedInAnyOrder) {
  const TraceEvents events = {{.index = 3}, {.time = 5, .index = 4}, {.time = 6, .index = 5}};
  const auto second = events.begin() + 1;
  EXPECT_EQ((*second).index, 4U);
  EXPECT_EQ(second[1].time, 6);
  EXPECT_EQ(events.end() - second, 2);
  EXPECT_EQ((*(events.end() - 1)).index, 5U);
  EXPECT_LT(events.begin(), second);
  const auto late = std::lower_bound(events.begin(), events.end(), 6,
                                     [](const TraceEvent& a, int time) { return a.time < time; });
  EXPECT_EQ(late - events.begin(), 2);
}

}  // namespace
}  // namespace tidepool
