// SPDX-License-Identifier: Apache-2.0
// The searches against brute force: a replay in every pool size.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "lib/trace/sizing/exact_pool.h"
#include "lib/trace/sizing/restart_search.h"
#include "tests/support/dividing_trace.h"
#include "tests/support/policy_names.h"
#include "tests/support/rounds.h"
#include "tests/support/shared_files.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

constexpr double kNoTimeLimit = std::numeric_limits<double>::infinity();

Trace Parse(const std::string& text) {
  const auto trace = ParseTrace(text, "test");
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *trace;
}

Trace ParseOperations(const std::string& rows) { return Parse("op,id,size,hint\n" + rows); }

bool Serves(const Trace& trace, PlacementPolicy& policy, std::int64_t pool_bytes,
            std::int64_t alignment) {
  return Replay(trace, policy,
                {.pool_bytes = pool_bytes, .alignment = alignment, .stop_at_refusal = true})
             ->refused == 0;
}

// A short run with overlapping lifetimes; some blocks stay.
Trace RandomTrace(std::mt19937_64& random, int allocations, std::int64_t largest) {
  TraceBuilder builder(TraceFormat::kOperationCsv);
  std::vector<std::string> live;
  for (int i = 0; i < allocations; ++i) {
    while (live.size() > 2 && random() % 2 == 0) {
      const std::size_t victim = random() % live.size();
      EXPECT_TRUE(builder.Free(live[victim], "", 0));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    live.push_back(std::to_string(i));
    const auto bytes =
        static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(largest));
    EXPECT_TRUE(builder
                    .Allocate(live.back(), bytes,
                              random() % 3 == 0 ? Hint::kOffloadable : Hint::kResident, "", 0)
                    .ok());
  }
  return builder.Build();
}

// vDNN++ section IV-B: A1(5) A2(2) A3(1) D2 A4(1) D1 D3 A5(8).
TEST(MinimumPool, ServesThePapersExampleWithNineUnitsAndNotWithEleven) {
  const Trace trace =
      ParseOperations("a,1,5,\na,2,2,\na,3,1,\nf,2,,\na,4,1,\nf,1,,\nf,3,,\na,5,8,\n");
  std::unique_ptr<PlacementPolicy> best_fit = *MakePlacementPolicy("best-fit");
  EXPECT_TRUE(Serves(trace, *best_fit, 9, 1));
  EXPECT_FALSE(Serves(trace, *best_fit, 11, 1));
  const auto result = MinimumPool(trace, *best_fit, {.alignment = 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exact_pool_bytes, 9);
  EXPECT_EQ(result->serves_all_larger, false);
}

// A hole one granule too small beside a small tail: every attempt of the search adds one granule.
TEST(MinimumPool, CountsBillionsOfEqualAttemptsAtOnce) {
  const Trace trace =
      ParseOperations("a,x,1125899906842112,\na,y,1,\nf,x,,\na,z,1125899906842624,\n");
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("best-fit");
  const auto result = MinimumPool(trace, *policy, {.time_limit_seconds = kNoTimeLimit});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exact_pool_bytes, result->pool_bytes);
  EXPECT_EQ(result->attempts, (1125899906842112 - 0) / 512 + 1);
}

class MinimumPoolProperty : public ::testing::TestWithParam<std::string> {};

TEST_P(MinimumPoolProperty, EqualsBruteForce) {
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(GetParam());
  std::mt19937_64 random(42);
  int not_monotone = 0;
  for (int i = 0; i < testing::Rounds(400); ++i) {
    SCOPED_TRACE(i);
    const Trace trace = RandomTrace(random, 4 + i % 40, i % 3 == 0 ? 6 : 30);
    const std::int64_t peak = MeasureLoad(trace, 1)->peak_live_bytes;
    std::int64_t sum = 0;
    for (const TraceAllocation& allocation : trace.allocations) sum += allocation.bytes;
    std::int64_t exact = -1;
    bool all_larger = true;
    for (std::int64_t pool = peak; pool <= sum; ++pool) {
      const bool serves = Serves(trace, *policy, pool, 1);
      if (serves && exact < 0) exact = pool;
      if (!serves && exact >= 0) all_larger = false;
    }
    not_monotone += all_larger ? 0 : 1;
    const auto result =
        MinimumPool(trace, *policy, {.alignment = 1, .time_limit_seconds = kNoTimeLimit});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->exact_pool_bytes, exact);
    ASSERT_EQ(result->serves_all_larger, all_larger);
  }
  if (GetParam() == "best-fit") {
    EXPECT_GT(not_monotone, 0);
  }
}

