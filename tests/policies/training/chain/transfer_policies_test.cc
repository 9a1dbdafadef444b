// SPDX-License-Identifier: Apache-2.0
// Policies that only transfer activations: valid schedules, none below the bound, and the values of
// an independent oracle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "policies/training/chain/idle_search.h"
#include "policies/training/chain/paper_values.h"
#include "policies/training/chain/slots.h"
#include "policies/training/chain/swap_scores.h"
#include "tests/support/rounds.h"
#include "tests/training/chain/chain_vectors.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using testing::AreClose;
using testing::ChainVector;
using ::testing::ElementsAre;
using testing::RandomChains;
using Indices = std::vector<std::size_t>;

constexpr const char* kPolicies[] = {"greedy", "dynprog", "vdnn-ratio", "autoswap", "tflms"};

TEST(TransferPolicies, MakeValidSchedules) {
  RandomChains random(5);
  int failures = 0;
  for (int k = 0; k < 300; ++k) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(14)) + 1);
    if (k % 3 == 0) random.LetGradientsStay(chain);
    if (random.Chance(0.2)) chain.memory_bytes = LeastChainMemory(chain);
    SCOPED_TRACE(ChainJson(chain));
    for (const char* policy : kPolicies) {
      const auto schedule = MakeChainSchedule(policy, chain, {});
      const bool may_fail = std::string(policy) == "tflms";
      ASSERT_TRUE(schedule.ok() || may_fail) << policy << schedule.status();
      failures += schedule.ok() ? 0 : 1;
      if (!schedule.ok()) continue;
      EXPECT_EQ(schedule->policy, policy);
      const absl::Status status = CheckChainSchedule(chain, *schedule);
      EXPECT_TRUE(status.ok()) << policy << ": " << status;
      EXPECT_LE(ChainOperationBound(chain), schedule->seconds * (1 + 1e-12));
      EXPECT_LE(schedule->lower_bound_seconds, schedule->seconds);
      EXPECT_EQ(schedule->proved, AreClose(schedule->seconds, schedule->lower_bound_seconds));
      EXPECT_EQ(*schedule, *MakeChainSchedule(policy, chain, {}));
    }
  }
  EXPECT_GT(failures, 20);
}

TEST(TransferPolicies, MoveNothingWhenAllFits) {
  RandomChains random(6);
  for (int k = 0; k < 50; ++k) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(14)) + 1);
    chain.memory_bytes = ChainPeak(chain);
    for (const char* policy : kPolicies) {
      const auto schedule = MakeChainSchedule(policy, chain, {.slots = 0});
      ASSERT_TRUE(schedule.ok());
      EXPECT_DOUBLE_EQ(schedule->seconds, ChainSeconds(chain)) << policy;
    }
  }
}

TEST(Dynprog, IsAsGoodAsItsSetInSlotsAndExactly) {
  RandomChains random(8);
  for (int k = 0; k < 300; ++k) {
    const Chain chain = random.Next(static_cast<std::size_t>(random.Below(10)) + 1);
    SCOPED_TRACE(ChainJson(chain));
    const absl::StatusOr<chain_policies::FractionalOptimum> optimum =
        chain_policies::FindFractionalOptimum(chain);
    ASSERT_TRUE(optimum.ok());
    const auto exact = MakeChainSchedule("dynprog", chain, {});
    ASSERT_TRUE(exact.ok());
    EXPECT_EQ(OffloadedIndices(*exact), optimum->set);
    EXPECT_EQ(exact->seconds, *OrderedMakespan(chain, optimum->set));
    for (const std::int64_t slots : {1, 7, 100, 1'000'000}) {
      const auto schedule = MakeChainSchedule("dynprog", chain, {.slots = slots});
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      EXPECT_TRUE(CheckChainSchedule(chain, *schedule).ok());
    }
  }
}

