// SPDX-License-Identifier: Apache-2.0
// Offloading and recomputation together: valid, and against all choices of blocks of small chains.
#include <gtest/gtest.h>

#include <cmath>

#include "policies/training/chain/block_search.h"
#include "tests/policies/training/chain/random_outputs.h"
#include "tests/support/rounds.h"
#include "tests/training/chain/chain_vectors.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using chain_policies::Block;
using chain_policies::RecomputeModel;
using chain_policies::RecomputeTable;
using testing::AreClose;
using testing::RandomChains;

void ExpectValid(const Chain& chain, const absl::StatusOr<ChainSchedule>& schedule) {
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  const absl::Status checked = CheckChainSchedule(chain, *schedule);
  ASSERT_TRUE(checked.ok()) << checked << ChainJson(chain);
}

Chain RandomChain(RandomChains& random, std::size_t most, int i) {
  Chain chain = random.Next(static_cast<std::size_t>(random.Below(static_cast<int>(most))) + 1);
  if (i % 2 == 1) testing::AddOutputs(random, chain);
  if (i % 3 == 0) random.LetGradientsStay(chain);
  const std::int64_t least = LeastChainMemory(chain);
  chain.memory_bytes = least + (ChainPeak(chain) - least) * random.Below(9) / 12;
  return chain;
}

// The fastest schedule of all choices of blocks and slots.
class AllBlocks {
 public:
  AllBlocks(const RecomputeTable& table, const Chain& chain) : table_(table), chain_(chain) {}

  double Seconds() {
    Choose(0);
    return best_;
  }

 private:
  void Choose(std::size_t first) {
    const std::size_t operations = chain_.forward_seconds.size();
    if (first == operations) {
      const absl::StatusOr<ChainSchedule> schedule = ScheduleBlocks(table_, blocks_);
      if (!schedule.ok()) return;
      ExpectValid(chain_, schedule);
      best_ = std::min(best_, schedule->seconds);
      return;
    }
    for (std::size_t end = first + 1; end <= operations; ++end) {
      for (const bool keeps_all : {false, true}) {
        if (end == operations && keeps_all) continue;
        if (!MayKeep(first, end, keeps_all)) continue;
        for (const bool offloads : {false, true}) {
          if (offloads && (end == operations || !HasInput(first))) continue;
          ChooseSlots({first, end, keeps_all, offloads, 0});
        }
      }
    }
  }

  // Whether the input of the next block has bytes.
  bool HasInput(std::size_t first) const {
    const bool has_all = blocks_.empty() || blocks_.back().keeps_all;
    return (has_all ? chain_.x[first] : table_.model().output(first)) > 0;
  }

  bool MayKeep(std::size_t first, std::size_t end, bool keeps_all) const {
    if (end == chain_.forward_seconds.size()) return true;
    for (std::size_t i = first; i < end - (keeps_all ? 1 : 0); ++i) {
      if (!table_.model().may_rerun(i)) return false;
    }
    return true;
  }

  void ChooseSlots(Block block) {
    const auto segment = SegmentOf(block, chain_.forward_seconds.size());
    double last = INFINITY;
    for (block.slots = 0; block.slots <= table_.slots(); ++block.slots) {
      const double seconds = table_.Seconds(segment, block.slots);
      if (seconds == last) continue;
      last = seconds;
      blocks_.push_back(block);
      Choose(block.end);
      blocks_.pop_back();
    }
  }

  const RecomputeTable& table_;
  const Chain& chain_;
  std::vector<Block> blocks_;
  double best_ = INFINITY;
};

TEST(Pofo, IsCloseToAllChoicesOfBlocks) {
  RandomChains random(21);
  int equal = 0;
  int slower = 0;
  double worst = 1;
  const int rounds = testing::Rounds(100);
  for (int i = 0; i < rounds; ++i) {
    const Chain chain = RandomChain(random, 6, i);
    SCOPED_TRACE(ChainJson(chain));
    const RecomputeModel model(chain);
    const RecomputeTable table(model, chain.memory_bytes, 200);
    const double expected = AllBlocks(table, chain).Seconds();
    const absl::StatusOr<ChainSchedule> schedule =
        MakeChainSchedule("pofo", chain, {.time_limit_seconds = 1000});
    ASSERT_NO_FATAL_FAILURE(ExpectValid(chain, schedule));
    worst = std::max(worst, schedule->seconds / expected);
    (schedule->seconds <= expected * (1 + 1e-9) ? equal : slower) += 1;
  }
  EXPECT_EQ(slower, 0) << worst;
  EXPECT_EQ(equal, rounds);
}

