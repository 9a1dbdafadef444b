// SPDX-License-Identifier: Apache-2.0
// Plans of problems with several streams, compared with a slow model of all pairs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"
#include "tests/support/stream_problem.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using testing::kNoLimit;
using testing::RandomStreamProblem;
using testing::SlowIsValidForStreams;
using testing::StreamShape;

// Two streams in turn allocate and free a buffer.
PlanProblem InTurn(int rounds, bool waits) {
  PlanProblem problem;
  std::int64_t time = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const std::uint32_t stream : {0U, 1U}) {
      if (waits) problem.waits.push_back({time++, stream, 1 - stream});
      problem.buffers.push_back({.lower = time,
                                 .upper = time + 1,
                                 .bytes = 100,
                                 .stream = stream,
                                 .free_stream = stream});
      time += 2;
    }
  }
  return problem;
}

TEST(PlanStreams, AStreamReusesItsOwnMemoryAtOnce) {
  for (const int rounds : {1, 10, 1000}) {
    SCOPED_TRACE(rounds);
    const auto plan = MakePlan(InTurn(rounds, false), {.time_limit_seconds = kNoLimit});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->height, 200);
    EXPECT_TRUE(plan->optimal);
  }
}

TEST(PlanStreams, AStreamThatWaitedReusesMemoryOfAnother) {
  const auto plan = MakePlan(InTurn(10, true), {.time_limit_seconds = kNoLimit});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 100);
  EXPECT_TRUE(plan->optimal);
}

TEST(PlanStreams, AWaitAlsoGivesWhatTheAwaitedStreamKnew) {
  // Stream 2 waits for stream 1 after that has waited for stream 0.
  PlanProblem problem = {{{0, 1, 7}, {4, 5, 7, 1, PlanBuffer::kAnywhere, 2, 2}},
                         {{2, 1, 0}, {3, 2, 1}}};
  EXPECT_EQ(MakePlan(problem)->height, 7);
  problem.waits = {{2, 2, 1}, {3, 1, 0}};
  EXPECT_EQ(MakePlan(problem)->height, 14);
}

// One stream waits in the middle, so a part of the other's memory serves it afterwards.
TEST(PlanStreams, OneStreamTakesOverAPartOfAnothers) {
  PlanProblem problem = {{{0, 4, 30}, {1, 2, 70}, {5, 6, 70, 1, PlanBuffer::kAnywhere, 1, 1}},
                         {{3, 1, 0}}};
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 100);
  EXPECT_TRUE(plan->optimal);
}

TEST(PlanStreams, WaitsOfOneStreamDoNotMatter) {
  const PlanProblem problem = {
      {{0, 1, 5, 1, PlanBuffer::kAnywhere, 3, 3}, {1, 2, 5, 1, PlanBuffer::kAnywhere, 3, 3}},
      {{0, 7, 3}}};
  EXPECT_EQ(MakePlan(problem)->height, 5);
}

TEST(PlanStreams, RefusesStreamsAndWaitsThatCannotBe) {
  const auto expect = [](const PlanProblem& problem, absl::StatusCode code, const char* text) {
    const absl::Status status = MakePlan(problem).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(PlanLowerBound(problem).status(), status);
  };
  expect({{{0, 1, 5, 1, PlanBuffer::kAnywhere, 1024, 0}}}, absl::StatusCode::kResourceExhausted,
         "1025 streams, expected at most 1024");
  expect({{{0, 1, 5}}, {{2, 0, 1}, {1, 0, 1}}}, absl::StatusCode::kInvalidArgument,
         "wait 1 at time 1 after time 2, expected waits in the order of time");
  // Fixed buffers of streams that do not know of each other.
  expect({{{0, 1, 5, 1, 0, 0, 0}, {2, 3, 5, 1, 4, 1, 1}}}, absl::StatusCode::kInvalidArgument,
         "buffer 0 fixed at offset 0 and buffer 1 fixed at offset 4 overlap");
  EXPECT_THAT(
      std::string(
          ValidatePlan({{{0, 1, 5, 1, PlanBuffer::kAnywhere, 0, UINT32_MAX}}}, {0}, 5).message()),
      HasSubstr("stream 4294967295, expected 0 to 1023"));
}

TEST(PlanStreams, PassesBetweenFixedBuffers) {
  // The fixed buffers lie at the same offsets, one after the other.
  const PlanProblem problem = {
      {{0, 1, 5, 1, 4, 0, 0}, {2, 3, 5, 1, 4, 0, 0}, {2, 3, 4, 1, PlanBuffer::kAnywhere, 1, 1}}};
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->offsets, (std::vector<std::int64_t>{4, 4, 0}));
  EXPECT_EQ(plan->height, 9);
}

class StreamShapes : public ::testing::TestWithParam<StreamShape> {};

