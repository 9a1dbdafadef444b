// SPDX-License-Identifier: Apache-2.0
// Live allocations at an event, and collapsed stacks: examples, and a slow obvious model.
#include "tidepool/trace/composition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/support/random_trace.h"
#include "tidepool/trace/sizing.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TraceTag Frame(TraceBuilder& builder, TraceTag caller, std::string_view name,
               std::string_view file = "", std::uint32_t line = 0) {
  const auto tag = builder.Frame(caller, name, file, line);
  EXPECT_TRUE(tag.ok()) << tag.status();
  return *tag;
}

void Allocate(TraceBuilder& builder, TraceTag tag, std::string_view id, std::int64_t bytes) {
  builder.SetTag(tag);
  EXPECT_TRUE(builder.Allocate(id, bytes, Hint::kResident, "", 0).ok());
}

// Returns the stacks of all allocations of the trace.
std::string AllStacks(const Trace& trace, std::int64_t alignment) {
  std::vector<std::uint32_t> all(trace.allocations.size());
  std::iota(all.begin(), all.end(), 0);
  return CollapsedStacks(trace, all, alignment);
}

TEST(LiveAfter, IsWhatWasAllocatedAndNotFreed) {
  TraceBuilder builder(TraceFormat::kNative);
  Allocate(builder, 0, "x", 1);
  builder.Mark("m", 0);
  Allocate(builder, 0, "y", 1);
  EXPECT_TRUE(builder.Free("x", "", 0));
  Allocate(builder, 0, "x", 1);
  const Trace trace = builder.Build();
  EXPECT_THAT(*LiveAfter(trace, 0), ElementsAre(0));
  EXPECT_THAT(*LiveAfter(trace, 1), ElementsAre(0));
  EXPECT_THAT(*LiveAfter(trace, 2), ElementsAre(0, 1));
  EXPECT_THAT(*LiveAfter(trace, 3), ElementsAre(1));
  EXPECT_THAT(*LiveAfter(trace, 4), ElementsAre(1, 2));
}

TEST(LiveAfter, RefusesEventsThatAreNotThere) {
  TraceBuilder builder(TraceFormat::kNative);
  EXPECT_FALSE(LiveAfter(builder.Build(), 0).ok());
  builder.Mark("m", 0);
  const Trace trace = builder.Build();
  EXPECT_THAT(*LiveAfter(trace, 0), IsEmpty());
  for (const std::int64_t event : {std::int64_t{-1}, std::int64_t{1}, INT64_MAX}) {
    const auto live = LiveAfter(trace, event);
    ASSERT_EQ(live.status().code(), absl::StatusCode::kInvalidArgument) << event;
    EXPECT_THAT(std::string(live.status().message()), HasSubstr("expected"));
  }
}

TEST(LiveAfter, EqualsASetThatIsKept) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Trace trace = testing::RandomTrace(seed).Make(300);
    std::set<std::uint32_t> live;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
      const TraceEvent& event = trace.events[i];
      if (event.kind == TraceEvent::Kind::kAllocate) live.insert(event.index);
      if (event.kind == TraceEvent::Kind::kFree) live.erase(event.index);
      ASSERT_EQ(*LiveAfter(trace, static_cast<std::int64_t>(i)),
                std::vector<std::uint32_t>(live.begin(), live.end()));
    }
  }
}

TEST(CollapsedStacks, SumsEachStackAndSortsThem) {
  TraceBuilder builder(TraceFormat::kNative);
  const TraceTag train = Frame(builder, 0, "train", "train.py", 7);
  const TraceTag forward = Frame(builder, train, "forward", "net.py");
  Allocate(builder, forward, "a", 1000);
  Allocate(builder, train, "b", 1);
  Allocate(builder, forward, "c", 512);
  Allocate(builder, 0, "d", 100);
  Allocate(builder, Frame(builder, 0, "activations"), "e", 2048);
  const Trace trace = builder.Build();
  EXPECT_EQ(AllStacks(trace, 512),
            "[no stack] 512\n"
            "activations 2048\n"
            "train (train.py:7) 512\n"
            "train (train.py:7);forward (net.py) 1536\n");
  EXPECT_EQ(CollapsedStacks(trace, {3}, 1), "[no stack] 100\n");
  EXPECT_EQ(CollapsedStacks(trace, {}, 1), "");
}

TEST(CollapsedStacks, ReplacesWhatWouldEndAFrameOrALine) {
  TraceBuilder builder(TraceFormat::kNative);
  Allocate(builder, Frame(builder, 0, "a;b\nc\x1b[31m\x7f", "f;\r.py", 1), "1", 1);
  Allocate(builder, Frame(builder, 0, "\xff\xc3(\xed\xa0\x80", ""), "2", 1);
  Allocate(builder, Frame(builder, 0, "\xc2\x85 \xc3\xa9 \xf0\x9f\x8c\x8a", ""), "3", 1);
  Allocate(builder, Frame(builder, 0, "", "unnamed.py", 3), "4", 1);
  // Bidirectional controls and a byte order mark.
  Allocate(builder, Frame(builder, 0, "x\u202ey\u2066z\ufeff", ""), "5", 1);
  EXPECT_EQ(AllStacks(builder.Build(), 1),
            "  \xc3\xa9 \xf0\x9f\x8c\x8a 1\n"
            "?\?(??? 1\n"
            "[unnamed] (unnamed.py:3) 1\n"
            "a,b c [31m  (f, .py:1) 1\n"
            "x y z  1\n");
}

TEST(CollapsedStacks, JoinsStacksThatReadTheSame) {
  TraceBuilder builder(TraceFormat::kNative);
  Allocate(builder, Frame(builder, 0, "a;b"), "1", 10);
  Allocate(builder, Frame(builder, 0, "a,b"), "2", 20);
  EXPECT_EQ(AllStacks(builder.Build(), 1), "a,b 30\n");
}

TEST(CollapsedStacks, AddUpToWhatIsLiveAtThePeak) {
  int stacks = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Trace trace = testing::RandomTrace(seed).Make(400);
    const auto load = MeasureLoad(trace, 512);
    if (!load.ok()) continue;  // more than an arena can address
    const auto live = LiveAfter(trace, load->peak_event);
    std::int64_t sum = 0;
    const std::string lines = CollapsedStacks(trace, *live, 512);
    std::vector<std::string> seen;
    for (const auto line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      std::int64_t bytes = 0;
      ASSERT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &bytes)) << line;
      sum += bytes;
      seen.emplace_back(line.substr(0, line.rfind(' ')));
    }
    EXPECT_EQ(sum, load->peak_live_bytes);
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
    stacks += static_cast<int>(seen.size());
  }
  EXPECT_GT(stacks, 100);
}

}  // namespace
}  // namespace tidepool
