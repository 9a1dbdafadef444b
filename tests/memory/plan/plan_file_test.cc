// SPDX-License-Identifier: Apache-2.0
// Plan files: round trips and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/support/random_problem.h"
#include "tests/support/random_trace.h"
#include "tests/support/shared_files.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kHeader[] = "id,lower,upper,size,offset\n";

std::string ErrorOf(const std::string& contents) {
  const auto plan = ParsePlan(contents, "p.csv");
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << contents;
  const std::string message(plan.status().message());
  return message;
}

std::string Message(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  return message;
}

TEST(PlanFile, IsReadInTheOrderOfTime) {
  const auto plan = ParsePlan(absl::StrCat(kHeader, "b,5,9,10,0\na,0,5,4,2\nc,0,9,2,20\n"), "p");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->ids.size(), 3);
  EXPECT_EQ(plan->ids[0], "a");
  EXPECT_EQ(plan->ids[1], "c");
  EXPECT_EQ(plan->ids[2], "b");
  EXPECT_EQ(plan->offsets, (std::vector<std::int64_t>{2, 20, 0}));
  EXPECT_EQ(plan->lines, (std::vector<std::int64_t>{3, 4, 2}));
  EXPECT_EQ(plan->problem.buffers[2].lower, 5);
  EXPECT_EQ(plan->problem.buffers[2].upper, 9);
  EXPECT_EQ(plan->problem.buffers[2].bytes, 10);
  EXPECT_EQ(plan->height, 22);
}

TEST(PlanFile, MayHoldNothing) {
  const auto plan = ParsePlan(kHeader, "p");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 0);
  EXPECT_TRUE(OffsetsFor(*plan, *ParseTrace("op,id,size,hint\nm,x,,\n", "t"), 512).ok());
}

TEST(PlanFile, TakesColumnsInAnyOrder) {
  const auto plan = ParsePlan("offset,name,size,upper,id,lower\n8,x,4,9,a,0\n", "p");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->height, 12);
}

