// SPDX-License-Identifier: Apache-2.0
// The policy `best` against all other policies and against independent answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/rounds.h"
#include "tests/training/chain/chain_vectors.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using testing::AreClose;
using testing::ChainVector;
using testing::RandomChains;

// Searches end by themselves, so the result does not depend on the machine.
const ChainPolicyOptions kPatient = {.time_limit_seconds = 1000};

ChainSchedule BestOf(const Chain& chain) {
  absl::StatusOr<ChainSchedule> best = MakeChainSchedule("best", chain, kPatient);
  EXPECT_TRUE(best.ok()) << best.status();
  if (!best.ok()) return {};
  EXPECT_EQ(CheckChainSchedule(chain, *best), absl::OkStatus());
  EXPECT_LE(best->lower_bound_seconds, best->seconds);
  EXPECT_GE(best->lower_bound_seconds, ChainOperationBound(chain) * (1 - 1e-9));
  return *std::move(best);
}

// A counterexample to the paper's Lemma 3: all schedules that offload everything before they fetch
// anything take 213 seconds or more.
TEST(BestChain, FetchesBeforeTheLastOffload) {
  const Chain chain = {.forward_seconds = {1, 1, 30, 1, 1},
                       .backward_seconds = {1, 1, 1, 1, 1},
                       .forward_extra = {0, 95, 0, 0, 0},
                       .backward_extra = {0, 0, 0, 0, 60},
                       .x = {10, 0, 0, 80, 0, 0},
                       .y = {0, 0, 0, 0, 0, 0},
                       .link_bytes_per_second = 1,
                       .memory_bytes = 100};
  const ChainSchedule best = BestOf(chain);
  EXPECT_EQ(best.seconds, 206);
  EXPECT_TRUE(best.proved);
  std::vector<ChainAction> transfers;
  for (const ChainStep& step : best.steps) {
    if (step.action == ChainAction::kOffload || step.action == ChainAction::kPrefetch) {
      transfers.push_back(step.action);
    }
  }
  using enum ChainAction;
  EXPECT_THAT(transfers, ::testing::ElementsAre(kOffload, kPrefetch, kOffload, kPrefetch));
}

TEST(BestChain, IsProvedAndBeatsAllOtherPolicies) {
  RandomChains random(21);
  int better = 0;
  for (int i = 0; i < 400; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(6)) + 1);
    if (i % 3 == 0) random.LetGradientsStay(chain);
    if (random.Chance(0.3)) chain.memory_bytes = LeastChainMemory(chain);
    SCOPED_TRACE(ChainJson(chain));
    const ChainSchedule best = BestOf(chain);
    EXPECT_TRUE(best.proved);
    double others = std::numeric_limits<double>::infinity();
    for (const char* policy : {"greedy", "dynprog", "vdnn-ratio", "autoswap", "tflms"}) {
      const auto other = MakeChainSchedule(policy, chain, kPatient);
      if (!other.ok()) continue;
      EXPECT_LE(best.seconds, other->seconds * (1 + 1e-12)) << policy;
      others = std::min(others, other->seconds);
    }
    better += best.seconds < others * (1 - 1e-9) ? 1 : 0;
  }
  EXPECT_GT(better, 5);
}

TEST(BestChain, NeverTakesLongerWithMoreMemory) {
  RandomChains random(22);
  for (int i = 0; i < 40; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(5)) + 1);
    const std::int64_t least = LeastChainMemory(chain);
    const std::int64_t step = std::max<std::int64_t>((ChainPeak(chain) - least) / 6, 1);
    double last = std::numeric_limits<double>::infinity();
    for (chain.memory_bytes = least; chain.memory_bytes <= ChainPeak(chain) + step;
         chain.memory_bytes += step) {
      const double seconds = BestOf(chain).seconds;
      EXPECT_LE(seconds, last * (1 + 1e-12)) << ChainJson(chain);
      last = seconds;
    }
    EXPECT_TRUE(AreClose(last, ChainSeconds(chain)));
  }
}

TEST(BestChain, CopiesInBothDirectionsAtOnce) {
  RandomChains random(24);
  ChainPolicyOptions duplex = kPatient;
  duplex.copies.full_duplex = true;
  for (int i = 0; i < testing::Rounds(100); ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(6)) + 1);
    if (random.Chance(0.5)) chain.memory_bytes = LeastChainMemory(chain);
    SCOPED_TRACE(ChainJson(chain));
    const auto made = MakeChainSchedule("best", chain, duplex);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(CheckChainSchedule(chain, *made), absl::OkStatus());
    EXPECT_TRUE(made->proved);
    EXPECT_LE(made->seconds, BestOf(chain).seconds);
  }
}

