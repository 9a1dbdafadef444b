// SPDX-License-Identifier: Apache-2.0
// Pools that see more kinds of iterations than they may plan: they rest from planning, and begin
// again when iterations repeat.
#include "lib/memory/pool/plan_rest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

using Kinds = std::function<std::int64_t()>;

Kinds Uniform(std::int64_t kinds, std::uint64_t seed = 1) {
  return [kinds, random = std::mt19937_64(seed)]() mutable {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kinds));
  };
}

// The k-th kind comes 1 / k as often as the first: of 64, the first 16 are 71 % of all.
Kinds Zipf(std::int64_t kinds) {
  std::vector<double> weights;
  for (std::int64_t kind = 1; kind <= kinds; ++kind) {
    weights.push_back(1.0 / static_cast<double>(kind));
  }
  return [of = std::discrete_distribution<std::int64_t>(weights.begin(), weights.end()),
          random = std::mt19937_64(1)]() mutable { return 1 + of(random); };
}

// How often the rest begins or ends in iterations of which none was served by a plan.
int CountTurns(pool::PlanRest& rest, int iterations, const Kinds& next) {
  int turns = 0;
  for (int i = 0; i < iterations; ++i) {
    const bool was_resting = rest.is_resting();
    rest.CountMarked(static_cast<std::uint64_t>(next()), false);
    turns += rest.is_resting() != was_resting ? 1 : 0;
  }
  return turns;
}