TEST(PlanFile, RefusesRowsThatAreNone) {
  const std::string header = kHeader;
  EXPECT_THAT(ErrorOf(""), StartsWith("p.csv:1: an empty file"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size\na,0,1,1\n"), StartsWith("p.csv:1: no column 'offset'"));
  EXPECT_THAT(ErrorOf("op,id,size,hint\na,x,1,\n"), StartsWith("p.csv:1: no column 'lower'"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size,offset,offset\n"), HasSubstr("more than one column"));
  EXPECT_THAT(ErrorOf(header + "a,0,1,1,-1\n"), StartsWith("p.csv:2: offset '-1'"));
  EXPECT_THAT(ErrorOf(header + "a,0,1,1,\n"), StartsWith("p.csv:2: offset ''"));
  EXPECT_THAT(ErrorOf(header + "a,0,1,1,1.5\n"), StartsWith("p.csv:2: offset '1.5'"));
  EXPECT_THAT(ErrorOf(header + "a,0,1,1,9223372036854775807\n"), StartsWith("p.csv:2: offset"));
  EXPECT_THAT(ErrorOf(header + "a,0,1,0,0\n"), StartsWith("p.csv:2: size '0'"));
  EXPECT_THAT(ErrorOf(header + "a,0,1,4611686018427387904,0\n"), StartsWith("p.csv:2: size"));
  EXPECT_THAT(ErrorOf(header + "a,x,1,1,0\n"), StartsWith("p.csv:2: lower 'x'"));
  EXPECT_THAT(ErrorOf(header + "a,1,1,1,0\n"), StartsWith("p.csv:2: upper 1"));
  EXPECT_THAT(ErrorOf(header + "a,0,1,1\n"), StartsWith("p.csv:2: 4 fields"));
  EXPECT_THAT(ErrorOf(header + "a,0,2,1,0\na,1,2,1,1\n"), StartsWith("p.csv:3: id 'a'"));
  EXPECT_THAT(ErrorOf("\x1f\x8b\x08 no gzip"), StartsWith("p.csv:"));
}

TEST(PlanFile, NamesBothRowsThatOverlap) {
  EXPECT_THAT(ErrorOf(absl::StrCat(kHeader, "c,7,9,2,9\nb,2,6,4,7\na,0,5,8,0\n")),
              StartsWith("p.csv:4: 'a' and 'b' of line 3 overlap at time 2"));
  EXPECT_TRUE(ParsePlan(absl::StrCat(kHeader, "b,2,6,4,8\na,0,5,8,0\n"), "p").ok());
}

TEST(PlanFile, RefusesSumsBeyondReason) {
  std::string rows = kHeader;
  for (int i = 0; i < 1024; ++i)
    absl::StrAppend(&rows, i, ",", i, ",", i + 1, ",", 1LL << 50, ",0\n");
  EXPECT_TRUE(ParsePlan(rows, "p").ok());
  absl::StrAppend(&rows, "x,2000,2001,1,0\n");
  EXPECT_THAT(ErrorOf(rows), StartsWith("p.csv:1026: sizes of more than"));
}

TEST(PlanFile, IsNotFoundWhenThereIsNone) {
  EXPECT_EQ(ReadPlan("/no/such/plan.csv").status().code(), absl::StatusCode::kNotFound);
}

// Makes a trace of any kind, small enough for the slow referee: sizes of a few bytes, equal times,
// and unfreed allocations.
Trace SmallTrace(std::mt19937_64& random) {
  if (random() % 2 == 0) {
    const PlanProblem problem = testing::RandomProblem(
        random, {.buffers = 1 + static_cast<int>(random() % 12), .earliest = -3});
    std::string csv = "id,lower,upper,size\n";
    for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
      const PlanBuffer& buffer = problem.buffers[i];
      absl::StrAppend(&csv, "t", i, ",", buffer.lower, ",", buffer.upper, ",", buffer.bytes, "\n");
    }
    return *ParseTrace(csv, "test");
  }
  TraceBuilder builder(TraceFormat::kNative);
  std::set<std::string> live;
  for (int i = 0; i < 20; ++i) {
    const std::string id = absl::StrCat("x", random() % 6);
    const std::string stream = absl::StrCat(random() % 4 / 3);
    if (live.erase(id) == 1) {
      EXPECT_TRUE(builder.Free(id, stream, i));
      continue;
    }
    live.insert(id);
    const auto bytes = static_cast<std::int64_t>(1 + random() % 9);
    EXPECT_TRUE(builder.Allocate(id, bytes, Hint::kResident, stream, i).ok());
    if (random() % 4 == 0) builder.Wait("1", "0", i);
  }
  return builder.Build();
}

class PlanFiles : public ::testing::Test {
 protected:
  PlanFiles()
      : folder_(std::filesystem::temp_directory_path() /
                absl::StrCat("tidepool-plans-", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~PlanFiles() override { std::filesystem::remove_all(folder_); }

  std::string Written(const Trace& trace, const std::vector<std::int64_t>& offsets) {
    const std::string path = folder_ / "plan.csv";
    EXPECT_TRUE(WritePlan(trace, offsets, path).ok());
    return testing::Contents(path);
  }

  std::filesystem::path folder_;
};

std::vector<std::int64_t> PlannedOffsets(const Trace& trace, std::int64_t alignment) {
  return MakePlan(*ToPlanProblem(trace, alignment), {.time_limit_seconds = 0})->offsets;
}

std::string Joined(const std::vector<std::string>& lines) {
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}
std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.pop_back();
  return lines;
}

// Refused, or a plan of the trace as the slow referee sees it.
void ExpectRefusedOrValid(const std::string& contents, const Trace& trace, std::int64_t alignment) {
  const auto plan = ParsePlan(contents, "p.csv");
  if (!plan.ok()) {
    return;
  }
  const auto offsets = OffsetsFor(*plan, trace, alignment);
  if (!offsets.ok()) {
    ASSERT_THAT(std::string(offsets.status().message()), StartsWith("p.csv:"));
    return;
  }
  ASSERT_TRUE(testing::SlowIsValid(*ToPlanProblem(trace, alignment), *offsets, INT64_MAX))
      << contents;
}

TEST_F(PlanFiles, AreReadAsTheyWereWritten) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const Trace trace = SmallTrace(random);
    const std::int64_t alignment = std::int64_t{1} << random() % 5;
    const std::vector<std::int64_t> offsets = PlannedOffsets(trace, alignment);
    const std::string path = folder_ / (round % 2 == 0 ? "plan.csv" : "plan.csv.gz");
    ASSERT_TRUE(WritePlan(trace, offsets, path).ok());
    const auto plan = ReadPlan(path);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->name, path);
    ASSERT_EQ(plan->offsets, offsets);
    std::int64_t height = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      ASSERT_EQ(plan->ids[i], trace.allocation_ids[i]);
      ASSERT_EQ(plan->problem.buffers[i].bytes, trace.allocations[i].bytes);
      height = std::max(height, offsets[i] + trace.allocations[i].bytes);
    }
    ASSERT_EQ(plan->height, height);
    const auto again = OffsetsFor(*plan, trace, alignment);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, offsets);
  }
}

