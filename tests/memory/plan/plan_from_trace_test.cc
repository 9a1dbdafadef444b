// SPDX-License-Identifier: Apache-2.0
// Problems made of traces: the lifetimes of buffers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/random_trace.h"
#include "tests/support/rounds.h"
#include "tests/support/shared_files.h"
#include "tests/support/stream_problem.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using Kind = TraceEvent::Kind;

Trace Parse(const std::string& text) {
  absl::StatusOr<Trace> trace = ParseTrace(text, "test");
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *std::move(trace);
}

std::vector<std::vector<std::int64_t>> Rows(const PlanProblem& problem) {
  std::vector<std::vector<std::int64_t>> rows;
  for (const PlanBuffer& buffer : problem.buffers) {
    rows.push_back({buffer.lower, buffer.upper, buffer.bytes, buffer.alignment});
  }
  return rows;
}

TEST(ToPlanProblem, TimesAreEventsAndSizesAreRounded) {
  const Trace trace = Parse("op,id,size,hint\na,x,1000,\na,y,512,high\nf,x,,\nm,end,,\n");
  const auto problem = ToPlanProblem(trace, 512);
  ASSERT_TRUE(problem.ok()) << problem.status();
  using Expected = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(Rows(*problem), (Expected{{0, 2, 1024, 512}, {1, 4, 512, 512}}));
}

TEST(ToPlanProblem, ALifetimeCsvKeepsItsTimes) {
  const Trace trace = Parse("id,lower,upper,size\na,-5,70,3\nb,70,71,4\n");
  const auto problem = ToPlanProblem(trace, 1);
  ASSERT_TRUE(problem.ok()) << problem.status();
  using Expected = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(Rows(*problem), (Expected{{-5, 70, 3, 1}, {70, 71, 4, 1}}));
}

TEST(ToPlanProblem, RefusesAlignmentsThatAreNone) {
  for (const std::int64_t alignment : {0, -512, 768}) {
    const auto problem = ToPlanProblem({}, alignment);
    EXPECT_EQ(problem.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(problem.status().message()), HasSubstr("expected a power of two"));
  }
}

TEST(ToPlanProblem, RefusesTooManyStreams) {
  TraceBuilder builder(TraceFormat::kNative);
  for (int i = 0; i < 1025; ++i) {
    const std::string name = absl::StrCat(i);
    ASSERT_TRUE(builder.Allocate(name, 1, Hint::kResident, name, i).ok());
  }
  const auto problem = ToPlanProblem(builder.Build(), 512);
  EXPECT_EQ(problem.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(problem.status().message()), HasSubstr("1025 streams, expected"));
}

TEST(ToPlanProblem, StreamsAndWaitsAreThoseOfTheTrace) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("x", 1, Hint::kResident, "a", 0).ok());
  ASSERT_TRUE(builder.Free("x", "b", 1));
  builder.Wait("b", "a", 2);
  ASSERT_TRUE(builder.Allocate("y", 1, Hint::kResident, "b", 3).ok());
  const auto problem = ToPlanProblem(builder.Build(), 1);
  ASSERT_TRUE(problem.ok()) << problem.status();
  const PlanBuffer& x = problem->buffers[0];
  EXPECT_EQ(std::tuple(x.lower, x.upper, x.stream, x.free_stream), std::tuple(0, 1, 0, 1));
  const PlanBuffer& y = problem->buffers[1];
  EXPECT_EQ(std::tuple(y.lower, y.upper, y.stream, y.free_stream), std::tuple(3, 4, 1, 1));
  ASSERT_EQ(problem->waits.size(), 1);
  EXPECT_EQ(problem->waits[0].time, 2);
  EXPECT_EQ(problem->waits[0].stream, 1);
  EXPECT_EQ(problem->waits[0].awaited, 0);
}

// Such a format has all frees, and its allocator saw to their order.
TEST(ToPlanProblem, WithoutWaitsInTheFormatAllStreamsKnowOfAllFrees) {
  TraceBuilder builder(TraceFormat::kOperationCsv);
  ASSERT_TRUE(builder.Allocate("x", 1, Hint::kResident, "a", 0).ok());
  ASSERT_TRUE(builder.Free("x", "a", 1));
  ASSERT_TRUE(builder.Allocate("y", 1, Hint::kResident, "b", 2).ok());
  const auto problem = ToPlanProblem(builder.Build(), 1);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(MakePlan(*problem)->height, 1);
}

TEST(ToPlanProblem, PlansOfRandomTracesAreValidForAllPairs) {
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Trace trace = testing::RandomTrace(seed).Make(120);
    trace.original_format = TraceFormat::kNative;
    const auto problem = ToPlanProblem(trace, 1);
    ASSERT_TRUE(problem.ok()) << problem.status();
    const auto plan = MakePlan(*problem, {.time_limit_seconds = 0});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(testing::SlowIsValidForStreams(*problem, plan->offsets, plan->height));
  }
}

TEST(ToPlanProblem, ExampleTracesAreAtTheBound) {
  for (const auto& file : testing::Cases(testing::FilesIn(testing::ExampleTraces(), ".csv.gz"))) {
    SCOPED_TRACE(file);
    const auto trace = ReadTrace(file);
    ASSERT_TRUE(trace.ok()) << trace.status();
    const auto problem = ToPlanProblem(*trace, 512);
    ASSERT_TRUE(problem.ok()) << problem.status();
    const auto plan = MakePlan(*problem, {.time_limit_seconds = 1e9});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(plan->optimal);
  }
}

}  // namespace
}  // namespace tidepool
