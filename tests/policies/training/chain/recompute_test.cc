// SPDX-License-Identifier: Apache-2.0
// Recomputation against the optima of an oracle, and against a slow search of random chains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "policies/training/chain/paper_values.h"
#include "tests/policies/training/chain/random_outputs.h"
#include "tests/policies/training/chain/recompute_vectors.h"
#include "tests/policies/training/chain/slow_recompute.h"
#include "tests/support/rounds.h"
#include "tests/training/chain/chain_vectors.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using testing::AreClose;
using ::testing::HasSubstr;
using testing::RandomChains;
using testing::SlowRecompute;

absl::StatusOr<ChainSchedule> Recompute(const Chain& chain, std::int64_t slots = 0) {
  absl::StatusOr<ChainSchedule> schedule =
      MakeChainSchedule("recompute", chain, {.slots = slots, .time_limit_seconds = 1000});
  if (!schedule.ok()) return schedule;
  const absl::Status checked = CheckChainSchedule(chain, *schedule);
  EXPECT_TRUE(checked.ok()) << checked << ChainJson(chain);
  EXPECT_TRUE(OffloadedIndices(*schedule).empty());
  return schedule;
}

TEST(Recompute, HasTheOptimaOfTheOracle) {
  TIDEPOOL_SKIP_WITHOUT(testing::RecomputeVectors());
  int runs = 0;
  int refused = 0;
  for (const nlohmann::json& entry : testing::Json(testing::RecomputeVectors())) {
    SCOPED_TRACE(entry["name"]);
    const Chain chain = *ParseChain(entry["instance"].dump(), "vector");
    const absl::StatusOr<chain_policies::RecomputeMemory> least =
        chain_policies::LeastRecomputeMemory(chain);
    ASSERT_TRUE(least.ok()) << least.status();
    EXPECT_EQ(least->bytes, entry["expect"]["least_memory"].get<std::int64_t>());
    EXPECT_TRUE(least->proved);
    const absl::StatusOr<ChainSchedule> schedule = Recompute(chain);
    ASSERT_EQ(schedule.ok(), !entry["expect"]["optimum"].is_null()) << schedule.status();
    if (!schedule.ok()) {
      EXPECT_EQ(schedule.status().code(), absl::StatusCode::kResourceExhausted);
      ++refused;
      continue;
    }
    EXPECT_TRUE(AreClose(schedule->seconds, entry["expect"]["optimum"])) << schedule->seconds;
    EXPECT_TRUE(schedule->proved);
    ++runs;
  }
  EXPECT_GE(runs, 37);
  EXPECT_GE(refused, 3);
}

// Chains of the paper's model, and chains with outputs and operations that run once.
Chain RandomShortChain(RandomChains& random, int i) {
  Chain chain = random.Next(static_cast<std::size_t>(random.Below(6)) + 1);
  if (i % 2 == 1) testing::AddOutputs(random, chain);
  if (i % 3 == 0) random.LetGradientsStay(chain);
  chain.memory_bytes = ChainPeak(chain) * (12 + random.Below(13)) / 24;
  return chain;
}

TEST(Recompute, IsOptimalOnRandomChains) {
  RandomChains random(11);
  int slower = 0;
  int refused = 0;
  const int rounds = testing::Rounds(1500);
  for (int i = 0; i < rounds; ++i) {
    const Chain chain = RandomShortChain(random, i);
    SCOPED_TRACE(ChainJson(chain));
    const double expected = SlowRecompute(chain).Seconds();
    const absl::StatusOr<ChainSchedule> schedule = Recompute(chain);
    ASSERT_EQ(schedule.ok(), !std::isinf(expected)) << schedule.status();
    if (!schedule.ok()) {
      EXPECT_EQ(schedule.status().code(), absl::StatusCode::kResourceExhausted);
      ++refused;
      continue;
    }
    ASSERT_TRUE(AreClose(schedule->seconds, expected)) << schedule->seconds << " " << expected;
    EXPECT_TRUE(schedule->proved);
    slower += expected > ChainSeconds(chain) ? 1 : 0;
  }
  EXPECT_GE(slower, rounds / 8);
  EXPECT_GE(refused, rounds / 15);
}

TEST(Recompute, RunsInTheLeastMemoryOnly) {
  RandomChains random(12);
  int below_persistent = 0;
  for (int i = 0; i < 300; ++i) {
    Chain chain = RandomShortChain(random, i);
    SCOPED_TRACE(ChainJson(chain));
    const chain_policies::RecomputeMemory least = *chain_policies::LeastRecomputeMemory(chain);
    EXPECT_TRUE(least.proved);
    chain.memory_bytes = least.bytes;
    EXPECT_FALSE(std::isinf(SlowRecompute(chain).Seconds()));
    if (least.bytes == 0) continue;
    chain.memory_bytes = least.bytes - 1;
    EXPECT_TRUE(std::isinf(SlowRecompute(chain).Seconds()));
    below_persistent += 1;
  }
  EXPECT_GE(below_persistent, 200);
}

// With slots a schedule is persistent: not faster than the best, and valid.
TEST(Recompute, SlotsMakeValidSchedules) {
  RandomChains random(13);
  int optimal = 0;
  int others = 0;
  for (int i = 0; i < 600; ++i) {
    const Chain chain = RandomShortChain(random, i);
    const absl::StatusOr<ChainSchedule> best = Recompute(chain);
    for (const std::int64_t slots : {1, 10, 20000}) {
      const absl::StatusOr<ChainSchedule> schedule = Recompute(chain, slots);
      if (!schedule.ok()) continue;
      ASSERT_TRUE(best.ok());
      EXPECT_GE(schedule->seconds, best->seconds * (1 - 1e-9));
      EXPECT_LE(schedule->lower_bound_seconds, best->seconds * (1 + 1e-9));
      if (slots == 20000) (AreClose(schedule->seconds, best->seconds) ? optimal : others) += 1;
    }
  }
  EXPECT_GE(optimal, 100);
  EXPECT_LE(others, optimal / 4);
}

// Long chains: a bound that holds, and time that falls as memory grows.
TEST(Recompute, LongChainsGetFasterWithMemory) {
  RandomChains random(14);
  Chain chain = random.Next(60);
  testing::AddOutputs(random, chain);
  chain.runs_once.clear();
  const std::int64_t least = chain_policies::LeastRecomputeMemory(chain)->bytes;
  const std::int64_t most = ChainPeak(chain);
  double last = INFINITY;
  const int parts = testing::Rounds(8);
  for (int part = 0; part <= parts; ++part) {
    chain.memory_bytes = least + (most - least) * part / parts;
    const absl::StatusOr<ChainSchedule> schedule = Recompute(chain);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_LE(schedule->seconds, last * 1.02);
    EXPECT_LE(schedule->lower_bound_seconds, schedule->seconds);
    last = schedule->seconds;
  }
  EXPECT_TRUE(AreClose(last, ChainSeconds(chain)));
}

TEST(Recompute, RefusesChainsThatAreTooLong) {
  RandomChains random(15);
  const Chain chain = random.Next(513);
  const absl::Status status = MakeChainSchedule("recompute", chain, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("513 forward operations"));
  EXPECT_EQ(chain_policies::LeastRecomputeMemory(chain).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tidepool