TEST_F(PlanFiles, MayHaveTheirRowsInAnyOrder) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const Trace trace = SmallTrace(random);
    const std::vector<std::int64_t> offsets = PlannedOffsets(trace, 1);
    std::vector<std::string> lines = LinesOf(Written(trace, offsets));
    std::shuffle(lines.begin() + 1, lines.end(), random);
    const auto again = OffsetsFor(*ParsePlan(Joined(lines), "p"), trace, 1);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, offsets);
  }
}

TEST_F(PlanFiles, OfATraceAreThoseOfItsNativeCopy) {
  const Trace trace = *ParseTrace("id,lower,upper,size\nb,5,9,1\na,0,5,2\nc,0,9,1\n", "test");
  const auto plan = ParsePlan(Written(trace, PlannedOffsets(trace, 1)), "p");
  const std::string path = folder_ / "x.tide";
  ASSERT_TRUE(WriteTrace(trace, TraceFormat::kNative, path).ok());
  EXPECT_TRUE(OffsetsFor(*plan, *ReadTrace(path), 1).ok());
}

TEST_F(PlanFiles, CutOffAnywhereAreRefusedOrValid) {
  std::mt19937_64 random(3);
  int refused = 0;
  for (int round = 0; round < 30; ++round) {
    const Trace trace = SmallTrace(random);
    const std::string whole = Written(trace, PlannedOffsets(trace, 1));
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      ExpectRefusedOrValid(whole.substr(0, bytes), trace, 1);
      if (HasFatalFailure()) return;
      const auto plan = ParsePlan(whole.substr(0, bytes), "p");
      refused += !plan.ok() || !OffsetsFor(*plan, trace, 1).ok();
      // All but the last row's offset and line end are needed.
      if (bytes <= whole.rfind(',')) {
        ASSERT_TRUE(!plan.ok() || !OffsetsFor(*plan, trace, 1).ok()) << whole.substr(0, bytes);
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(PlanFiles, WithAnotherByteAreRefusedOrValid) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 40; ++round) {
    const Trace trace = SmallTrace(random);
    const std::int64_t alignment = std::int64_t{1} << random() % 3;
    const std::string whole = Written(trace, PlannedOffsets(trace, alignment));
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string changed = whole;
      changed[at] = "0123456789,\n-\"x"[random() % 15];
      ExpectRefusedOrValid(changed, trace, alignment);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(PlanFiles, WithoutARowOrWithOneMoreAreRefused) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    const Trace trace = SmallTrace(random);
    const std::vector<std::string> lines = LinesOf(Written(trace, PlannedOffsets(trace, 1)));
    for (std::size_t row = 1; row < lines.size(); ++row) {
      std::vector<std::string> fewer = lines;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(row));
      EXPECT_THAT(Message(OffsetsFor(*ParsePlan(Joined(fewer), "p"), trace, 1).status()),
                  StartsWith("p:"));
    }
    for (const std::string row : {"new,-100,-99,1,0", "new,100,101,1,0", "new,2,3,1,1000"}) {
      std::vector<std::string> more = lines;
      more.push_back(row);
      EXPECT_THAT(Message(OffsetsFor(*ParsePlan(Joined(more), "p"), trace, 1).status()),
                  StartsWith("p:"));
    }
  }
}

