// SPDX-License-Identifier: Apache-2.0
// Single cases of plans, and bad input.
#include "tidepool/trace/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stop_token>
#include <thread>

#include "tests/support/random_problem.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Not solved within minutes, so it is still being worked on when it is stopped.
PlanProblem HardProblem() {
  std::mt19937_64 random(7);
  return testing::CutRectangle(random, 1'500, 100'000, 100);
}

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
}

void ExpectRefused(const PlanBuffer& buffer, const std::string& text) {
  const PlanProblem problem = {{{0, 1, 1}, buffer}};
  ExpectError(MakePlan(problem).status(), absl::StatusCode::kInvalidArgument, text);
  ExpectError(PlanLowerBound(problem).status(), absl::StatusCode::kInvalidArgument, text);
}

TEST(MakePlan, NothingNeedsNothing) {
  const auto plan = MakePlan({});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 0);
  EXPECT_TRUE(plan->optimal);
  EXPECT_TRUE(plan->offsets.empty());
}

TEST(MakePlan, MemoryIsTakenOverAtTheTickOfTheFree) {
  const auto plan = MakePlan({{{0, 5, 10}, {5, 6, 10}, {6, 9, 10}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->offsets, ElementsAre(0, 0, 0));
  EXPECT_EQ(plan->height, 10);
}

TEST(MakePlan, AlignmentCountsInTheBound) {
  // 100 bytes cannot end before the next multiple of 256 begins.
  const auto plan = MakePlan({{{0, 1, 100, 256}, {0, 1, 100, 256}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 356);
  EXPECT_EQ(plan->lower_bound, 356);
  EXPECT_TRUE(plan->optimal);
}

TEST(MakePlan, MixedAlignments) {
  const std::int64_t huge = std::int64_t{2} << 20;
  const PlanProblem problem = {
      {{0, 9, huge, huge}, {0, 9, 300, 256}, {0, 9, 512, 512}, {3, 9, huge, huge}}};
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // The small buffers go above.
  EXPECT_EQ(plan->height, 2 * huge + 512 + 300);
  EXPECT_TRUE(plan->optimal);
}

TEST(MakePlan, WhatWasThereBeforeAndWhatStays) {
  const std::int64_t always = std::numeric_limits<std::int64_t>::max();
  const auto plan = MakePlan({{{-always, always, 7}, {-always, 3, 5}, {3, always, 5}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 12);
}

TEST(MakePlan, RefusesBuffersThatAreNone) {
  ExpectRefused({5, 5, 1}, "buffer 1: upper 5 after lower 5");
  ExpectRefused({5, 4, 1}, "buffer 1: upper 4 after lower 5");
  ExpectRefused({0, 1, 0}, "buffer 1: 0 bytes");
  ExpectRefused({0, 1, -1}, "buffer 1: -1 bytes");
  ExpectRefused({0, 1, std::int64_t{1} << 62}, "buffer 1: 4611686018427387904 bytes");
  ExpectRefused({0, 1, 1, 0}, "buffer 1: alignment 0");
  ExpectRefused({0, 1, 1, 3}, "buffer 1: alignment 3");
  ExpectRefused({0, 1, 1, std::int64_t{1} << 31}, "buffer 1: alignment 2147483648");
}

TEST(MakePlan, RefusesSumsThatCouldOverflow) {
  const PlanProblem problem = {std::vector<PlanBuffer>(1025, {0, 1, kMaxRequestBytes})};
  ExpectError(MakePlan(problem).status(), absl::StatusCode::kInvalidArgument,
              "buffers 0 to 1024 sum up to more than 1152921504606846976 bytes");
  const PlanProblem largest = {std::vector<PlanBuffer>(1024, {0, 1, kMaxRequestBytes})};
  const auto plan = MakePlan(largest);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, std::int64_t{1} << 60);
}

TEST(MakePlan, RefusesACapacityBelowTheLargestBuffer) {
  const PlanProblem problem = {{{0, 1, 5}, {1, 2, 9}, {2, 3, 7}}};
  ExpectError(MakePlan(problem, {.capacity = 8}).status(), absl::StatusCode::kInvalidArgument,
              "capacity 8, expected at least 9, the size of buffer 1");
  EXPECT_TRUE(MakePlan(problem, {.capacity = 9}).ok());
}

TEST(MakePlan, RefusesTimeLimitsThatAreNone) {
  for (const double limit : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    ExpectError(MakePlan({}, {.time_limit_seconds = limit}).status(),
                absl::StatusCode::kInvalidArgument, "time limit");
  }
  const double forever = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(MakePlan({{{0, 1, 1}}}, {.time_limit_seconds = forever}).ok());
}

TEST(MakePlan, GivesTheFirstPlanWhenThereIsNoTime) {
  const PlanProblem problem = HardProblem();
  const auto plan = MakePlan(problem, {.time_limit_seconds = 0});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(ValidatePlan(problem, plan->offsets, plan->height).ok());
  EXPECT_TRUE(plan->timed_out);
  EXPECT_FALSE(plan->stopped);
  EXPECT_FALSE(plan->optimal);
}

TEST(MakePlan, GivesTheBestPlanWhenItIsStopped) {
  const PlanProblem problem = HardProblem();
  std::stop_source source;
  source.request_stop();
  const auto first = MakePlan(problem, {.stop = source.get_token()});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->stopped);
  EXPECT_FALSE(first->timed_out);

  std::stop_source later;
  absl::StatusOr<Plan> plan = absl::UnknownError("");
  std::thread planner(
      [&] { plan = MakePlan(problem, {.time_limit_seconds = 1e9, .stop = later.get_token()}); });
  later.request_stop();
  planner.join();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->stopped);
  EXPECT_TRUE(ValidatePlan(problem, plan->offsets, plan->height).ok());
}

// The capacities end the search after different numbers of steps, never by the clock.
TEST(MakePlan, IsTheSameForTheSameSeed) {
  const PlanProblem problem = HardProblem();
  const auto first = MakePlan(problem, {.time_limit_seconds = 0});
  ASSERT_TRUE(first.ok()) << first.status();
  for (const double descent : {0.1, 0.3, 0.5}) {
    const double down = descent * static_cast<double>(first->height - first->lower_bound);
    const PlanOptions options = {.capacity = first->height - static_cast<std::int64_t>(down),
                                 .time_limit_seconds = 1e9,
                                 .seed = 5};
    const auto a = MakePlan(problem, options);
    const auto b = MakePlan(problem, options);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_LE(a->height, *options.capacity);
    EXPECT_LT(a->height, first->height);
    EXPECT_EQ(a->offsets, b->offsets);
    EXPECT_EQ(a->lower_bound, b->lower_bound);
    EXPECT_FALSE(a->timed_out);
  }
}

TEST(ValidatePlan, SaysWhatIsWrong) {
  const PlanProblem problem = {{{0, 5, 10}, {5, 6, 10}, {4, 9, 10, 8}}};
  const auto error = [&](const std::vector<std::int64_t>& offsets, const std::string& text) {
    ExpectError(ValidatePlan(problem, offsets, 40), absl::StatusCode::kInvalidArgument, text);
  };
  EXPECT_TRUE(ValidatePlan(problem, {0, 0, 16}, 40).ok());
  EXPECT_TRUE(ValidatePlan(problem, {30, 20, 8}, 40).ok());
  error({0, 0}, "2 offsets, expected 3");
  error({0, 0, 16, 0}, "4 offsets, expected 3");
  error({-1, 0, 16}, "buffer 0 at offset -1");
  error({0, 31, 16}, "buffer 1 of 10 bytes at offset 31, expected its end within 40");
  error({0, std::numeric_limits<std::int64_t>::max(), 16}, "buffer 1 of 10 bytes");
  error({0, 0, 20}, "buffer 2 at offset 20, expected a multiple of 8");
  error({0, 0, 8}, "buffers 0 and 2 overlap at time 4");
  error({20, 7, 0}, "buffers 1 and 2 overlap at time 5");
  error({16, 16, 16}, "buffers 0 and 2 overlap at time 4");
  ExpectError(ValidatePlan({{{0, 1, 10}}}, {0}, 9), absl::StatusCode::kInvalidArgument,
              "expected its end within 9");
}

}  // namespace
}  // namespace tidepool
