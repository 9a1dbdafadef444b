// SPDX-License-Identifier: Apache-2.0
// Problems made of traces: the lifetimes of buffers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/random_trace.h"
#include "tests/support/shared_files.h"
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

// Stream b takes over no memory of a before it has waited for a.
TEST(ToPlanProblem, AFreeOnAnotherStreamIsWaitedFor) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("x", 1, Hint::kResident, "a", 0).ok());
  ASSERT_TRUE(builder.Free("x", "a", 1));
  ASSERT_TRUE(builder.Allocate("y", 1, Hint::kResident, "b", 2).ok());
  builder.Wait("b", "a", 3);
  ASSERT_TRUE(builder.Allocate("z", 1, Hint::kResident, "b", 4).ok());
  const auto problem = ToPlanProblem(builder.Build(), 1);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->buffers[0].upper, 3);
  EXPECT_EQ(problem->buffers[1].upper, 5);
}

TEST(ToPlanProblem, AFreeIsWaitedForThroughAThirdStream) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("x", 1, Hint::kResident, "a", 0).ok());
  ASSERT_TRUE(builder.Free("x", "a", 1));
  builder.Wait("c", "a", 2);
  builder.Wait("b", "c", 3);
  ASSERT_TRUE(builder.Allocate("z", 1, Hint::kResident, "b", 4).ok());
  const auto problem = ToPlanProblem(builder.Build(), 1);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->buffers[0].upper, 3);
}

// Finds by brute force until which event each free keeps its memory: looks for a chain of waits
// from every later allocation on another stream.
std::vector<std::int64_t> SlowUppers(const Trace& trace) {
  const auto events = static_cast<std::int64_t>(trace.events.size());
  std::vector<std::int64_t> uppers(trace.allocations.size(), events);
  for (std::int64_t i = 0; i < events; ++i) {
    if (trace.events[i].kind != Kind::kFree) continue;
    std::vector<bool> knows(trace.stream_names.size());
    knows[trace.events[i].stream] = true;
    std::int64_t upper = i;
    // A stream that learns of it late keeps it until then, unless it allocates no more by then.
    std::vector<std::int64_t> last(trace.stream_names.size(), -1);
    for (std::int64_t j = i + 1; j < events; ++j) {
      const TraceEvent& event = trace.events[j];
      if (event.kind == Kind::kAllocate && !knows[event.stream]) upper = std::max(upper, j + 1);
      if (event.kind == Kind::kWait && knows[event.index] && !knows[event.stream]) {
        knows[event.stream] = true;
        bool allocates = false;
        for (std::int64_t k = j + 1; k < events; ++k) {
          allocates |=
              trace.events[k].kind == Kind::kAllocate && trace.events[k].stream == event.stream;
        }
        if (allocates) upper = std::max(upper, j);
      }
    }
    uppers[trace.events[i].index] = upper;
  }
  return uppers;
}

TEST(ToPlanProblem, StreamsAgreeWithTheSlowWay) {
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Trace trace = testing::RandomTrace(seed).Make(120);
    trace.original_format = TraceFormat::kNative;
    const auto problem = ToPlanProblem(trace, 1);
    ASSERT_TRUE(problem.ok()) << problem.status();
    const std::vector<std::int64_t> expected = SlowUppers(trace);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(problem->buffers[i].upper, expected[i]) << i;
    }
  }
}

TEST(ToPlanProblem, ExampleTracesAreAtTheBound) {
  for (const auto& file : testing::FilesIn(testing::ExampleTraces(), ".csv.gz")) {
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