// F_4 needs the memory of x_3, and B_2 that of x_0. With one transfer at a time x_0 leaves first,
// which delays x_3 by two seconds; otherwise it leaves while x_3 comes back.
TEST(BestChain, SendsWhileItFetches) {
  const Chain chain = {.forward_seconds = {1, 1, 1, 1, 1},
                       .backward_seconds = {1, 1, 1, 1, 1},
                       .forward_extra = {0, 0, 0, 0, 12},
                       .backward_extra = {0, 0, 8, 0, 0},
                       .x = {5, 0, 0, 10, 0, 0},
                       .y = {0, 0, 0, 0, 0, 0},
                       .link_bytes_per_second = 1,
                       .memory_bytes = 20};
  EXPECT_EQ(BestOf(chain).seconds, 34);
  ChainPolicyOptions options = kPatient;
  options.copies.full_duplex = true;
  ChainSchedule made = MakeChainSchedule("best", chain, options).value();
  EXPECT_EQ(made.seconds, 32);
  EXPECT_TRUE(made.proved);
  EXPECT_EQ(CheckChainSchedule(chain, made), absl::OkStatus());
  made.copies = {};
  EXPECT_NE(CheckChainSchedule(chain, made), absl::OkStatus());
}

TEST(BestChain, WaitsForTheLatencyOfEachCopy) {
  RandomChains random(25);
  ChainPolicyOptions options = kPatient;
  options.copies.latency_seconds = 0.25;
  int slower = 0;
  const int rounds = testing::Rounds(200);
  for (int i = 0; i < rounds; ++i) {
    const Chain chain = random.Next(static_cast<std::size_t>(random.Below(6)) + 1);
    SCOPED_TRACE(ChainJson(chain));
    auto made = MakeChainSchedule("best", chain, options);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(CheckChainSchedule(chain, *made), absl::OkStatus());
    EXPECT_TRUE(made->proved);
    const ChainSchedule without = BestOf(chain);
    EXPECT_GE(made->seconds, without.seconds * (1 - 1e-12));
    // All copies of the schedule without latency, each with its latency before it.
    const auto copies = static_cast<double>(2 * OffloadedIndices(without).size());
    EXPECT_LE(made->seconds, without.seconds + 0.25 * copies + 1e-9);
    slower += made->seconds > without.seconds ? 1 : 0;
  }
  EXPECT_GT(slower, rounds / 10);
}

// A compressor is a link of another rate: that of the bytes that are sent, or of the engine.
TEST(BestChain, CompressesAsOnAFasterLink) {
  struct Case {
    CopyCompressor compressor;
    double density;
    double link;  // with the same times, for a link of 1
  };
  const double infinite = std::numeric_limits<double>::infinity();
  const Case cases[] = {{{infinite, infinite}, 0.46875, 2},
                        {{4, 4}, 0.09375, 4},
                        {{3, 3}, 0.09375, 3},
                        {{100, 100}, 1, 1}};
  RandomChains random(28);
  for (int i = 0; i < 60; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(6)) + 1);
    chain.link_bytes_per_second = 1;
    SCOPED_TRACE(ChainJson(chain));
    for (const Case& one : cases) {
      ChainPolicyOptions options = kPatient;
      options.copies.compressor = one.compressor;
      options.copies.density = one.density;
      const auto made = MakeChainSchedule("best", chain, options);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ(CheckChainSchedule(chain, *made), absl::OkStatus());
      EXPECT_EQ(made->copies.compressor.exists(), one.link > 1);
      Chain faster = chain;
      faster.link_bytes_per_second = one.link;
      EXPECT_NEAR(made->seconds, BestOf(faster).seconds, 1e-9 * made->seconds);
      EXPECT_TRUE(made->proved);
    }
  }
}

// With other rates on the way out and on the way in, the time is between those of both.
TEST(BestChain, CompressesInEachDirectionAtItsRate) {
  RandomChains random(29);
  ChainPolicyOptions options = kPatient;
  options.copies = {.compressor = {4, 2}, .density = 0.1};
  int between = 0;
  for (int i = 0; i < 60; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(6)) + 1);
    chain.link_bytes_per_second = 1;
    const auto made = MakeChainSchedule("best", chain, options);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(CheckChainSchedule(chain, *made), absl::OkStatus());
    EXPECT_TRUE(made->proved);
    Chain slower = chain;
    slower.link_bytes_per_second = 2;
    Chain faster = chain;
    faster.link_bytes_per_second = 4;
    const double most = BestOf(slower).seconds;
    const double least = BestOf(faster).seconds;
    EXPECT_LE(made->seconds, most * (1 + 1e-9));
    EXPECT_GE(made->seconds, least * (1 - 1e-9));
    between += made->seconds < most && made->seconds > least ? 1 : 0;
  }
  EXPECT_GT(between, 5);
}

