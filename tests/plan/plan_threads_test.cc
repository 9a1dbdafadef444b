// Plans that several threads search for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <stop_token>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/plan/side_by_side.h"
#include "tests/support/random_problem.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kNoLimit = 1e9;

// Not solved within minutes.
PlanProblem HardProblem() {
  std::mt19937_64 random(7);
  return testing::CutRectangle(random, 1'000, 100'000, 100);
}

TEST(PlanThreads, RefusesNumbersThatAreNone) {
  for (const int threads : {0, -1, 1025}) {
    const auto plan = MakePlan({{{0, 1, 1}}}, {.threads = threads});
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(plan.status().message()),
                HasSubstr(absl::StrCat("threads ", threads, ", expected 1 to 1024")));
  }
  EXPECT_TRUE(MakePlan({{{0, 1, 1}}}, {.threads = 1024}).ok());
}

TEST(PlanThreads, EveryPartIsDoneOnce) {
  for (const std::size_t count : {0, 1, 2, 40}) {
    std::vector<int> done(count);
    plan::SideBySide(count, [&](std::size_t i) { ++done[i]; });
    EXPECT_THAT(done, Each(1));
  }
}

TEST(PlanThreads, ReachAndProveTheSmallestHeight) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    const PlanProblem problem =
        testing::RandomProblem(random, {.buffers = 7, .largest = 40, .alignment_bits = 3});
    const auto plan = MakePlan(problem, {.time_limit_seconds = kNoLimit, .threads = 3});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(testing::SlowIsValid(problem, plan->offsets, plan->height));
    EXPECT_EQ(plan->height, testing::SlowSmallestHeight(problem));
    EXPECT_TRUE(plan->optimal);
    if (HasFailure()) return;
  }
}

// Among obstacles nothing is proved, so each search is given up after so many rounds.
TEST(PlanThreads, AreNoWorseThanOne) {
  std::mt19937_64 random(2);
  int unproved = 0;
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE(i);
    PlanProblem problem =
        testing::RandomProblem(random, {.buffers = 9, .largest = 40, .alignment_bits = 4});
    problem.buffers.push_back({.lower = 0, .upper = 6, .bytes = 7, .offset = 30});
    problem.buffers.push_back({.lower = 0, .upper = 6, .bytes = 9, .offset = 60});
    const auto one = MakePlan(problem, {.time_limit_seconds = kNoLimit});
    const auto two = MakePlan(problem, {.time_limit_seconds = kNoLimit, .threads = 2});
    const auto again = MakePlan(problem, {.time_limit_seconds = kNoLimit, .threads = 2});
    ASSERT_TRUE(one.ok() && two.ok() && again.ok());
    EXPECT_LE(two->height, one->height);
    EXPECT_GE(two->lower_bound, one->lower_bound);
    EXPECT_EQ(two->offsets, again->offsets);
    unproved += one->optimal ? 0 : 1;
  }
  EXPECT_GT(unproved, 0);
}

// The capacities end the search after different numbers of rounds, in the middle of one.
TEST(PlanThreads, AreTheSameForTheSameSeed) {
  const PlanProblem problem = HardProblem();
  const auto first = MakePlan(problem, {.time_limit_seconds = 0});
  ASSERT_TRUE(first.ok()) << first.status();
  for (const int threads : {2, 5}) {
    for (const double descent : {0.1, 0.3, 0.5}) {
      SCOPED_TRACE(absl::StrCat(threads, " ", descent));
      const double down = descent * static_cast<double>(first->height - first->lower_bound);
      const PlanOptions options = {.capacity = first->height - static_cast<std::int64_t>(down),
                                   .time_limit_seconds = kNoLimit,
                                   .seed = 5,
                                   .threads = threads};
      const auto a = MakePlan(problem, options);
      ASSERT_TRUE(a.ok()) << a.status();
      EXPECT_LE(a->height, *options.capacity);
      EXPECT_FALSE(a->timed_out);
      for (int i = 0; i < 3; ++i) {
        const auto b = MakePlan(problem, options);
        ASSERT_TRUE(b.ok()) << b.status();
        EXPECT_EQ(a->offsets, b->offsets);
        EXPECT_EQ(a->lower_bound, b->lower_bound);
      }
    }
  }
}

TEST(PlanThreads, StretchesOfTimeAreSearchedOneByOne) {
  std::mt19937_64 random(3);
  PlanProblem problem;
  for (std::int64_t k = 0; k < 4; ++k) {
    for (PlanBuffer buffer : testing::CutRectangle(random, 60, 1'000, 200).buffers) {
      buffer.lower += 1'000 * k;
      buffer.upper += 1'000 * k;
      problem.buffers.push_back(buffer);
    }
  }
  const auto plan = MakePlan(problem, {.time_limit_seconds = kNoLimit, .threads = 2});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 200);
  EXPECT_TRUE(plan->optimal);
}

TEST(PlanThreads, AllEndWithTheTimeOrAStop) {
  const PlanProblem problem = HardProblem();
  const auto timed = MakePlan(problem, {.time_limit_seconds = 0.2, .threads = 4});
  ASSERT_TRUE(timed.ok()) << timed.status();
  EXPECT_TRUE(timed->timed_out);
  EXPECT_FALSE(timed->stopped);
  std::stop_source source;
  absl::StatusOr<Plan> plan = absl::UnknownError("");
  std::thread planner([&] {
    plan = MakePlan(problem,
                    {.time_limit_seconds = kNoLimit, .stop = source.get_token(), .threads = 4});
  });
  source.request_stop();
  planner.join();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->stopped);
}

}  // namespace
}  // namespace tidepool