TEST_P(StreamShapes, PlansAreValidAndNoHigherThanStreamsApart) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    const PlanProblem problem = RandomStreamProblem(random, GetParam());
    const auto plan = MakePlan(problem, {.time_limit_seconds = 0});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(SlowIsValidForStreams(problem, plan->offsets, plan->height));
    EXPECT_EQ(plan->lower_bound, *PlanLowerBound(problem));
    EXPECT_LE(plan->lower_bound, plan->height);
    std::int64_t apart = 0;
    for (int stream = 0; stream < GetParam().streams; ++stream) {
      const PlanProblem part = testing::SlowPartOf(problem, static_cast<std::uint32_t>(stream));
      apart += MakePlan(part, {.time_limit_seconds = 0})->height;
    }
    EXPECT_LE(plan->height, apart);
  }
}

TEST_P(StreamShapes, TheValidatorAgreesWithAllPairs) {
  std::mt19937_64 random(2);
  int valid = 0;
  const int rounds = testing::Rounds(4'000);
  for (int i = 0; i < rounds; ++i) {
    const PlanProblem problem = RandomStreamProblem(random, GetParam());
    // Mostly a plan of a problem that differs a little, which is valid now and then.
    PlanProblem other = problem;
    if (!other.waits.empty()) other.waits.back().time = 0;
    std::ranges::stable_sort(other.waits, {}, &PlanWait::time);
    for (PlanBuffer& buffer : other.buffers) {
      if (random() % (2 * problem.buffers.size()) == 0) buffer.stream = buffer.free_stream = 0;
    }
    const auto offsets = MakePlan(other, {.time_limit_seconds = 0})->offsets;
    const bool expected = SlowIsValidForStreams(problem, offsets, INT64_MAX);
    valid += expected ? 1 : 0;
    ASSERT_EQ(ValidatePlan(problem, offsets, INT64_MAX).ok(), expected) << i;
  }
  EXPECT_GT(valid, rounds / 100);
  EXPECT_LT(valid, rounds - rounds / 100);
}

INSTANTIATE_TEST_SUITE_P(
    All, StreamShapes,
    ::testing::Values(StreamShape{}, StreamShape{.events = 60, .streams = 3},
                      StreamShape{.events = 60, .waits_in_ten = 5},
                      StreamShape{.events = 40, .streams = 5, .waits_in_ten = 6},
                      StreamShape{.events = 200, .streams = 4, .largest = 100, .alignment = 512},
                      StreamShape{.events = 60, .streams = 3, .foreign_frees_in_ten = 5}));

TEST(PlanStreams, TheBoundIsTheLargestSetOfBuffersInConflict) {
  std::mt19937_64 random(3);
  int above_peak = 0;
  for (int i = 0; i < 2'000; ++i) {
    SCOPED_TRACE(i);
    const StreamShape shape = {.events = 18,
                               .streams = 2 + static_cast<int>(random() % 3),
                               .waits_in_ten = static_cast<int>(random() % 7)};
    const PlanProblem problem = RandomStreamProblem(random, shape);
    if (problem.buffers.size() > 12) continue;
    const std::int64_t clique = testing::SlowLargestClique(problem);
    ASSERT_EQ(*PlanLowerBound(problem), clique);
    PlanProblem one_stream = problem;
    for (PlanBuffer& buffer : one_stream.buffers) buffer.stream = buffer.free_stream = 0;
    above_peak += clique > *PlanLowerBound(one_stream) ? 1 : 0;
  }
  EXPECT_GT(above_peak, 500);
}

TEST(PlanStreams, ABoundWithForeignFreesIsNoHigherThanThat) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 1'000; ++i) {
    SCOPED_TRACE(i);
    const PlanProblem problem = RandomStreamProblem(
        random, {.events = 18, .streams = 3, .waits_in_ten = 4, .foreign_frees_in_ten = 5});
    if (problem.buffers.size() > 12) continue;
    ASSERT_LE(*PlanLowerBound(problem), testing::SlowLargestClique(problem));
  }
}

TEST(PlanStreams, SmallProblemsReachTheSmallestHeight) {
  std::mt19937_64 random(5);
  int smallest = 0;
  int count = 0;
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    const PlanProblem problem = RandomStreamProblem(
        random, {.events = 12, .streams = 3, .waits_in_ten = 3, .foreign_frees_in_ten = 2});
    if (problem.buffers.size() > 6) continue;
    const auto plan = MakePlan(problem, {.time_limit_seconds = 0.2});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const std::int64_t expected = testing::SlowSmallestHeightOfStreams(problem);
    EXPECT_GE(plan->height, expected);
    ++count;
    smallest += plan->height == expected ? 1 : 0;
    if (plan->optimal) {
      EXPECT_EQ(plan->height, expected);
    }
  }
  EXPECT_GT(count, 100);
  EXPECT_EQ(smallest, count);
}

}  // namespace
}  // namespace tidepool
