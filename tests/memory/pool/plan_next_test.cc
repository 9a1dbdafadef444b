// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/pool/plan_next.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace tidepool::pool {
namespace {

using plan::MemoryEvent;

constexpr std::int64_t kUnit = 512;

// An iteration in which some requests are freed, and others outlive it.
plan::MemoryLog RandomLog(std::mt19937_64& random, std::uint32_t requests) {
  plan::MemoryLog log;
  std::vector<std::uint32_t> live;
  for (std::uint32_t i = 0; i < requests; ++i) {
    while (!live.empty() && random() % 8 < 3) {
      std::swap(live[random() % live.size()], live.back());
      log.events.push_back({.index = live.back(), .kind = MemoryEvent::Kind::kFree});
      live.pop_back();
    }
    log.bytes.push_back(kUnit * static_cast<std::int64_t>(1 + random() % 20));
    log.events.push_back({.index = i});
    live.push_back(i);
  }
  return log;
}

// Returns ranges that do not overlap.
std::vector<Range> RandomRanges(std::mt19937_64& random, int count) {
  std::vector<Range> ranges;
  std::int64_t end = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t begin = end + kUnit * static_cast<std::int64_t>(random() % 10);
    end = begin + kUnit * static_cast<std::int64_t>(1 + random() % 20);
    ranges.push_back({begin, end});
  }
  return ranges;
}

// Runs the iteration with the offsets of a plan, and checks that each request gets free memory.
// Returns the requests that are live at the end.
std::vector<std::uint32_t> RunPlan(const NextOrder& order, const PlacementPlan& plan) {
  std::vector<std::uint32_t> live;
  const auto range_of = [&](std::uint32_t request) {
    const PlannedRequest& planned = plan.requests()[request];
    return Range{planned.offset, planned.offset + planned.bytes};
  };
  for (std::size_t time = 0; time < order.iteration->events.size(); ++time) {
    const MemoryEvent& event = order.iteration->events[time];
    if (event.kind == MemoryEvent::Kind::kFree) {
      std::erase(live, event.index);
      continue;
    }
    const Range range = range_of(event.index);
    EXPECT_EQ(range.bytes(), order.iteration->bytes[event.index]);
    for (const std::uint32_t other : live) EXPECT_FALSE(Overlap(range, range_of(other)));
    for (const Range& fixed : order.fixed) EXPECT_FALSE(Overlap(range, fixed));
    for (const LeftRange& left : order.left) {
      if (static_cast<std::int64_t>(time) < left.events) {
        EXPECT_FALSE(Overlap(range, left.range));
      }
    }
    live.push_back(event.index);
  }
  return live;
}

// Whether something is in a range at the beginning of the iteration.
bool IsTaken(const NextOrder& order, const Range& range) {
  return std::ranges::any_of(order.fixed, [&](const auto& each) { return Overlap(range, each); }) ||
         std::ranges::any_of(order.left,
                             [&](const auto& each) { return Overlap(range, each.range); });
}

TEST(PlanNextTest, PlansFromWhereMemoryLies) {
  std::mt19937_64 random(1);
  int some_end = 0;  // as the later plan
  int others = 0;
  for (int round = 0; round < 200; ++round) {
    const plan::MemoryLog log = RandomLog(random, 40);
    NextOrder order;
    order.iteration = &log;
    order.alignment = kUnit;
    const auto later = PlanNext(order);
    ASSERT_TRUE(later.ok()) << later.status();
    RunPlan(order, *later->plan);
    for (const Range& range : RandomRanges(random, 10)) {
      if (random() % 2 == 0) {
        order.fixed.push_back(range);
      } else {
        order.left.push_back({range, static_cast<std::int64_t>(random() % 100)});
      }
    }
    order.later = later->plan.get();
    const auto next = PlanNext(order);
    ASSERT_TRUE(next.ok()) << next.status();
    bool ends_as_later = true;
    for (const std::uint32_t request : RunPlan(order, *next->plan)) {
      const std::int64_t begin = later->plan->requests()[request].offset;
      const bool is_there = next->plan->requests()[request].offset == begin;
      ends_as_later = ends_as_later && is_there;
      EXPECT_TRUE(is_there || IsTaken(order, {begin, begin + log.bytes[request]}));
    }
    EXPECT_EQ(next->ends_as_later, ends_as_later);
    (ends_as_later ? some_end : others)++;
  }
  EXPECT_GT(some_end, 0);
  EXPECT_GT(others, 0);
}

TEST(PlanNextTest, TakesMemoryThatWasLeftOnceItIsFree) {
  plan::MemoryLog log;
  log.bytes = {kUnit, kUnit};
  log.events = {{.index = 0}, {.index = 1}};
  NextOrder order;
  order.iteration = &log;
  order.alignment = kUnit;
  order.left = {{{0, kUnit}, 1}};
  const auto next = PlanNext(order);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->plan->requests()[0].offset, kUnit);
  EXPECT_EQ(next->plan->requests()[1].offset, 0);
}

}  // namespace
}  // namespace tidepool::pool