TEST(PlanRestTest, RestsWhereKindsAreTooMany) {
  for (const std::int64_t kinds : {64, 1000, 1 << 30}) {
    pool::PlanRest rest(16);
    EXPECT_EQ(CountTurns(rest, 1000, Uniform(kinds)), 1) << kinds;
    EXPECT_EQ(CountTurns(rest, 100'000, Uniform(kinds)), 0) << kinds;
    EXPECT_TRUE(rest.is_resting());
    EXPECT_EQ(CountTurns(rest, 200, Uniform(16)), 1) << "and begins again when they repeat";
    EXPECT_EQ(CountTurns(rest, 100'000, Uniform(16)), 0);
  }
}

TEST(PlanRestTest, DoesNotRestWherePlansServeMost) {
  for (const Kinds& kinds : {Uniform(1), Uniform(16), Uniform(24), Uniform(32), Zipf(64)}) {
    pool::PlanRest rest(16);
    EXPECT_EQ(CountTurns(rest, 100'000, kinds), 0);
    EXPECT_FALSE(rest.is_resting());
  }
}

// The rest does not begin and end in turn, however large the served part is.
TEST(PlanRestTest, TurnsSeldom) {
  for (const int percent : {0, 10, 30, 35, 38, 40, 42, 45, 48, 50, 52, 55, 60, 100}) {
    pool::PlanRest rest(16);
    std::mt19937_64 random(1);
    std::int64_t newest = 1;
    const Kinds kinds = [&] { return static_cast<int>(random() % 100) < percent ? 0 : ++newest; };
    EXPECT_LE(CountTurns(rest, 200'000, kinds), 3) << percent;
  }
}

TEST(PlanRestTest, CountsWhatPlansServeAlthoughEachIsAnother) {
  pool::PlanRest rest(16);
  for (std::uint64_t i = 0; i < 10'000; ++i) rest.CountMarked(i, i % 4 > 0);
  EXPECT_FALSE(rest.is_resting());
}

TEST(PlanRestTest, HasNothingToRestFromWithoutPlans) {
  pool::PlanRest rest(0);
  EXPECT_EQ(CountTurns(rest, 10'000, Uniform(1000)), 0);
}

class RestingPoolTest : public PoolFixture, public ::testing::WithParamInterface<PoolKind> {
 protected:
  std::unique_ptr<Pool> Make(const char* placement, std::int64_t initial_bytes = 0) {
    return NewPool({.initial_bytes = initial_bytes,
                    .max_bytes = 32 * kMiB,
                    .memory = GetParam().memory,
                    .placement = placement,
                    .plan_seconds = 0});
  }

  // Allocates layers, forward and backward, with sizes that depend on the length. Returns the
  // offsets.
  std::vector<std::int64_t> Run(Pool& pool, std::int64_t length) {
    std::vector<std::int64_t> offsets;
    const auto allocate = [&](std::int64_t bytes) {
      void* const address = *pool.Allocate(static_cast<std::size_t>(bytes), stream_);
      offsets.push_back(OffsetOf(pool, address));
      return address;
    };
    std::vector<void*> live;
    for (int layer = 0; layer < 5; ++layer) {
      live.push_back(allocate(length * 512 * (1 + layer % 3)));
      EXPECT_TRUE(pool.Free(allocate(length * 128 + 512), stream_).ok());
    }
    while (!live.empty()) {
      void* const gradient = allocate(length * 256);
      EXPECT_TRUE(pool.Free(live.back(), stream_).ok());
      live.pop_back();
      EXPECT_TRUE(pool.Free(gradient, stream_).ok());
    }
    return offsets;
  }
  void RunMarked(Pool& pool, std::int64_t length) {
    pool.MarkIteration();
    Run(pool, length);
    pool.AwaitPlans();
  }

  // The part of the iterations' requests that were planned.
  double PartPlanned(Pool& pool, int iterations, const Kinds& lengths) {
    const std::int64_t before = pool.Stats().planned;
    for (int i = 0; i < iterations; ++i) RunMarked(pool, lengths());
    return static_cast<double>(pool.Stats().planned - before) / (15.0 * iterations);
  }

  const Stream stream_ = NewStream();
};

INSTANTIATE_TEST_SUITE_P(Kinds, RestingPoolTest, ::testing::Values(kVirtualPool, kSegmentPool),
                         [](const auto& test) { return test.param.name; });

TEST_P(RestingPoolTest, StopsPlanningWhatSeldomComesAgain) {
  for (const std::int64_t kinds : {64, 1000}) {
    const std::unique_ptr<Pool> pool = Make("planned");
    const std::unique_ptr<Pool> best_fit = Make("best-fit");
    PartPlanned(*pool, 2'000, Uniform(kinds));
    const PoolStats begun = pool->Stats();
    EXPECT_LE(begun.plans, 500) << kinds;
    PartPlanned(*pool, 18'000, Uniform(kinds));
    PartPlanned(*best_fit, 18'000, Uniform(kinds));
    const PoolStats stats = pool->Stats();
    EXPECT_EQ(stats.plans, begun.plans) << kinds;
    EXPECT_EQ(stats.planned, begun.planned) << kinds;
    EXPECT_EQ(stats.deviations, begun.deviations) << kinds;
    EXPECT_EQ(stats.growths, begun.growths) << kinds;
    const PoolStats least = best_fit->Stats();
    EXPECT_LE(stats.reserved_bytes, least.reserved_bytes + least.peak_live_bytes) << kinds;
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  }
}

TEST_P(RestingPoolTest, BeginsAgainWhenIterationsRepeat) {
  const std::unique_ptr<Pool> pool = Make("planned");
  for (int round = 0; round < 3; ++round) {
    PartPlanned(*pool, 1'000, Uniform(1000));
    EXPECT_EQ(PartPlanned(*pool, 100, Uniform(1000)), 0);
    PartPlanned(*pool, 500, Uniform(8));
    EXPECT_EQ(PartPlanned(*pool, 500, Uniform(8)), 1);
  }
}

// Memory that an iteration leaves to the next must be planned so after a rest, too.
TEST_P(RestingPoolTest, PlansWhatIsCarriedOverAfterARest) {
  const std::unique_ptr<Pool> pool = Make("planned", 32 * kMiB);
  PartPlanned(*pool, 1'000, Uniform(1000));
  const auto carry = [&](std::int64_t bytes) {
    return *pool->Allocate(static_cast<std::size_t>(bytes), stream_);
  };
  void* carried = carry(kMiB);
  std::int64_t height = 0;
  for (int i = 0; i < 200; ++i) {
    pool->MarkIteration();
    void* const small = carry(512);
    ASSERT_TRUE(pool->Free(carried, stream_).ok());
    void* const large = carry(2 * kMiB);
    height = std::max(OffsetOf(*pool, small) + 512, OffsetOf(*pool, large) + 2 * kMiB);
    ASSERT_TRUE(pool->Free(large, stream_).ok());
    carried = carry(kMiB);
    height = std::max(height, OffsetOf(*pool, carried) + kMiB);
    ASSERT_TRUE(pool->Free(small, stream_).ok());
    pool->AwaitPlans();
  }
  EXPECT_EQ(height, 2 * kMiB + 512);  // two of them share
  ASSERT_TRUE(pool->Free(carried, stream_).ok());
}

TEST_P(RestingPoolTest, IsNotTouchedByKindsThatItMayPlan) {
  const std::unique_ptr<Pool> few = Make("planned");
  PartPlanned(*few, 1'000, Uniform(16));
  const std::int64_t plans = few->Stats().plans;
  EXPECT_EQ(PartPlanned(*few, 3'000, Uniform(16)), 1);
  EXPECT_EQ(few->Stats().plans, plans);
  const std::unique_ptr<Pool> zipf = Make("planned");
  PartPlanned(*zipf, 1'000, Zipf(64));
  EXPECT_GT(PartPlanned(*zipf, 3'000, Zipf(64)), 0.5);
}

TEST_P(RestingPoolTest, PlacesAsBestFitDoes) {
  const std::unique_ptr<Pool> pool = Make("planned", 32 * kMiB);
  PartPlanned(*pool, 1'000, Uniform(1000));
  const std::unique_ptr<Pool> best_fit = Make("best-fit", 32 * kMiB);
  const Kinds lengths = Uniform(1000);
  // Some stay, so that there are holes.
  std::vector<std::pair<void*, void*>> kept;
  for (int i = 0; i < 1'000; ++i) {
    const std::int64_t length = lengths();
    pool->MarkIteration();
    ASSERT_EQ(Run(*pool, length), Run(*best_fit, length)) << i;
    const auto bytes = static_cast<std::size_t>(512 * (length % 40 + 1));
    kept.emplace_back(*pool->Allocate(bytes, stream_), *best_fit->Allocate(bytes, stream_));
    ASSERT_EQ(OffsetOf(*pool, kept.back().first), OffsetOf(*best_fit, kept.back().second));
    if (kept.size() < 50) continue;
    auto& victim = kept[static_cast<std::size_t>(length) % kept.size()];
    ASSERT_TRUE(pool->Free(victim.first, stream_).ok());
    ASSERT_TRUE(best_fit->Free(victim.second, stream_).ok());
    victim = kept.back();
    kept.pop_back();
  }
  for (const auto& [first, second] : kept) {
    ASSERT_TRUE(pool->Free(first, stream_).ok());
    ASSERT_TRUE(best_fit->Free(second, stream_).ok());
  }
}

// Without marks there are iterations where a few of a kind follow each other.
TEST_P(RestingPoolTest, RestsWithoutMarks) {
  const std::unique_ptr<Pool> pool = Make("planned");
  const auto run = [&](int iterations, int in_a_row, const Kinds& lengths) {
    for (int i = 0; i < iterations; ++i) {
      const std::int64_t length = lengths();
      for (int again = 0; again < in_a_row; ++again) {
        Run(*pool, length);
        pool->AwaitPlans();
      }
    }
  };
  run(1'000, 9, Uniform(1000));
  const PoolStats begun = pool->Stats();
  run(1'000, 9, Uniform(1000, 2));
  const PoolStats rested = pool->Stats();
  EXPECT_LE(begun.plans, 60);
  EXPECT_EQ(rested.plans, begun.plans);
  EXPECT_EQ(rested.planned + rested.deviations, begun.planned + begun.deviations);
  run(1, 1'000, Uniform(1));
  const PoolStats again = pool->Stats();
  run(1, 1'000, Uniform(1));
  EXPECT_EQ(pool->Stats().planned - again.planned, 15'000);
}

}  // namespace
}  // namespace tidepool