TEST_P(MinimumPoolProperty, RestartsLikeTheLoopOfReplays) {
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(GetParam());
  std::mt19937_64 random(43);
  for (int i = 0; i < testing::Rounds(150); ++i) {
    SCOPED_TRACE(i);
    const Trace trace = RandomTrace(random, 4 + 2 * i, 100'000);
    std::int64_t pool = MeasureLoad(trace, 512)->peak_live_bytes;
    std::int64_t attempts = 0;
    for (;;) {
      ++attempts;
      const auto replay = Replay(trace, *policy, {.pool_bytes = pool, .stop_at_refusal = true});
      if (replay->refused == 0) break;
      pool += replay->first_refused_bytes - replay->largest_free_bytes;
    }
    const auto result = MinimumPool(trace, *policy, {.time_limit_seconds = kNoTimeLimit});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->pool_bytes, pool);
    ASSERT_EQ(result->attempts, attempts);
  }
}

// With narrow limits some answers are missing, and those that are given are the same.
TEST_P(MinimumPoolProperty, SaysNothingRatherThanSomethingWrong) {
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(GetParam());
  std::mt19937_64 random(44);
  for (int i = 0; i < testing::Rounds(60); ++i) {
    const Trace trace = RandomTrace(random, 60, 3000);
    const auto complete = MinimumPool(
        trace, *policy,
        {.alignment = 1, .most_steps = 100'000'000, .time_limit_seconds = kNoTimeLimit});
    ASSERT_TRUE(complete->exact_pool_bytes.has_value() && complete->serves_all_larger.has_value());
    ASSERT_EQ(complete->exact_limit, ExactLimit::kNone);
    struct Limits {
      MinimumPoolOptions options;
      std::int64_t most_places = sizing::kMostPlaces;
    };
    std::vector<Limits> all_limits = {{.options = {.alignment = 1, .time_limit_seconds = 0}}};
    for (const std::int64_t most_steps : {0, 100, 1000, 10'000}) {
      all_limits.push_back({.options = {.alignment = 1, .most_steps = most_steps}});
    }
    for (const std::int64_t most_places : {0, 10, 100, 1000}) {
      all_limits.push_back({.options = {.alignment = 1}, .most_places = most_places});
    }
    for (const Limits& limits : all_limits) {
      const auto result =
          sizing::MinimumPoolWithin(trace, *policy, limits.options, limits.most_places);
      ASSERT_EQ(result->pool_bytes, complete->pool_bytes);
      ASSERT_EQ(result->attempts, complete->attempts);
      ASSERT_EQ(result->exact_limit == ExactLimit::kNone,
                result->exact_pool_bytes.has_value() && result->serves_all_larger.has_value());
      if (result->exact_pool_bytes.has_value()) {
        ASSERT_EQ(result->exact_pool_bytes, complete->exact_pool_bytes);
      }
      if (result->serves_all_larger.has_value()) {
        ASSERT_EQ(result->serves_all_larger, complete->serves_all_larger);
      }
    }
  }
}

// A bounded search finds a pool that serves, says that it gave up, and changes no exact answer.
TEST_P(MinimumPoolProperty, FindsAServingPoolWhenRestartsAreBounded) {
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(GetParam());
  std::mt19937_64 random(46);
  int gave_up = 0;
  int finished = 0;
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    const Trace trace = RandomTrace(random, 4 + 5 * i, 100'000);
    const TraceLoad load = *MeasureLoad(trace, 512);
    const auto complete = MinimumPool(trace, *policy, {.time_limit_seconds = kNoTimeLimit});
    ASSERT_FALSE(complete->gave_up_restarts);
    for (const std::int64_t most_steps : {0, 100, 1000}) {
      const auto result = MinimumPool(
          trace, *policy, {.time_limit_seconds = kNoTimeLimit, .most_restart_steps = most_steps});
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_TRUE(Serves(trace, *policy, result->pool_bytes, 512));
      ASSERT_EQ(result->pool_bytes % 512, 0);
      ASSERT_EQ(result->exact_pool_bytes, complete->exact_pool_bytes);
      ASSERT_EQ(result->serves_all_larger, complete->serves_all_larger);
      if (!result->gave_up_restarts) {
        ++finished;
        ASSERT_EQ(result->pool_bytes, complete->pool_bytes);
        ASSERT_EQ(result->attempts, complete->attempts);
        continue;
      }
      ++gave_up;
      ASSERT_GE(result->pool_bytes, *complete->exact_pool_bytes);
      ASSERT_LE(result->attempts, 12);
      // Bisection ends within a 256th of the peak of a pool that fails, or where more replays
      // would be needed.
      if (result->pool_bytes > load.peak_live_bytes && result->attempts < 12) {
        const std::int64_t fineness = load.peak_live_bytes / 256 + 512;
        bool fails_below = false;
        for (std::int64_t pool = result->pool_bytes - 512;
             pool >= load.peak_live_bytes - 512 && pool >= result->pool_bytes - fineness - 512;
             pool -= 512) {
          fails_below |= pool < load.peak_live_bytes || !Serves(trace, *policy, pool, 512);
        }
        ASSERT_TRUE(fails_below);
      }
    }
  }
  EXPECT_GT(gave_up, 30);
  EXPECT_GT(finished, 5);
}

INSTANTIATE_TEST_SUITE_P(Policies, MinimumPoolProperty,
                         ::testing::ValuesIn(testing::NamesOfStatelessPolicies()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A bounded search keeps few of the 65,536 pieces, and reports their number.
TEST(MinimumPool, GivesUpWhatItMayNotKeep) {
  const Trace trace = Parse(testing::DividingTrace(16));
  const TraceLoad load = *MeasureLoad(trace, 512);
  for (const std::string name : {"best-fit", "high-end-offload"}) {
    SCOPED_TRACE(name);
    std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(name);
    const auto result = sizing::MinimumPoolWithin(
        trace, *policy, {.time_limit_seconds = kNoTimeLimit}, 100 * load.peak_live_count);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(Serves(trace, *policy, result->pool_bytes, 512));
    EXPECT_EQ(result->exact_pool_bytes, std::nullopt);
    EXPECT_EQ(result->serves_all_larger, std::nullopt);
    EXPECT_EQ(result->exact_limit, ExactLimit::kPieces);
    EXPECT_EQ(result->most_exact_pieces, 100);
    // An event divides a piece into two at most.
    EXPECT_GT(result->exact_pieces, 100);
    EXPECT_LE(result->exact_pieces, 200);
  }
}

TEST(MinimumPool, IsBoundedByDefault) {
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("best-fit");
  const auto result =
      MinimumPool(Parse(testing::DividingTrace(16)), *policy, {.time_limit_seconds = kNoTimeLimit});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exact_limit, ExactLimit::kPieces);
  EXPECT_LE(result->exact_pieces, 2 * result->most_exact_pieces);
}

TEST(MinimumPool, StatesNoLimitWhereAllIsDetermined) {
  const Trace trace = Parse(testing::DividingTrace(10));
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("best-fit");
  const auto result = MinimumPool(trace, *policy, {.time_limit_seconds = kNoTimeLimit});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exact_pool_bytes, result->pool_bytes);
  EXPECT_EQ(result->serves_all_larger, true);
  EXPECT_EQ(result->exact_limit, ExactLimit::kNone);
}

// Best fit that requests a stop at a question, and counts the questions from then on.
class StoppingPolicy : public PlacementPolicy {
 public:
  explicit StoppingPolicy(std::int64_t stop_at) : stop_at_(stop_at) {}

  Placement Place(const Request& request, FreeBlocks& blocks) override {
    if (questions_++ == stop_at_) stop_.request_stop();
    return best_fit_->Place(request, blocks);
  }
  std::stop_token token() const { return stop_.get_token(); }
  std::int64_t questions() const { return questions_; }

 private:
  const std::unique_ptr<PlacementPolicy> best_fit_ = *MakePlacementPolicy("best-fit");
  const std::int64_t stop_at_;
  std::stop_source stop_;
  std::int64_t questions_ = 0;
};

// Wherever the stop comes, each search ends within thousands of questions.
TEST(MinimumPool, AStopEndsEverySearch) {
  std::mt19937_64 random(7);
  const Trace trace = RandomTrace(random, 10'000, 1 << 20);
  const MinimumPoolOptions limits = {.time_limit_seconds = kNoTimeLimit};
  StoppingPolicy counter(-1);
  ASSERT_TRUE(MinimumPool(trace, counter, limits).ok());
  ASSERT_GT(counter.questions(), 100'000);
  for (std::int64_t part = 0; part < 8; ++part) {
    StoppingPolicy policy(counter.questions() / 8 * part);
    MinimumPoolOptions options = limits;
    options.stop = policy.token();
    const auto result = MinimumPool(trace, policy, options);
    EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
    EXPECT_LT(policy.questions(), counter.questions() / 8 * part + 20'000);
  }
}

TEST(MinimumPool, SaysWhichLimitStruck) {
  const Trace trace = Parse(testing::DividingTrace(10));
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("best-fit");
  const auto complete = MinimumPool(trace, *policy, {.time_limit_seconds = kNoTimeLimit});
  const auto no_time = MinimumPool(trace, *policy, {.time_limit_seconds = 0});
  const auto no_steps =
      MinimumPool(trace, *policy, {.most_steps = 0, .time_limit_seconds = kNoTimeLimit});
  EXPECT_EQ(no_time->exact_limit, ExactLimit::kTime);
  EXPECT_EQ(no_steps->exact_limit, ExactLimit::kSteps);
  for (const auto& result : {no_time, no_steps}) {
    EXPECT_EQ(result->pool_bytes, complete->pool_bytes);
    EXPECT_EQ(result->attempts, complete->attempts);
    EXPECT_EQ(result->exact_pool_bytes, std::nullopt);
    EXPECT_EQ(result->serves_all_larger, std::nullopt);
  }
}

// First-fit never prefers the free tail to a hole, so more memory never hurts, and the
// answer is the height of one simulation in an arena without end.
TEST(MinimumPool, OfFirstFitIsTheHeightOfAnUnboundedArena) {
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("first-fit");
  std::mt19937_64 random(45);
  for (int i = 0; i < 50; ++i) {
    const Trace trace = RandomTrace(random, 200, 100'000);
    const auto unbounded = Replay(trace, *policy, {.pool_bytes = std::int64_t{1} << 40});
    const auto result = MinimumPool(trace, *policy, {.time_limit_seconds = kNoTimeLimit});
    EXPECT_EQ(result->exact_pool_bytes, unbounded->high_water_bytes);
    EXPECT_EQ(result->serves_all_larger, true);
  }
}

TEST(MinimumPool, OfTheShippedTracesIsVerifiedByReplays) {
  int traces = 0;
  int determined = 0;
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".gz")) {
    SCOPED_TRACE(path);
    const auto trace = ReadTrace(path);
    ASSERT_TRUE(trace.ok()) << trace.status();
    ++traces;
    for (const std::string& name : testing::NamesOfStatelessPolicies()) {
      SCOPED_TRACE(name);
      std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy(name);
      const auto result =
          MinimumPool(*trace, *policy, {.most_steps = 500'000, .time_limit_seconds = kNoTimeLimit});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(Serves(*trace, *policy, result->pool_bytes, 512));
      if (!result->exact_pool_bytes.has_value()) continue;
      ++determined;
      EXPECT_LE(*result->exact_pool_bytes, result->pool_bytes);
      EXPECT_TRUE(Serves(*trace, *policy, *result->exact_pool_bytes, 512));
      EXPECT_FALSE(Serves(*trace, *policy, *result->exact_pool_bytes - 512, 512));
    }
  }
  EXPECT_GE(traces, 3);
  EXPECT_GE(determined, 3 * traces);
}

// A stateful policy is sized by replays alone.
class Alternating final : public PlacementPolicy {
 public:
  Placement Place(const Request& request, FreeBlocks& blocks) override {
    const BlockId low = blocks.LowestFit(request.bytes);
    return ++calls_ % 2 == 0 ? Placement::HighEnd(blocks.HighestFit(request.bytes))
                             : Placement::LowEnd(low);
  }
  bool IsStateful() const override { return true; }

 private:
  int calls_ = 0;
};

TEST(MinimumPool, DeterminesNothingExactForAStatefulPolicy) {
  Alternating policy;
  const Trace trace = ParseOperations("a,1,512,\na,2,512,\nf,1,,\na,3,1024,\n");
  const auto result = MinimumPool(trace, policy, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GE(result->pool_bytes, 1536);
  EXPECT_FALSE(result->exact_pool_bytes.has_value());
  EXPECT_FALSE(result->serves_all_larger.has_value());
  EXPECT_EQ(result->exact_limit, ExactLimit::kUnsearchable);
}

TEST(MinimumPool, BoundsRestartsOfAStatefulPolicy) {
  Alternating policy;
  const Trace trace = ParseOperations("a,1,512,\na,2,512,\nf,1,,\na,3,1024,\n");
  const auto result = MinimumPool(trace, policy, {.most_restart_steps = 0});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->gave_up_restarts);
  EXPECT_GE(result->pool_bytes, 1536);
}

}  // namespace
}  // namespace tidepool
