// SPDX-License-Identifier: Apache-2.0
// The chains of Theorems 1 and 3 have the makespans that the theorems claim, for numbers with a
// partition and without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "policies/training/chain/paper_values.h"
#include "tests/support/partition_chains.h"
#include "tests/training/chain/chain_vectors.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool {
namespace {

using testing::HasThreePartition;
using testing::HasTwoPartition;
using testing::Numbers;
using testing::RandomPartitions;
using testing::ThreePartitionChain;
using testing::TwoPartitionChain;

TEST(Theorem3, HasMakespan2IfHalvesExist) {
  RandomPartitions random(4);
  for (int k = 0; k < 50; ++k) {
    const Numbers numbers = random.Halves(static_cast<std::size_t>(k % 9) + 2);
    SCOPED_TRACE(::testing::PrintToString(numbers));
    ASSERT_TRUE(HasTwoPartition(numbers));
    const Chain chain = TwoPartitionChain(numbers);
    EXPECT_EQ(ChainPeak(chain) * 2, chain.memory_bytes * 3);
    EXPECT_EQ(ChainLowerBound(chain), 2);
    EXPECT_DOUBLE_EQ(chain_policies::FindFractionalOptimum(chain)->seconds, 2);
    const auto schedule = MakeChainSchedule("dynprog", chain, {});
    ASSERT_TRUE(schedule.ok());
    EXPECT_DOUBLE_EQ(schedule->seconds, 2);
    EXPECT_TRUE(schedule->proved);
  }
}

TEST(Theorem3, HasMoreThanMakespan2Otherwise) {
  RandomPartitions random(5);
  for (int k = 0; k < 50; ++k) {
    const Numbers numbers = random.NoHalves(static_cast<std::size_t>(k % 9) + 2);
    SCOPED_TRACE(::testing::PrintToString(numbers));
    const Chain chain = TwoPartitionChain(numbers);
    EXPECT_EQ(ChainLowerBound(chain), 2);
    const absl::StatusOr<chain_policies::FractionalOptimum> optimum =
        chain_policies::FindFractionalOptimum(chain);
    EXPECT_TRUE(optimum->proved);
    EXPECT_GT(optimum->seconds, 2);
    for (const std::string& policy : ChainPolicyNames()) {
      const auto schedule = MakeChainSchedule(policy, chain, {.time_limit_seconds = 0.01});
      if (!schedule.ok() || !RecomputedIndices(*schedule).empty()) continue;
      EXPECT_GT(schedule->seconds, 2) << policy;
    }
  }
}

TEST(Theorem3, IsTheOraclesChain) {
  TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors());
  int found = 0;
  for (const testing::ChainVector& vector : testing::ReadChainVectors()) {
    if (!vector.name.starts_with("twopartition")) continue;
    const Numbers numbers(vector.chain.x.begin(), vector.chain.x.end() - 4);
    EXPECT_EQ(TwoPartitionChain(numbers), vector.chain);
    EXPECT_EQ(HasTwoPartition(numbers), vector.expect["dp_fractional_makespan"] == 2);
    ++found;
  }
  EXPECT_GE(found, 3);
}

// Returns the least makespan over all orders in which all numbers leave. x_0, ..., x_(3m-1) all
// have to: in the end the memory holds V bytes m times. The time of B_(3m) is enough for them to
// return.
double LeastOverOrders(const Chain& chain, std::size_t numbers) {
  ChainTransfers transfers;
  transfers.offloads.resize(numbers);
  std::iota(transfers.offloads.begin(), transfers.offloads.end(), 0);
  transfers.prefetches = {transfers.offloads.rbegin(), transfers.offloads.rend()};
  double least = std::numeric_limits<double>::infinity();
  do {
    const absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, transfers);
    if (times.ok()) least = std::min(least, times->seconds);
  } while (std::next_permutation(transfers.offloads.begin(), transfers.offloads.end()));
  return least;
}

TEST(Theorem1, HasMakespan2MIfTriplesExist) {
  EXPECT_TRUE(HasThreePartition({6, 7, 7, 6, 6, 8}, 20));
  EXPECT_EQ(LeastOverOrders(ThreePartitionChain({6, 7, 7, 6, 6, 8}), 6), 4);
  RandomPartitions random(6);
  for (int k = 0; k < 8; ++k) {
    const Numbers numbers = random.Triples(2, 100);
    SCOPED_TRACE(::testing::PrintToString(numbers));
    ASSERT_TRUE(HasThreePartition(numbers, 100));
    const Chain chain = ThreePartitionChain(numbers);
    EXPECT_EQ(ChainOperationBound(chain), 4);
    EXPECT_DOUBLE_EQ(LeastOverOrders(chain, 6), 4);
  }
}

TEST(Theorem1, HasMoreThanMakespan2MOtherwise) {
  EXPECT_FALSE(HasThreePartition({6, 6, 6, 6, 7, 9}, 20));
  EXPECT_GT(LeastOverOrders(ThreePartitionChain({6, 6, 6, 6, 7, 9}), 6), 4);
  RandomPartitions random(7);
  for (int k = 0; k < 8; ++k) {
    const Numbers numbers = random.NoTriples(2, 100);
    SCOPED_TRACE(::testing::PrintToString(numbers));
    const Chain chain = ThreePartitionChain(numbers);
    EXPECT_EQ(ChainOperationBound(chain), 4);
    EXPECT_GT(LeastOverOrders(chain, 6), 4 + 1e-6);
    for (const std::string& policy : ChainPolicyNames()) {
      const auto schedule = MakeChainSchedule(policy, chain, {.time_limit_seconds = 0.01});
      if (!schedule.ok() || !RecomputedIndices(*schedule).empty()) continue;
      EXPECT_GT(schedule->seconds, 4 + 1e-6) << policy;
    }
  }
}

}  // namespace
}  // namespace tidepool
