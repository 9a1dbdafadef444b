// SPDX-License-Identifier: Apache-2.0
// Every policy, on millions of random operations, places everything where the slow oracle does.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "lib/memory/blocks/arena.h"
#include "tests/support/slow_arena.h"
#include "tidepool/placement.h"

namespace tidepool::blocks {
namespace {

// The distribution of sizes: each crowds a different part of the indexes.
enum class Sizes { kLogUniform, kFewSizes, kTiny, kMinute, kOneSize };

struct Scenario {
  const char* name;
  Sizes sizes;
  std::int64_t capacity;
  std::int64_t alignment;
  int live;  // about how many blocks are live at a time
  int operations;
};

std::ostream& operator<<(std::ostream& out, const Scenario& scenario) {
  return out << scenario.name;
}

std::int64_t DrawBytes(Sizes sizes, std::mt19937_64& random) {
  switch (sizes) {
    case Sizes::kLogUniform:
      return std::int64_t{1} << std::uniform_int_distribution<int>(0, 25)(random) |
             std::uniform_int_distribution<std::int64_t>(0, 4095)(random);
    case Sizes::kFewSizes:
      return (1 + std::uniform_int_distribution<std::int64_t>(0, 4)(random)) * 100'000;
    case Sizes::kTiny:
      return std::uniform_int_distribution<std::int64_t>(1, 2000)(random);
    case Sizes::kMinute:
      return std::uniform_int_distribution<std::int64_t>(1, 12)(random);
    case Sizes::kOneSize:
      return 4096;
  }
  return 1;
}

class ArenaProperty : public ::testing::TestWithParam<std::tuple<std::string, Scenario>> {};

TEST_P(ArenaProperty, PlacesLikeTheOracle) {
  const auto& [policy_name, scenario] = GetParam();
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(policy_name);
  Arena arena(scenario.capacity, scenario.alignment, *policy);
  testing::SlowArena oracle(scenario.capacity, scenario.alignment, policy_name);
  std::mt19937_64 random(20261120);
  std::vector<std::int64_t> live;
  int served = 0;
  for (int i = 0; i < scenario.operations; ++i) {
    const bool allocates = live.empty() || std::uniform_int_distribution<int>(0, 2 * scenario.live)(
                                               random) >= static_cast<int>(live.size());
    if (allocates) {
      const std::int64_t bytes = DrawBytes(scenario.sizes, random);
      const Hint hint = random() % 3 == 0 ? Hint::kOffloadable : Hint::kResident;
      const std::int64_t offset = arena.Allocate(bytes, hint);
      ASSERT_EQ(offset, oracle.Allocate(bytes, hint)) << "operation " << i;
      if (offset != kNoOffset) {
        live.push_back(offset);
        ++served;
      }
    } else {
      std::int64_t& victim = live[random() % live.size()];
      ASSERT_TRUE(arena.Free(victim));
      oracle.Free(victim);
      victim = live.back();
      live.pop_back();
    }
    if (i % 4096 == 0) {
      ASSERT_TRUE(arena.blocks().CheckInvariants().ok()) << arena.blocks().CheckInvariants();
      const BlockId largest = arena.blocks().Largest();
      ASSERT_EQ(largest == kNoBlock ? 0 : arena.blocks().bytes(largest), oracle.LargestFree());
    }
  }
  EXPECT_GT(served, scenario.operations / 10);
  for (const std::int64_t offset : live) ASSERT_TRUE(arena.Free(offset));
  ASSERT_TRUE(arena.blocks().CheckInvariants().ok());
  EXPECT_EQ(arena.blocks().live_bytes(), 0);
  EXPECT_EQ(arena.blocks().bytes(arena.blocks().First()), arena.blocks().capacity());
}

INSTANTIATE_TEST_SUITE_P(
    Policies, ArenaProperty,
    ::testing::Combine(
        ::testing::ValuesIn(PlacementPolicyNames()),
        ::testing::Values(
            Scenario{"Roomy", Sizes::kLogUniform, std::int64_t{1} << 40, 512, 60, 1'500'000},
            Scenario{"Few", Sizes::kLogUniform, std::int64_t{1} << 36, 512, 30, 300'000},
            Scenario{"Crowded", Sizes::kLogUniform, std::int64_t{1} << 28, 512, 300, 100'000},
            Scenario{"ByTheByte", Sizes::kLogUniform, std::int64_t{1} << 40, 1, 400, 100'000},
            Scenario{"ByTheLargePage", Sizes::kLogUniform, std::int64_t{1} << 33, 1 << 21, 400,
                     100'000},
            Scenario{"FewSizes", Sizes::kFewSizes, 100'000'000, 512, 400, 100'000},
            Scenario{"TinyByTheByte", Sizes::kTiny, 1'000'000, 1, 600, 100'000},
            Scenario{"MinuteByTheByte", Sizes::kMinute, 80, 1, 12, 100'000},
            Scenario{"Tiny", Sizes::kTiny, 1'000'000, 512, 600, 100'000},
            Scenario{"OneSize", Sizes::kOneSize, 8'000'000, 512, 1200, 60'000})),
    [](const auto& instance) {
      std::string name = std::get<0>(instance.param) + "_" + std::get<1>(instance.param).name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace tidepool::blocks
