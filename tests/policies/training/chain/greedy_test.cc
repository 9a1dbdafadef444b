// SPDX-License-Identifier: Apache-2.0
// The greedy policy by hand, on random chains, and against an independent oracle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/training/chain/chain_vectors.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using testing::AreClose;
using testing::ChainVector;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RandomChains;

// Two operations, of which the first one's input must leave before the second one fits.
Chain TightChain() {
  return {.forward_seconds = {1, 1},
          .backward_seconds = {1, 1},
          .forward_extra = {0, 0},
          .backward_extra = {0, 0},
          .x = {4, 2, 2},
          .y = {0, 0, 0},
          .link_bytes_per_second = 2,
          .memory_bytes = 6};
}

TEST(Greedy, OffloadsTheFirstActivations) {
  const auto schedule = MakeChainSchedule("greedy", TightChain(), {});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->policy, "greedy");
  EXPECT_EQ(schedule->seconds, 7);
  EXPECT_EQ(schedule->lower_bound_seconds, 4);
  EXPECT_FALSE(schedule->proved);
  EXPECT_THAT(
      schedule->steps,
      ElementsAre(ChainStep{ChainAction::kOffload, 0, 0}, ChainStep{ChainAction::kForward, 0, 0},
                  ChainStep{ChainAction::kForward, 1, 2}, ChainStep{ChainAction::kBackward, 1, 3},
                  ChainStep{ChainAction::kPrefetch, 0, 4},
                  ChainStep{ChainAction::kBackward, 0, 6}));
}

TEST(Greedy, MovesNothingWhenAllFits) {
  Chain chain = TightChain();
  chain.memory_bytes = ChainPeak(chain);
  const auto schedule = MakeChainSchedule("greedy", chain, {});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_THAT(OffloadedIndices(*schedule), IsEmpty());
  EXPECT_EQ(schedule->seconds, ChainSeconds(chain));
  EXPECT_TRUE(schedule->proved);
}

TEST(Greedy, RunsWhereverTheChainRuns) {
  RandomChains random(7);
  for (int i = 0; i < 2000; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(12)) + 1);
    if (random.Chance(0.3)) chain.memory_bytes = LeastChainMemory(chain);
    SCOPED_TRACE(ChainJson(chain));
    const auto schedule = MakeChainSchedule("greedy", chain, {});
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_TRUE(CheckChainSchedule(chain, *schedule).ok()) << CheckChainSchedule(chain, *schedule);
  }
}

TEST(Greedy, RefusesLessThanAnOperationNeeds) {
  Chain chain = TightChain();
  chain.memory_bytes = 5;
  const absl::Status status = MakeChainSchedule("greedy", chain, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "F_0 alone needs 6 bytes, and the memory has 5 bytes");
  EXPECT_EQ(*LeastPolicyMemory("greedy", chain, {}), 6);
  chain.backward_extra[1] = 100;
  chain.memory_bytes = 6;
  EXPECT_THAT(std::string(MakeChainSchedule("greedy", chain, {}).status().message()),
              HasSubstr("B_1 alone needs 104 bytes"));
}

TEST(ChainPolicies, RefuseWrongArguments) {
  EXPECT_EQ(MakeChainSchedule("greddy", TightChain(), {}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MakeChainSchedule("greddy", TightChain(), {}).status().message()),
              ::testing::StartsWith("no chain policy 'greddy', expected one of greedy"));
  EXPECT_EQ(MakeChainSchedule("greedy", TightChain(), {.slots = -1}).status().message(),
            "-1 slots, expected 0 to 1000000");
  for (const double limit : {0.0, -1.0, std::nan("")}) {
    EXPECT_EQ(
        MakeChainSchedule("greedy", TightChain(), {.time_limit_seconds = limit}).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
  Chain chain = TightChain();
  chain.x.pop_back();
  EXPECT_EQ(MakeChainSchedule("greedy", chain, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

void ExpectStarts(const ChainSchedule& schedule, ChainAction action,
                  const std::vector<std::size_t>& indices, const nlohmann::json& expected,
                  std::size_t operations) {
  const std::vector<double> starts = FirstStarts(schedule, action, operations);
  ASSERT_EQ(indices.size(), expected.size());
  for (std::size_t k = 0; k < indices.size(); ++k) {
    EXPECT_NEAR(starts[indices[k]], expected[k].get<double>(), 1e-9 * schedule.seconds) << k;
  }
}

TEST(Greedy, EqualsTheOracleStartByStart) {
  TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors());
  int checked = 0;
  for (const ChainVector& vector : testing::ReadChainVectors()) {
    SCOPED_TRACE(vector.name);
    const auto schedule = MakeChainSchedule("greedy", vector.chain, {});
    ASSERT_EQ(schedule.ok(), vector.expect["feasible"].get<bool>()) << schedule.status();
    if (!schedule.ok()) continue;
    const nlohmann::json& expected = vector.expect["greedy"];
    const std::vector<std::size_t> set = expected["set"];
    const std::size_t operations = vector.chain.forward_seconds.size();
    std::vector<std::size_t> all(operations);
    for (std::size_t i = 0; i < operations; ++i) all[i] = i;
    EXPECT_EQ(OffloadedIndices(*schedule), set);
    EXPECT_TRUE(AreClose(schedule->seconds, expected["makespan"]));
    ExpectStarts(*schedule, ChainAction::kForward, all, expected["F_start"], operations);
    ExpectStarts(*schedule, ChainAction::kBackward, all, expected["B_start"], operations);
    ExpectStarts(*schedule, ChainAction::kOffload, set, expected["offload_start"], operations);
    ExpectStarts(*schedule, ChainAction::kPrefetch, set, expected["prefetch_start"], operations);
    EXPECT_TRUE(CheckChainSchedule(vector.chain, *schedule).ok());
    ++checked;
  }
  EXPECT_GE(checked, 50);
}

}  // namespace
}  // namespace tidepool
