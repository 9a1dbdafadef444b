// SPDX-License-Identifier: Apache-2.0
// The relaxations of Beaumont et al. against brute force over all sets, and against an independent
// oracle.
#include <gtest/gtest.h>

#include <limits>

#include "policies/training/chain/paper_values.h"
#include "tests/support/rounds.h"
#include "tests/training/chain/chain_vectors.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using testing::AreClose;
using testing::ChainVector;
using testing::RandomChains;
using Indices = std::vector<std::size_t>;

std::vector<Indices> AllSets(std::size_t operations) {
  std::vector<Indices> sets;
  for (std::size_t mask = 0; mask < std::size_t{1} << operations; ++mask) {
    Indices& set = sets.emplace_back();
    for (std::size_t i = 0; i < operations; ++i) {
      if ((mask >> i & 1) != 0) set.push_back(i);
    }
  }
  return sets;
}

TEST(FractionalOptimum, EqualsBruteForceOverAllSets) {
  RandomChains random(11);
  int waits = 0;
  const int rounds = testing::Rounds(1500);
  for (int k = 0; k < rounds; ++k) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(9)) + 1);
    if (k % 3 == 0) random.LetGradientsStay(chain);
    SCOPED_TRACE(ChainJson(chain));
    double least = std::numeric_limits<double>::infinity();
    for (const Indices& set : AllSets(chain.forward_seconds.size())) {
      const absl::StatusOr<double> seconds = chain_policies::FractionalMakespan(chain, set);
      const absl::StatusOr<double> whole = OrderedMakespan(chain, set);
      ASSERT_EQ(seconds.ok(), whole.ok()) << seconds.status() << whole.status();
      if (!seconds.ok()) continue;
      EXPECT_LE(*seconds, *whole);
      least = std::min(least, *seconds);
    }
    const absl::StatusOr<chain_policies::FractionalOptimum> optimum =
        chain_policies::FindFractionalOptimum(chain);
    ASSERT_TRUE(optimum.ok()) << optimum.status();
    EXPECT_TRUE(optimum->proved);
    EXPECT_TRUE(AreClose(optimum->seconds, least)) << optimum->seconds << " " << least;
    EXPECT_TRUE(AreClose(*chain_policies::FractionalMakespan(chain, optimum->set), least));
    waits += least > ChainSeconds(chain) ? 1 : 0;
    // Parts of activations are a further relaxation; both of these have all offloads first.
    const absl::StatusOr<double> eager = chain_policies::EagerFractionalMakespan(chain);
    ASSERT_TRUE(eager.ok());
    EXPECT_LE(*eager, least * (1 + 1e-12));
    EXPECT_GE(*eager, ChainOperationBound(chain) * (1 - 1e-12));
  }
  EXPECT_GT(waits, rounds / 3);
}

TEST(FractionalOptimum, TellsWhatDoesNotFit) {
  RandomChains random(2);
  Chain chain = random.Next(4);
  chain.memory_bytes = LeastChainMemory(chain) - 1;
  EXPECT_EQ(chain_policies::FindFractionalOptimum(chain).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(chain_policies::EagerFractionalMakespan(chain).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(chain_policies::FractionalMakespan(chain, {0, 1, 2, 3}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(chain_policies::FractionalMakespan(chain, {4}).status().message(),
            "activation 4, expected 0 to 3");
}

class FractionalVectors : public ::testing::Test {
 protected:
  void SetUp() override { TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors()); }
};

TEST_F(FractionalVectors, MakespansOfSetsAreExact) {
  int sets = 0;
  for (const ChainVector& vector : testing::ReadChainVectors()) {
    if (!vector.expect.contains("set_makespans")) continue;
    for (const nlohmann::json& entry : vector.expect["set_makespans"]) {
      const Indices set = entry["set"];
      SCOPED_TRACE(vector.name + " " + entry["set"].dump());
      const absl::StatusOr<double> seconds = chain_policies::FractionalMakespan(vector.chain, set);
      ASSERT_EQ(seconds.ok(), !entry["fractional"].is_null()) << seconds.status();
      if (!seconds.ok()) continue;
      EXPECT_TRUE(AreClose(*seconds, entry["fractional"])) << *seconds << entry["fractional"];
      ++sets;
    }
  }
  EXPECT_GE(sets, 100);
}

TEST_F(FractionalVectors, OptimaAreExact) {
  int optima = 0;
  for (const ChainVector& vector : testing::ReadChainVectors()) {
    if (!vector.expect["feasible"]) continue;
    SCOPED_TRACE(vector.name);
    const absl::StatusOr<chain_policies::FractionalOptimum> optimum =
        chain_policies::FindFractionalOptimum(vector.chain);
    ASSERT_TRUE(optimum.ok()) << optimum.status();
    EXPECT_TRUE(optimum->proved);
    const auto expected = vector.expect.find("dp_fractional_makespan");
    if (expected == vector.expect.end() || expected->is_null()) continue;
    EXPECT_TRUE(AreClose(optimum->seconds, *expected)) << optimum->seconds << *expected;
    ++optima;
  }
  EXPECT_GE(optima, 50);
}

}  // namespace
}  // namespace tidepool