// In the least memory of a policy there is a schedule, and in a byte less the policy has no
// schedule.
TEST(LeastPolicyMemory, IsWhereThePolicyHasASchedule) {
  RandomChains random(24);
  int below = 0;
  for (int i = 0; i < testing::Rounds(40); ++i) {
    Chain chain = RandomChain(random, 5, i);
    for (const std::string& policy : ChainPolicyNames()) {
      const ChainPolicyOptions options = {.time_limit_seconds = 1000, .recomputes = i % 2 == 1};
      SCOPED_TRACE(policy + " " + ChainJson(chain));
      chain.memory_bytes = 0;
      const absl::StatusOr<std::int64_t> least = LeastPolicyMemory(policy, chain, options);
      ASSERT_TRUE(least.ok()) << least.status();
      chain.memory_bytes = *least;
      const absl::StatusOr<ChainSchedule> schedule = MakeChainSchedule(policy, chain, options);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      EXPECT_EQ(CheckChainSchedule(chain, *schedule), absl::OkStatus());
      below += *least < LeastChainMemory(chain) ? 1 : 0;
      if (*least == 0) continue;
      chain.memory_bytes = *least - 1;
      EXPECT_TRUE(absl::IsResourceExhausted(MakeChainSchedule(policy, chain, options).status()));
    }
  }
  EXPECT_GE(below, testing::Rounds(8));
}

// With recomputation, `best` is as fast as pofo, and has a bound as high: both hold for all
// schedules that transfer or recompute.
TEST(Pofo, IsTheBoundOfBest) {
  RandomChains random(23);
  int higher = 0;
  for (int i = 0; i < testing::Rounds(30); ++i) {
    const Chain chain = RandomChain(random, 6, i);
    SCOPED_TRACE(ChainJson(chain));
    const absl::StatusOr<ChainSchedule> pofo =
        MakeChainSchedule("pofo", chain, {.time_limit_seconds = 1000});
    const absl::StatusOr<ChainSchedule> best =
        MakeChainSchedule("best", chain, {.time_limit_seconds = 1000, .recomputes = true});
    ASSERT_TRUE(pofo.ok() && best.ok());
    EXPECT_LE(best->seconds, pofo->seconds * (1 + 1e-9));
    const double bound = std::min(pofo->lower_bound_seconds, best->seconds);
    EXPECT_GE(best->lower_bound_seconds, bound * (1 - 1e-9));
    higher += best->lower_bound_seconds > ChainSeconds(chain) * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GT(higher, 0);
}

TEST(Pofo, IsValidAndBetterThanEither) {
  RandomChains random(22);
  const int rounds = testing::Rounds(100);
  int better = 0;
  for (int i = 0; i < rounds; ++i) {
    const Chain chain = RandomChain(random, 20, i);
    SCOPED_TRACE(ChainJson(chain));
    const absl::StatusOr<ChainSchedule> schedule =
        MakeChainSchedule("pofo", chain, {.time_limit_seconds = 1000});
    ASSERT_NO_FATAL_FAILURE(ExpectValid(chain, schedule));
    double least = INFINITY;
    for (const char* policy : {"greedy", "recompute"}) {
      const absl::StatusOr<ChainSchedule> one = MakeChainSchedule(policy, chain, {});
      if (one.ok()) least = std::min(least, one->seconds);
    }
    EXPECT_LE(schedule->seconds, least * (1 + 1e-9));
    EXPECT_GE(schedule->seconds, ChainSeconds(chain) * (1 - 1e-9));
    better += schedule->seconds < least * (1 - 1e-6) ? 1 : 0;
  }
  EXPECT_GE(better, rounds * 3 / 10);
}

}  // namespace
}  // namespace tidepool
