// SPDX-License-Identifier: Apache-2.0
// Bounds and makespans of chains against an independent oracle.
#include "tests/training/chain/chain_vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_join.h"

namespace tidepool {
namespace {

using testing::AreClose;
using testing::ChainVector;

class ChainVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    TIDEPOOL_SKIP_WITHOUT(testing::ChainVectors());
    vectors_ = testing::ReadChainVectors();
    ASSERT_GE(vectors_.size(), 50);
  }

  std::vector<ChainVector> vectors_;
};

TEST_F(ChainVectors, BoundsAreExact) {
  for (const ChainVector& vector : vectors_) {
    SCOPED_TRACE(vector.name);
    EXPECT_EQ(ChainPeak(vector.chain), vector.expect["M_peak"].get<double>());
    EXPECT_EQ(LeastChainMemory(vector.chain), vector.expect["min_memory"].get<double>());
    EXPECT_TRUE(AreClose(ChainSeconds(vector.chain), vector.expect["sum_u"]));
    EXPECT_TRUE(AreClose(ChainLowerBound(vector.chain), vector.expect["lower_bound"]));
    EXPECT_EQ(LeastChainMemory(vector.chain) <= vector.chain.memory_bytes,
              vector.expect["feasible"].get<bool>());
  }
}

TEST_F(ChainVectors, NoScheduleIsBelowTheBoundOfOperations) {
  int optima = 0;
  int higher = 0;
  for (const ChainVector& vector : vectors_) {
    SCOPED_TRACE(vector.name);
    const double bound = ChainOperationBound(vector.chain);
    EXPECT_GE(bound, ChainLowerBound(vector.chain) * (1 - 1e-9));
    higher += bound > ChainLowerBound(vector.chain) * (1 + 1e-9) ? 1 : 0;
    const auto optimum = vector.expect.find("true_optimum");
    if (optimum == vector.expect.end() || optimum->is_null()) continue;
    EXPECT_LE(bound, optimum->get<double>() * (1 + 1e-9));
    ++optima;
  }
  EXPECT_GE(optima, 20);
  EXPECT_GE(higher, 10);
}

TEST_F(ChainVectors, MakespansOfSetsAreExact) {
  int sets = 0;
  for (const ChainVector& vector : vectors_) {
    if (!vector.expect.contains("set_makespans")) continue;
    for (const nlohmann::json& entry : vector.expect["set_makespans"]) {
      const std::vector<std::size_t> set = entry["set"];
      SCOPED_TRACE(vector.name + " {" + absl::StrJoin(set, ",") + "}");
      const absl::StatusOr<double> seconds = OrderedMakespan(vector.chain, set);
      ASSERT_EQ(seconds.ok(), !entry["integral"].is_null()) << seconds.status();
      if (!seconds.ok()) continue;
      EXPECT_TRUE(AreClose(*seconds, entry["integral"])) << *seconds << " " << entry["integral"];
      ++sets;
    }
  }
  EXPECT_GE(sets, 100);
}

void ExpectTimes(const std::vector<double>& times, const nlohmann::json& expected, double scale) {
  ASSERT_EQ(times.size(), expected.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    EXPECT_NEAR(times[i], expected[i].get<double>(), 1e-9 * scale) << i;
  }
}

TEST_F(ChainVectors, TimesOfGreedySetsAreExact) {
  for (const ChainVector& vector : vectors_) {
    if (!vector.expect["feasible"] || vector.expect["greedy"]["makespan"].is_null()) continue;
    SCOPED_TRACE(vector.name);
    const nlohmann::json& greedy = vector.expect["greedy"];
    const std::vector<std::size_t> set = greedy["set"];
    const auto times = PlaceTransfers(vector.chain, OrderedTransfers(set));
    ASSERT_TRUE(times.ok()) << times.status();
    EXPECT_TRUE(AreClose(times->seconds, greedy["makespan"]));
    EXPECT_NEAR(times->gap, greedy["eps_G"].get<double>(), 1e-9 * times->seconds);
    ExpectTimes(times->forward_starts, greedy["F_start"], times->seconds);
    ExpectTimes(times->backward_starts, greedy["B_start"], times->seconds);
    ExpectTimes(times->offload_starts, greedy["offload_start"], times->seconds);
    // The k-th element of the set; our prefetches have the reversed order.
    std::vector<double> prefetches = times->prefetch_starts;
    std::reverse(prefetches.begin(), prefetches.end());
    ExpectTimes(prefetches, greedy["prefetch_start"], times->seconds);
  }
}

// Returns the smallest makespan of all subsets, in the paper's order; infinite when none fits.
double BestOrdered(const Chain& chain) {
  double best = INFINITY;
  const std::size_t operations = chain.forward_seconds.size();
  for (std::size_t mask = 0; mask < std::size_t{1} << operations; ++mask) {
    std::vector<std::size_t> set;
    for (std::size_t i = 0; i < operations; ++i) {
      if ((mask >> i & 1) != 0) set.push_back(i);
    }
    const absl::StatusOr<double> seconds = OrderedMakespan(chain, set);
    if (seconds.ok()) best = std::min(best, *seconds);
  }
  return best;
}

TEST_F(ChainVectors, BestOrderedSetsAreFound) {
  int cases = 0;
  for (const ChainVector& vector : vectors_) {
    if (!vector.expect.contains("best_ordered") || vector.chain.x.size() > 13) continue;
    if (vector.expect["best_ordered"].is_null()) continue;
    if (vector.expect["best_ordered"]["makespan"].is_null()) continue;
    SCOPED_TRACE(vector.name);
    EXPECT_TRUE(AreClose(BestOrdered(vector.chain), vector.expect["best_ordered"]["makespan"]));
    ++cases;
  }
  EXPECT_GE(cases, 30);
}

// Returns the smallest makespan over all subsets and all orders of both directions.
double BestOfAnyOrder(const Chain& chain) {
  double best = INFINITY;
  const std::size_t operations = chain.forward_seconds.size();
  for (std::size_t mask = 0; mask < std::size_t{1} << operations; ++mask) {
    ChainTransfers transfers;
    for (std::size_t i = 0; i < operations; ++i) {
      if ((mask >> i & 1) != 0) transfers.offloads.push_back(i);
    }
    do {
      transfers.prefetches = transfers.offloads;
      std::sort(transfers.prefetches.begin(), transfers.prefetches.end());
      do {
        const absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, transfers);
        if (times.ok()) best = std::min(best, times->seconds);
      } while (std::next_permutation(transfers.prefetches.begin(), transfers.prefetches.end()));
    } while (std::next_permutation(transfers.offloads.begin(), transfers.offloads.end()));
  }
  return best;
}

TEST_F(ChainVectors, BestOrdersAreFound) {
  int cases = 0;
  for (const ChainVector& vector : vectors_) {
    const auto expected = vector.expect.find("best_offloads_first_any_order");
    if (expected == vector.expect.end() || expected->is_null()) continue;
    if (vector.chain.x.size() > 6) continue;
    SCOPED_TRACE(vector.name);
    EXPECT_TRUE(AreClose(BestOfAnyOrder(vector.chain), *expected));
    ++cases;
  }
  EXPECT_GE(cases, 20);
}

}  // namespace
}  // namespace tidepool