TEST_F(PlanFiles, WithOffsetsExchangedAreRefusedOrValid) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 100; ++round) {
    const Trace trace = SmallTrace(random);
    std::vector<std::int64_t> offsets = PlannedOffsets(trace, 1);
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      std::vector<std::int64_t> exchanged = offsets;
      std::swap(exchanged[i], exchanged[random() % i]);
      ExpectRefusedOrValid(Written(trace, exchanged), trace, 1);
      exchanged[i] += static_cast<std::int64_t>(random() % 3);
      ExpectRefusedOrValid(Written(trace, exchanged), trace, 1);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(PlanFiles, OfAnotherTraceAreRefusedWithTheFirstDifference) {
  const Trace trace = *ParseTrace("id,lower,upper,size\na,0,5,2\nb,0,9,1\nc,5,9,1\n", "test");
  const auto error = [&](const std::string& rows) {
    const auto plan = ParsePlan(kHeader + rows, "p.csv");
    EXPECT_TRUE(plan.ok()) << plan.status();
    return Message(OffsetsFor(*plan, trace, 1).status());
  };
  EXPECT_THAT(
      error("a,0,5,2,0\nx,0,9,1,2\nc,5,9,1,0\n"),
      StartsWith(
          "p.csv:3: id 'x', lower 0, upper 9, size 1, expected id 'b', lower 0, upper 9, size 1"));
  EXPECT_THAT(
      error("a,0,5,3,0\nb,0,9,1,3\nc,5,9,1,0\n"),
      StartsWith(
          "p.csv:2: id 'a', lower 0, upper 5, size 3, expected id 'a', lower 0, upper 5, size 2"));
  EXPECT_THAT(error("a,0,4,2,0\nb,0,9,1,2\nc,5,9,1,0\n"),
              StartsWith("p.csv:2: id 'a', lower 0, upper 4"));
  EXPECT_THAT(error("a,0,5,2,0\nb,0,9,1,2\nc,6,9,1,0\n"), StartsWith("p.csv:4: id 'c', lower 6"));
  EXPECT_THAT(
      error("a,0,5,2,0\nb,0,9,1,2\n"),
      StartsWith(
          "p.csv: 2 rows, expected 3, one an allocation of the trace, and first one of id 'c'"));
  EXPECT_THAT(error("a,0,5,2,0\nb,0,9,1,2\nc,5,9,1,0\nd,5,9,1,1\n"),
              StartsWith("p.csv:5: id 'd', lower 5, upper 9, size 1, expected no more than the 3"));
}

TEST_F(PlanFiles, HaveOffsetsAndSizesOfTheAlignment) {
  const Trace trace = *ParseTrace("id,lower,upper,size\na,0,5,2\nb,0,9,1\n", "test");
  const auto error = [&](const std::string& rows, std::int64_t alignment) {
    return Message(OffsetsFor(*ParsePlan(kHeader + rows, "p.csv"), trace, alignment).status());
  };
  EXPECT_THAT(error("a,0,5,2,0\nb,0,9,1,2\n", 4),
              StartsWith("p.csv:3: offset 2, expected a multiple of 4"));
  EXPECT_THAT(error("a,0,5,2,0\nb,0,9,1,2\n", 3), HasSubstr("power of two"));
  EXPECT_TRUE(
      OffsetsFor(*ParsePlan(absl::StrCat(kHeader, "a,0,5,2,4\nb,0,9,1,0\n"), "p"), trace, 4).ok());
  const Trace large = *ParseTrace("id,lower,upper,size\na,0,5,5\nb,0,9,1\n", "test");
  const auto plan = ParsePlan(absl::StrCat(kHeader, "a,0,5,5,0\nb,0,9,1,8\n"), "p.csv");
  EXPECT_TRUE(OffsetsFor(*plan, large, 8).ok());
  EXPECT_THAT(
      Message(OffsetsFor(*ParsePlan(absl::StrCat(kHeader, "a,0,5,5,4\nb,0,9,1,0\n"), "p"), large, 8)
                  .status()),
      HasSubstr("multiple of 8"));
}

// Memory that was freed on one stream is another's only when that has waited.
TEST_F(PlanFiles, RespectTheOrderOfStreams) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("x", 1, Hint::kResident, "a", 0).ok());
  ASSERT_TRUE(builder.Free("x", "a", 1));
  ASSERT_TRUE(builder.Allocate("y", 1, Hint::kResident, "b", 2).ok());
  const Trace trace = builder.Build();
  const auto plan = ParsePlan(Written(trace, {0, 0}), "p.csv");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(Message(OffsetsFor(*plan, trace, 1).status()),
              StartsWith("p.csv:3: 'y' and 'x' of line 2 overlap"));
}

}  // namespace
}  // namespace tidepool
