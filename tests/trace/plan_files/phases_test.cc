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

// Memory that is freed two phases later meets that of two others.
TEST(Phases, HandOnToSeveralPhases) {
  const PhaseNeeds needs = Needs(
      Parse("m,a,,\na,x,10,\nm,b,,\na,y,1,\nf,y,,\nm,c,,\nf,x,,\na,z,10,\nm,d,,\nm,e,,\nf,z,,\n"));
  EXPECT_EQ(needs.phases[0].handed, 10);
  EXPECT_EQ(needs.kept, 0);
  EXPECT_EQ(needs.areas, 3);
  EXPECT_EQ(needs.needed, 3 * 10 + 1);
}

// In another order all of it may live at once, although it does not in this one.
TEST(Phases, KeepAllThatStaysLong) {
  std::string rows;
  for (int i = 0; i < 3; ++i) {
    absl::StrAppend(&rows, "m,a,,\na,x", i, ",10,\n");
    for (int k = 0; k < 9; ++k) absl::StrAppend(&rows, "m,b,,\n");
    absl::StrAppend(&rows, "f,x", i, ",,\n");
  }
  const PhaseNeeds needs = Needs(Parse(rows));
  EXPECT_EQ(needs.phases[0].kept, 30);
  EXPECT_EQ(needs.kept, 30);
  EXPECT_EQ(needs.needed, 30);
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

// The phases before a cache do not work beside it, as far as they free their memory before.
TEST(Phases, ThatRunBeforeOneThatIsLeftOutNeedNoMemoryBesideIt) {
  const Trace trace = Parse(
      "m,load,,\na,w,10,\na,shard,500,\nf,shard,,\na,h,70,\n"
      "m,profile,,\nf,h,,\na,x,200,\nf,x,,\na,late,4,\n"
      "m,run,,\na,y,3,\nf,y,,\n"
      "m,cache,,\na,c,1000,\nf,late,,\n"
      "m,run,,\na,y,5,\nf,y,,\na,z,2,\nm,end,,\nf,z,,\n");
  const PhaseNeeds needs = Needs(trace, {"cache"});
  EXPECT_EQ(needs.phases[0].work, 500);
  EXPECT_EQ(needs.phases[0].handed, 70);
  EXPECT_EQ(needs.phases[1].work, 200);
  EXPECT_EQ(needs.kept, 10);
  EXPECT_EQ(needs.work, 5);
  EXPECT_EQ(needs.handed, 4);
  EXPECT_EQ(needs.areas, 3);
  EXPECT_EQ(needs.needed, 10 + 3 * 4 + 5);
  EXPECT_EQ(needs.before, 10 + 500);
  EXPECT_EQ(Needs(trace).work, 500);
  EXPECT_EQ(Needs(trace).before, 0);
}

// A cache that fills the memory leaves room for the capture of graphs.
TEST(Phases, ThatKeepMemoryBesideOneThatIsLeftOut) {
  const Trace trace = Parse(
      "m,cache,,\na,c,1000,\n"
      "m,capture,,\na,g1,7,\na,warm1,30,\nf,warm1,,\na,h,2,\n"
      "m,capture,,\nf,h,,\na,g2,11,\na,warm2,20,\nf,warm2,,\n"
      "m,run,,\na,x,40,\nf,x,,\n");
  const PhaseNeeds needs = Needs(trace, {"cache"});
  ASSERT_EQ(needs.phases.size(), 2);
  EXPECT_EQ(needs.phases[0].beside, 7 + 11 + 2 + 30);
  EXPECT_EQ(needs.phases[1].beside, 0) << "it keeps nothing";
  EXPECT_EQ(needs.before, 0);
  EXPECT_EQ(needs.needed, 18 + 2 * 2 + 40);
  for (const PhaseNeed& phase : Needs(trace).phases) EXPECT_EQ(phase.beside, 0);
  const PhaseNeeds earlier = Needs(Parse("m,load,,\na,w,3,\nm,cache,,\na,c,9,\n"), {"cache"});
  EXPECT_EQ(earlier.phases[0].beside, 0);
  EXPECT_EQ(earlier.before, 3);
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
  // Kept allocations need not be live together.
  std::string rows;
  for (int i = 0; i < 8192; ++i) {
    rows += "m,p,,\na,x,1125899906842624,\n";
    for (int next = 0; next < 9; ++next) rows += "m,q,,\n";
    rows += "f,x,,\n";
  }
  EXPECT_THAT(std::string(FindPhaseNeeds(Parse(rows), {}).status().message()),
              ::testing::HasSubstr("phases need 2^63 bytes or more together"));
}

// The live bytes of random phases in random orders, beside the answer.
TEST(Phases, AnyOrderFits) {
  std::mt19937_64 random(1);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  struct Handed {
    std::int64_t bytes = 0;
    std::size_t delay = 0;  // phases until it is freed
  };
  struct Time {
    std::int64_t work = 0;
    std::vector<Handed> handed;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<Time> times(static_cast<std::size_t>(draw(1, 12)));
    const std::int64_t kept = draw(1, 100);
    std::string rows = absl::StrCat("m,load,,\na,w,", kept, ",\n");
    std::map<std::size_t, std::vector<std::string>> frees;  // by time
    int number = 0;
    const auto begin = [&](std::size_t time) {
      absl::StrAppend(&rows, "m,p", time % 3, ",,\n");
      for (const std::string& id : frees[time]) absl::StrAppend(&rows, "f,", id, ",,\n");
    };
    for (std::size_t i = 0; i < times.size(); ++i) {
      begin(i);
      times[i].work = draw(1, 100);
      absl::StrAppend(&rows, "a,x,", times[i].work, ",\nf,x,,\n");
      times[i].handed.resize(static_cast<std::size_t>(draw(0, 2)));
      for (Handed& one : times[i].handed) {
        one = {draw(1, 50), static_cast<std::size_t>(draw(1, 3))};
        const std::string id = absl::StrCat("h", ++number);
        absl::StrAppend(&rows, "a,", id, ",", one.bytes, ",\n");
        frees[i + one.delay].push_back(id);
      }
    }
    for (std::size_t i = times.size(); i < times.size() + 3; ++i) begin(i);
    const PhaseNeeds needs = Needs(Parse(rows));
    for (int order = 0; order < 10; ++order) {
      std::ranges::shuffle(times, random);
      for (std::size_t i = 0; i < times.size(); ++i) {
        std::int64_t live = kept + times[i].work;
        for (std::size_t k = 0; k <= i; ++k) {
          for (const Handed& one : times[k].handed) live += i - k <= one.delay ? one.bytes : 0;
        }
        EXPECT_LE(live, needs.needed);
      }
    }
  }
}

}  // namespace
}  // namespace tidepool