TEST(BestChain, RefusesCompressorsOutOfRange) {
  const Chain chain = RandomChains(30).Next(2);
  ChainPolicyOptions options = kPatient;
  for (const double wrong : {-0.1, 1.1, std::nan("")}) {
    options.copies = {.compressor = {2, 2}, .density = wrong};
    EXPECT_TRUE(absl::IsInvalidArgument(MakeChainSchedule("best", chain, options).status()));
    options.copies = {.compressor = {2, wrong - 1}, .density = 0.5};
    EXPECT_TRUE(absl::IsInvalidArgument(MakeChainSchedule("best", chain, options).status()));
  }
}

TEST(BestChain, RefusesLatenciesOutOfRange) {
  const Chain chain = RandomChains(26).Next(2);
  ChainPolicyOptions options = kPatient;
  for (const double latency : {-1.0, 1e10, std::nan("")}) {
    options.copies.latency_seconds = latency;
    EXPECT_TRUE(absl::IsInvalidArgument(MakeChainSchedule("best", chain, options).status()));
  }
}

// Nothing is transferred or the link has its latency, so recomputation may be faster.
TEST(BestChain, RecomputesOnAnyLink) {
  RandomChains random(27);
  ChainPolicyOptions options = kPatient;
  options.recomputes = true;
  options.copies = {.full_duplex = true, .latency_seconds = 1};
  int reruns = 0;
  const int rounds = testing::Rounds(60);
  for (int i = 0; i < rounds; ++i) {
    const Chain chain = random.Next(static_cast<std::size_t>(random.Below(5)) + 1);
    const auto made = MakeChainSchedule("best", chain, options);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(CheckChainSchedule(chain, *made), absl::OkStatus());
    reruns += RecomputedIndices(*made).empty() ? 0 : 1;
  }
  EXPECT_GT(reruns, rounds / 12);
}

TEST(BestChain, RecomputesWhereThatIsFaster) {
  RandomChains random(23);
  ChainPolicyOptions options = kPatient;
  options.recomputes = true;
  int better = 0;
  for (int i = 0; i < 60; ++i) {
    const Chain chain = random.Next(static_cast<std::size_t>(random.Below(5)) + 1);
    const auto best = MakeChainSchedule("best", chain, options);
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_EQ(CheckChainSchedule(chain, *best), absl::OkStatus());
    EXPECT_GE(best->lower_bound_seconds, ChainSeconds(chain));
    const double transferring = BestOf(chain).seconds;
    EXPECT_LE(best->seconds, transferring);
    better += best->seconds < transferring ? 1 : 0;
    for (const char* policy : {"recompute", "pofo"}) {
      const auto other = MakeChainSchedule(policy, chain, options);
      if (!other.ok()) continue;
      EXPECT_LE(best->seconds, other->seconds) << policy;
    }
  }
  EXPECT_GT(better, 5);
}

TEST(BestChainVectors, AreTheTrueOptima) {
  TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors());
  int optima = 0;
  int small = 0;
  int proved = 0;
  for (const ChainVector& vector : testing::ReadChainVectors()) {
    SCOPED_TRACE(vector.name);
    if (!vector.expect["feasible"]) {
      EXPECT_TRUE(
          absl::IsResourceExhausted(MakeChainSchedule("best", vector.chain, kPatient).status()));
      continue;
    }
    const ChainSchedule best = BestOf(vector.chain);
    if (2 * vector.chain.forward_seconds.size() <= 20) {
      ++small;
      proved += best.proved ? 1 : 0;
    }
    for (const char* key : {"true_optimum", "best_offloads_first_any_order", "best_ordered"}) {
      const nlohmann::json& known = vector.expect.value(key, nlohmann::json());
      const nlohmann::json value = known.is_object() ? known["makespan"] : known;
      if (!value.is_number()) continue;
      EXPECT_LE(best.seconds, value.get<double>() * (1 + 1e-9)) << key;
      if (std::string(key) == "true_optimum") {
        ++optima;
        EXPECT_TRUE(AreClose(best.seconds, value.get<double>()));
        EXPECT_TRUE(best.proved);
      }
    }
  }
  EXPECT_GT(optima, 15);
  EXPECT_EQ(proved, small);
}

}  // namespace
}  // namespace tidepool
