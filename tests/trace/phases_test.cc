// SPDX-License-Identifier: Apache-2.0
// The memory of phases: which is kept, handed on and worked in, and that it serves them in any
// order.
#include "tidepool/trace/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

Trace Parse(const std::string& rows) {
  absl::StatusOr<Trace> trace = ParseTrace("op,id,size,hint\n" + rows, "test.csv");
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *std::move(trace);
}

PhaseNeeds Needs(const Trace& trace, std::vector<std::string> without = {}) {
  const absl::StatusOr<PhaseNeeds> needs =
      FindPhaseNeeds(trace, {.alignment = 1, .without = std::move(without)});
  EXPECT_TRUE(needs.ok()) << needs.status();
  return needs.value_or(PhaseNeeds());
}

TEST(Phases, KeepHandOnAndWork) {
  const Trace trace = Parse(
      "a,before,5,\n"
      "m,load,,\na,weights,100,\na,scratch,40,\nf,scratch,,\n"
      "m,decode,,\na,x,10,\na,y,20,\nf,x,,\n"
      "m,decode,,\nf,y,,\na,x,30,\nf,x,,\na,y,7,\n"
      "m,end,,\nf,y,,\n");
  const PhaseNeeds needs = Needs(trace);
  ASSERT_EQ(needs.phases.size(), 4);
  EXPECT_EQ(needs.phases[0].name, "");
  EXPECT_EQ(needs.phases[0].kept, 5);
  EXPECT_EQ(needs.phases[1].name, "load");
  EXPECT_EQ(needs.phases[1].kept, 100);
  EXPECT_EQ(needs.phases[1].work, 40);
  EXPECT_EQ(needs.phases[2].name, "decode");
  EXPECT_EQ(needs.phases[2].times, 2);
  EXPECT_EQ(needs.phases[2].handed, 20);
  EXPECT_EQ(needs.phases[2].work, 30);
  EXPECT_EQ(needs.kept, 105);
  EXPECT_EQ(needs.handed, 20);
  EXPECT_EQ(needs.work, 40);
  EXPECT_EQ(needs.needed, 105 + 2 * 20 + 40);
}

// A buffer that lives past the next phase may meet any number of others.
TEST(Phases, KeepWhatOutlivesTheNextPhase) {
  const PhaseNeeds needs = Needs(
      Parse("m,a,,\na,x,10,\nm,b,,\na,y,1,\nf,y,,\nm,c,,\nf,x,,\na,z,10,\nm,d,,\nm,e,,\nf,z,,\n"));
  EXPECT_EQ(needs.phases[0].kept, 10);
  EXPECT_EQ(needs.kept, 10) << "x and z never live at once";
  EXPECT_EQ(needs.handed, 0);
}

TEST(Phases, MayBeLeftOut) {
  const Trace trace = Parse("m,load,,\na,w,10,\nm,cache,,\na,c,1000,\nm,run,,\na,x,3,\nf,x,,\n");
  EXPECT_EQ(Needs(trace).needed, 1013);
  const PhaseNeeds needs = Needs(trace, {"cache"});
  EXPECT_EQ(needs.needed, 13);
  EXPECT_EQ(needs.phases.size(), 2);
  const absl::Status unknown = FindPhaseNeeds(trace, {.without = {"cash"}}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("no phase \"cash\", expected one of load, cache, run"));
}

// Spans inside of a phase are no phases, and requests between two spans are of none.
TEST(Phases, AreOutermostSpans) {
  TraceBuilder builder(TraceFormat::kNative);
  const auto allocate = [&](const char* id, std::int64_t bytes) {
    ASSERT_TRUE(builder.Allocate(id, bytes, Hint::kResident, "0", 0).ok());
  };
  builder.Mark("step", 0);
  builder.Mark("layer", 0);
  allocate("x", 10);
  builder.MarkEnd("layer", 0);
  builder.MarkEnd("step", 0);
  allocate("y", 3);
  builder.Mark("step", 0);
  builder.MarkEnd("step", 0);
  const Trace trace = builder.Build();
  const PhaseNeeds needs = Needs(trace);
  ASSERT_EQ(needs.phases.size(), 2);
  EXPECT_EQ(needs.phases[0].name, "step");
  EXPECT_EQ(needs.phases[0].times, 2);
  EXPECT_EQ(needs.phases[1].name, "");
}

TEST(Phases, NeedMarks) {
  const absl::Status status = FindPhaseNeeds(Parse("a,x,10,\n"), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no marks"));
  EXPECT_FALSE(FindPhaseNeeds(Parse("m,a,,\na,x,10,\n"), {.alignment = 3}).ok());
}

// The peak of live bytes of random phases in random orders, beside the answer.
TEST(Phases, AnyOrderFits) {
  std::mt19937_64 random(1);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 100; ++round) {
    struct Phase {
      std::vector<std::int64_t> handed;
      std::vector<std::int64_t> work;
    };
    std::vector<Phase> phases(4);
    std::int64_t kept = 0;
    std::string rows = "m,load,,\n";
    for (int i = 0; i < 3; ++i) {
      const std::int64_t bytes = draw(1, 100);
      kept += bytes;
      absl::StrAppend(&rows, "a,w", i, ",", bytes, ",\n");
    }
    std::vector<std::string> before;
    int number = 0;
    for (Phase& phase : phases) {
      absl::StrAppend(&rows, "m,p", number, ",,\n");
      phase.work.resize(static_cast<std::size_t>(draw(0, 4)));
      phase.handed.resize(static_cast<std::size_t>(draw(0, 2)));
      for (std::int64_t& bytes : phase.work) {
        bytes = draw(1, 100);
        absl::StrAppend(&rows, "a,x", ++number, ",", bytes, ",\n");
      }
      const int last = number;
      for (std::size_t i = 0; i < phase.work.size(); ++i) {
        absl::StrAppend(&rows, "f,x", last - static_cast<int>(i), ",,\n");
      }
      std::vector<std::string> now;
      for (std::int64_t& bytes : phase.handed) {
        bytes = draw(1, 20);
        now.push_back(absl::StrCat("h", ++number));
        absl::StrAppend(&rows, "a,", now.back(), ",", bytes, ",\n");
      }
      for (const std::string& id : before) absl::StrAppend(&rows, "f,", id, ",,\n");
      before = now;
      ++number;
    }
    absl::StrAppend(&rows, "m,end,,\n");
    for (const std::string& id : before) absl::StrAppend(&rows, "f,", id, ",,\n");
    const PhaseNeeds needs = Needs(Parse(rows));
    const auto sum = [](const std::vector<std::int64_t>& all) {
      std::int64_t total = 0;
      for (const std::int64_t bytes : all) total += bytes;
      return total;
    };
    std::int64_t most = kept;
    std::int64_t last = 0;
    for (int i = 0; i < 50; ++i) {
      const Phase& phase = phases[static_cast<std::size_t>(draw(0, 3))];
      most = std::max({most, kept + last + sum(phase.work), kept + last + sum(phase.handed)});
      last = sum(phase.handed);
    }
    EXPECT_GE(needs.needed, most);
    EXPECT_EQ(needs.kept, kept);
  }
}

}  // namespace
}  // namespace tidepool
