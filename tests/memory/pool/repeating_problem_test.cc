// SPDX-License-Identifier: Apache-2.0
// Plans of iterations that repeat, checked by a slow model: it runs the iterations one after
// another and compares each request with all live memory.
#include "lib/memory/pool/repeating_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "lib/memory/pool/background_planner.h"

namespace tidepool::pool {
namespace {

using plan::MemoryEvent;

struct Iteration {
  struct Event {
    std::uint32_t request = 0;
    bool is_free = false;
    bool is_carried = false;  // a free of the iteration before
  };
  std::vector<std::int64_t> bytes;
  std::vector<Event> events;
};

// Some requests are freed in the iteration, others in the next one: before or after the same
// request has come again.
Iteration RandomIteration(std::mt19937_64& random, std::uint32_t requests) {
  Iteration iteration;
  std::vector<Iteration::Event> frees;
  for (std::uint32_t i = 0; i < requests; ++i) {
    iteration.bytes.push_back(512 * static_cast<std::int64_t>(1 + random() % 20));
    iteration.events.push_back({i, false, false});
    frees.push_back({i, true, random() % 3 == 0});
  }
  for (const Iteration::Event& free : frees) {
    const auto allocation = std::ranges::find_if(iteration.events, [&](const auto& event) {
      return !event.is_free && event.request == free.request;
    });
    const auto first = free.is_carried ? 0 : allocation - iteration.events.begin() + 1;
    const auto places = static_cast<std::int64_t>(iteration.events.size()) - first + 1;
    const auto at =
        first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(places));
    iteration.events.insert(iteration.events.begin() + at, free);
  }
  return iteration;
}

PlanOrder OrderOf(const Iteration& iteration, std::vector<Range> fixed) {
  PlanOrder order;
  order.alignment = 512;
  order.fixed = std::move(fixed);
  order.iteration.bytes = iteration.bytes;
  for (const auto& [request, is_free, is_carried] : iteration.events) {
    if (is_carried) {
      order.carried_frees.push_back(
          {request, static_cast<std::int64_t>(order.iteration.events.size())});
    } else {
      order.iteration.events.push_back(
          {.index = request,
           .kind = is_free ? MemoryEvent::Kind::kFree : MemoryEvent::Kind::kAllocate});
    }
  }
  return order;
}

// Checks that no request of several iterations overlaps memory that is live then.
void CheckRuns(const Iteration& iteration, const PlacementPlans& plans,
               const std::vector<Range>& fixed) {
  struct Live {
    int run = 0;
    std::uint32_t request = 0;
    Range range;
  };
  std::vector<Live> live;
  for (int run = 0; run < 5; ++run) {
    const std::vector<PlannedRequest>& planned =
        plans[static_cast<std::size_t>(run) % plans.size()]->requests();
    for (const auto& [request, is_free, is_carried] : iteration.events) {
      const int made_by = is_carried ? run - 1 : run;
      if (is_free) {
        std::erase_if(live, [&, freed = request](const Live& each) {
          return each.run == made_by && each.request == freed;
        });
        continue;
      }
      const std::int64_t begin = planned[request].offset;
      const Range range = {begin, begin + iteration.bytes[request]};
      const auto overlaps = [&](const Range& other) {
        return range.begin < other.end && other.begin < range.end;
      };
      ASSERT_GE(begin, 0);
      ASSERT_TRUE(std::ranges::none_of(fixed, overlaps));
      ASSERT_TRUE(std::ranges::none_of(live, overlaps, &Live::range));
      live.push_back({run, request, range});
    }
  }
}

TEST(RepeatingProblemTest, PlansServeIterationsOneAfterAnother) {
  std::mt19937_64 random(1);
  int in_turn = 0;
  for (int round = 0; round < 300; ++round) {
    const Iteration iteration =
        RandomIteration(random, 1 + static_cast<std::uint32_t>(random() % 12));
    const std::vector<Range> fixed = {{1024, 4096}, {10240, 10752}};
    const absl::StatusOr<IterationPlans> made = PlanIteration(OrderOf(iteration, fixed), {});
    ASSERT_TRUE(made.ok()) << made.status();
    const PlacementPlans& plans = made->plans;
    ASSERT_EQ(plans.front()->requests().size(), iteration.bytes.size());
    in_turn += plans.size() == 2 ? 1 : 0;
    CheckRuns(iteration, plans, fixed);
  }
  EXPECT_GT(in_turn, 50);
  EXPECT_LT(in_turn, 250);
}

// Returns the order of an iteration that allocates one buffer of `bytes` and frees it.
PlanOrder OrderOfOne(std::int64_t bytes, std::vector<Range> fixed) {
  Iteration iteration;
  iteration.bytes = {bytes};
  iteration.events = {{0, false, false}, {0, true, false}};
  return OrderOf(iteration, std::move(fixed));
}

// The fixed ranges take four units. Among them a request of nine finds room from 20 on only.
TEST(RepeatingProblemTest, PlansApartFromFixedRangesThatWouldCostMemory) {
  PlanOrder order = OrderOfOne(9 * 512, {{8 * 512, 10 * 512}, {18 * 512, 20 * 512}});
  const auto begin = [&] {
    const absl::StatusOr<IterationPlans> made = PlanIteration(order, {});
    EXPECT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->ordered_base, order.base);
    const std::int64_t offset = made->plans.front()->requests().front().offset;
    EXPECT_EQ(made->base, offset >= 31 * 512 ? 31 * 512 : order.base);
    return offset / 512;
  };
  EXPECT_EQ(begin(), 20);
  order.apart = {31 * 512, 40 * 512};
  EXPECT_EQ(begin(), 31);
  order.apart = {31 * 512, 39 * 512};  // too few addresses
  EXPECT_EQ(begin(), 20);
  order.apart = {31 * 512, 40 * 512};
  order.fixed = {{0, 20 * 512}};  // nothing is saved
  EXPECT_EQ(begin(), 20);
  order.base = 21 * 512;
  order.fixed = {{22 * 512, 23 * 512}, {24 * 512, 29 * 512}};  // 38 - 21 among them, 6 + 9 apart
  EXPECT_EQ(begin(), 31);
  order.base = 22 * 512;  // 38 - 22 among them, and 7 + 9 apart
  order.fixed = {{22 * 512, 29 * 512}};
  EXPECT_EQ(begin(), 29);
}

// Whole, a buffer across the cut is in the way of the other for the rest of the iteration.
TEST(RepeatingProblemTest, ABufferAcrossTheCutIsDivided) {
  const PlanProblem iteration = {
      .buffers = {{.lower = 1, .upper = 2, .bytes = 100}, {.lower = 3, .upper = 5, .bytes = 100}}};
  const RepeatingProblem repeating(iteration, 5, {{1, 1}}, true);
  ASSERT_EQ(repeating.iterations(), 1);
  EXPECT_EQ(*PlanLowerBound(repeating.Whole({})), 100);  // cut where nothing is live
  const RepeatingProblem busy(
      {.buffers = {{.lower = 0, .upper = 3, .bytes = 100}, {.lower = 2, .upper = 5, .bytes = 50}}},
      5, {{1, 1}}, true);
  EXPECT_FALSE(repeating.Divided({}).has_value());
  const std::optional<PlanProblem> divided = busy.Divided({{0, 10}});
  ASSERT_TRUE(divided.has_value());
  EXPECT_EQ(divided->buffers.size(), 4U);
  EXPECT_EQ(divided->buffers[1].offset, 10);
  EXPECT_EQ(divided->buffers[3].offset, 10);
}

}  // namespace
}  // namespace tidepool::pool
