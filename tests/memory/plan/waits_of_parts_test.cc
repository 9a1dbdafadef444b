// SPDX-License-Identifier: Apache-2.0
// Waits of parts: each part needs the same disjoint addresses as with all waits, and few waits.
#include "lib/memory/plan/waits_of_parts.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/stream_problem.h"

namespace tidepool {
namespace {

using plan::WaitsOfParts;
using testing::RandomStreamProblem;
using testing::SlowConflict;

TEST(WaitsOfParts, KeepTheConflictsOfEachPart) {
  constexpr std::uint32_t kParts = 3;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const PlanProblem problem = RandomStreamProblem(
        random, {.events = 60, .streams = 4, .waits_in_ten = 4, .foreign_frees_in_ten = 2});
    std::vector<std::uint32_t> part_of;
    for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
      part_of.push_back(static_cast<std::uint32_t>(random() % kParts));
    }
    const std::vector<std::vector<PlanWait>> waits = WaitsOfParts(problem, part_of, kParts);
    ASSERT_EQ(waits.size(), kParts);
    for (std::size_t a = 0; a < problem.buffers.size(); ++a) {
      const PlanProblem part = {.buffers = problem.buffers, .waits = waits[part_of[a]]};
      for (std::size_t b = 0; b < a; ++b) {
        if (part_of[b] != part_of[a]) continue;
        EXPECT_EQ(SlowConflict(part, a, b), SlowConflict(problem, a, b)) << a << ", " << b;
      }
    }
  }
}

// Two streams that wait for each other all the time, and parts that live one after another.
TEST(WaitsOfParts, AreAtMostOneForEachFreeAndStream) {
  constexpr std::uint32_t kParts = 1000;
  constexpr int kWaitsEach = 10;
  PlanProblem problem;
  std::vector<std::uint32_t> part_of;
  std::int64_t time = 0;
  for (std::uint32_t part = 0; part < kParts; ++part) {
    problem.buffers.push_back({.lower = time, .upper = time + 1, .bytes = 1});
    part_of.push_back(part);
    ++time;
    for (int i = 0; i < kWaitsEach; ++i) problem.waits.push_back({time++, 1, 0});
  }
  const std::vector<std::vector<PlanWait>> waits = WaitsOfParts(problem, part_of, kParts);
  for (const std::vector<PlanWait>& part : waits) EXPECT_EQ(part.size(), 1);
}

}  // namespace
}  // namespace tidepool