// Each y and ex is rounded up, sums of x up, sums of times down, all to slots of 10 bytes.
TEST(InSlots, RoundsAsThePaperSays) {
  const Chain chain = {.forward_seconds = {0.9, 0.9, 0.9},
                       .backward_seconds = {1, 0.5, 0.5},
                       .forward_extra = {1, 10, 0},
                       .backward_extra = {11, 0, 0},
                       .x = {5, 5, 5, 11},
                       .y = {1, 20, 21, 0},
                       .link_bytes_per_second = 10,
                       .memory_bytes = 100};
  chain_policies::FractionalChain in_slots = chain_policies::InSlots(chain, 10);
  EXPECT_THAT(in_slots.forward, ElementsAre(0, 1, 1));
  EXPECT_THAT(in_slots.backward, ElementsAre(1, 0, 1));
  EXPECT_THAT(in_slots.forward_extra, ElementsAre(1, 1, 0));
  EXPECT_THAT(in_slots.backward_extra, ElementsAre(2, 0, 0));
  EXPECT_THAT(in_slots.x, ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(in_slots.y, ElementsAre(1, 2, 3, 0));
  EXPECT_EQ(in_slots.memory, 10);
  // x_3 lacks 0.1, x_1 0.5 slots.
  EXPECT_TRUE(GiveSlot(chain, in_slots));
  EXPECT_THAT(in_slots.x, ElementsAre(1, 0, 1, 2));
  EXPECT_TRUE(GiveSlot(chain, in_slots));
  EXPECT_THAT(in_slots.x, ElementsAre(1, 1, 1, 2));
  EXPECT_FALSE(GiveSlot(chain, in_slots));
  chain_policies::FractionalChain all = chain_policies::InSlots(chain, 10);
  GiveAllSlots(chain, all);
  EXPECT_EQ(all.x, in_slots.x);
}

// The activations have 8, 4 and 2 bytes, with 2 bytes a second; 4 bytes do not fit F_2 and B_2.
TEST(SwapScores, AreTheAuthors) {
  const Chain chain = {.forward_seconds = {1, 1, 1},
                       .backward_seconds = {2, 2, 2},
                       .forward_extra = {0, 0, 0},
                       .backward_extra = {0, 0, 0},
                       .x = {8, 4, 2, 2},
                       .y = {0, 0, 0, 0},
                       .link_bytes_per_second = 4,
                       .memory_bytes = 12};
  EXPECT_THAT(chain_policies::BytesAboveMemory(chain), ElementsAre(0, 2, 4, 4, 2, 0));
  const auto scores = chain_policies::ScoresOf(chain);
  ASSERT_EQ(scores.size(), 3);
  const auto column = [&](std::size_t k) {
    return std::vector<double>{scores[0][k], scores[1][k], scores[2][k]};
  };
  // DOA 6 - 4, 3 - 2, 0 - 1.
  EXPECT_THAT(column(0), ElementsAre(1, 0.5, -0.5));
  // AOA 16, 4, -1 / 2.
  EXPECT_THAT(column(1), ElementsAre(1, 0.25, -0.5 / 16));
  // WDOA 4 + 8, 8, 0.
  EXPECT_THAT(column(2), ElementsAre(1, 8.0 / 12, 0));
  // x_0 is chosen first. It is away during F_2 and B_2, where x_1 is: 8 - 2 * 8. x_2 is next.
  EXPECT_THAT(column(3), ElementsAre(1, -8.0 / 12, 0));
}

TEST(Autoswap, DependsOnItsSeedAlone) {
  RandomChains random(9);
  int differences = 0;
  for (int k = 0; k < 30; ++k) {
    const Chain chain = random.Next(60);
    const auto first = MakeChainSchedule("autoswap", chain, {.seed = 1});
    const auto second = MakeChainSchedule("autoswap", chain, {.seed = 2});
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(*first, *MakeChainSchedule("autoswap", chain, {.seed = 1}));
    differences += first->seconds != second->seconds ? 1 : 0;
  }
  EXPECT_GT(differences, 0);
}

// tflms needs the copy of x_0 to end with F_0: no operation waits until memory is free.
TEST(Tflms, FitsWithoutDelaysOrNotAtAll) {
  const Chain roomy = {.forward_seconds = {1, 1},
                       .backward_seconds = {1, 1},
                       .forward_extra = {0, 0},
                       .backward_extra = {0, 0},
                       .x = {4, 2, 2},
                       .y = {0, 0, 0},
                       .link_bytes_per_second = 4,
                       .memory_bytes = 6};
  // x_0 leaves in the second of F_0, and returns in the second after B_1 has started: too much for
  // B_1, so it is fetched on demand.
  const auto schedule = MakeChainSchedule("tflms", roomy, {});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->seconds, 5);
  Chain slow = roomy;
  slow.link_bytes_per_second = 3;
  EXPECT_EQ(MakeChainSchedule("tflms", slow, {}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(MakeChainSchedule("greedy", slow, {}).ok());
}

TEST(TransferPolicies, TakeLongChains) {
  RandomChains random(1);
  for (const std::size_t operations : testing::Cases<std::size_t>({1000, 5000})) {
    const Chain chain = random.Next(operations);
    for (const char* policy : kPolicies) {
      const auto schedule = MakeChainSchedule(policy, chain, {.slots = 500});
      if (!schedule.ok() && std::string(policy) == "tflms") continue;
      ASSERT_TRUE(schedule.ok()) << policy << schedule.status();
      EXPECT_TRUE(CheckChainSchedule(chain, *schedule).ok()) << policy;
    }
  }
}

class PolicyVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors());
    vectors_ = testing::ReadChainVectors();
  }

  std::vector<ChainVector> vectors_;
};

