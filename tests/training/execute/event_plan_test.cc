// SPDX-License-Identifier: Apache-2.0
// Events of random waits: at each wait the event stands for the operation that is waited for.
#include "lib/training/execute/event_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "tests/support/rounds.h"

namespace tidepool::execute {
namespace {

std::vector<WaitingOperation> RandomWaits(std::mt19937_64& random) {
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  std::vector<WaitingOperation> operations(1 + below(40));
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i].device = below(3);
    std::set<std::uint32_t> waits;
    for (std::size_t wait = below(4); i > 0 && wait > 0; --wait) {
      waits.insert(static_cast<std::uint32_t>(below(i)));
    }
    operations[i].waits.assign(waits.begin(), waits.end());
  }
  return operations;
}

// Returns the most operations of a device that later ones wait for, at one time.
std::size_t MostPending(const std::vector<WaitingOperation>& operations, std::size_t device) {
  std::size_t most = 0;
  for (std::size_t at = 0; at < operations.size(); ++at) {
    std::set<std::uint32_t> pending;
    for (std::size_t later = at + 1; later < operations.size(); ++later) {
      for (const std::uint32_t wait : operations[later].waits) {
        if (wait <= at && operations[wait].device == device) pending.insert(wait);
      }
    }
    most = std::max(most, pending.size());
  }
  return most;
}

TEST(EventPlanTest, EventsStandForTheOperationsThatAreWaitedFor) {
  std::mt19937_64 random(1);
  for (int round = 0; round < testing::Rounds(2000); ++round) {
    const std::vector<WaitingOperation> operations = RandomWaits(random);
    const EventPlan plan = PlanEvents(operations);
    std::vector<std::size_t> value(plan.devices.size(), operations.size());
    for (std::size_t i = 0; i < operations.size(); ++i) {
      for (const std::uint32_t wait : operations[i].waits) {
        ASSERT_NE(plan.recorded[wait], EventPlan::kNone);
        ASSERT_EQ(value[plan.recorded[wait]], wait);
      }
      if (plan.recorded[i] == EventPlan::kNone) continue;
      value[plan.recorded[i]] = i;
      ASSERT_EQ(plan.devices[plan.recorded[i]], operations[i].device);
    }
    for (std::size_t device = 0; device < 3; ++device) {
      ASSERT_EQ(
          static_cast<std::size_t>(std::count(plan.devices.begin(), plan.devices.end(), device)),
          MostPending(operations, device));
    }
  }
}

TEST(EventPlanTest, OperationsThatNoneWaitsForHaveNoEvent) {
  const EventPlan plan = PlanEvents({{0, {}}, {0, {0}}, {0, {}}});
  EXPECT_NE(plan.recorded[0], EventPlan::kNone);
  EXPECT_EQ(plan.recorded[1], EventPlan::kNone);
  EXPECT_EQ(plan.recorded[2], EventPlan::kNone);
}

}  // namespace
}  // namespace tidepool::execute