TEST_F(PolicyVectors, VdnnRatioIsExact) {
  int checked = 0;
  for (const ChainVector& vector : vectors_) {
    if (!vector.expect.contains("vdnn") || vector.expect["vdnn"]["makespan"].is_null()) continue;
    const auto schedule = MakeChainSchedule("vdnn-ratio", vector.chain, {});
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_TRUE(AreClose(schedule->seconds, vector.expect["vdnn"]["makespan"]))
        << vector.name << schedule->seconds << vector.expect["vdnn"]["makespan"];
    ++checked;
  }
  EXPECT_GE(checked, 50);
}

TEST_F(PolicyVectors, DynprogIsInItsRange) {
  int checked = 0;
  for (const ChainVector& vector : vectors_) {
    const auto range = vector.expect.find("dynprog_makespan_range");
    if (range == vector.expect.end() || range->is_null()) continue;
    const auto schedule = MakeChainSchedule("dynprog", vector.chain, {});
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_GE(schedule->seconds, (*range)[0].get<double>() * (1 - 1e-9)) << vector.name;
    EXPECT_LE(schedule->seconds, (*range)[1].get<double>() * (1 + 1e-9)) << vector.name;
    ++checked;
  }
  EXPECT_GE(checked, 40);
}

TEST_F(PolicyVectors, SlotsAreRoundedExactly) {
  int checked = 0;
  for (const ChainVector& vector : vectors_) {
    if (!vector.expect.contains("discretized")) continue;
    for (const nlohmann::json& expected : vector.expect["discretized"]) {
      SCOPED_TRACE(vector.name + " " + expected["slots"].dump());
      const chain_policies::FractionalChain in_slots =
          chain_policies::InSlots(vector.chain, expected["slots"]);
      const nlohmann::json& first = expected["first_iteration"];
      EXPECT_EQ(in_slots.forward, first["uF"].get<std::vector<double>>());
      EXPECT_EQ(in_slots.backward, first["uB"].get<std::vector<double>>());
      EXPECT_EQ(in_slots.forward_extra, first["exF"].get<std::vector<double>>());
      EXPECT_EQ(in_slots.backward_extra, first["exB"].get<std::vector<double>>());
      EXPECT_EQ(in_slots.x, first["x"].get<std::vector<double>>());
      EXPECT_EQ(in_slots.y, first["y"].get<std::vector<double>>());
      const auto least = FindLeastIdle(in_slots);
      ASSERT_EQ(least.has_value(), !expected["first_idle_slots"].is_null());
      if (!least.has_value()) continue;
      EXPECT_TRUE(least->proved);
      EXPECT_EQ(least->idle, expected["first_idle_slots"].get<double>());
      ++checked;
    }
  }
  EXPECT_GE(checked, 15);
}

}  // namespace
}  // namespace tidepool
