// SPDX-License-Identifier: Apache-2.0
// Tests of the Chrome writer: viewers accept its output, and the reader reads it back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/trace/chrome/chrome_trace.h"
#include "tests/support/random_trace.h"
#include "tests/support/shared_files.h"
#include "tests/trace/profiles.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using testing::Dump;
using testing::DumpOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Lines;
using Kind = TraceEvent::Kind;

std::string Written(const Trace& trace) {
  std::ostringstream out;
  EXPECT_TRUE(chrome::WriteChromeTrace(trace, out).ok());
  return out.str();
}

// Returns the parts of a trace that a Chrome trace can hold.
Trace Holdable(const Trace& trace) {
  TraceBuilder builder(TraceFormat::kChromeTrace);
  const auto copy_tag = [&](TraceTag tag) {
    std::vector<TraceTag> stack;
    for (; tag != 0; tag = trace.frames[tag - 1].caller) stack.push_back(tag);
    TraceTag copy = 0;
    for (; !stack.empty(); stack.pop_back()) {
      const TraceFrame& frame = trace.frames[stack.back() - 1];
      copy = *builder.Frame(copy, trace.frame_texts[frame.name], trace.frame_texts[frame.file],
                            frame.line);
    }
    builder.SetTag(copy);
  };
  std::map<std::uint32_t, int> open_marks;
  std::int64_t time = -INT64_MAX;
  std::int64_t reserved = 0;
  const bool has_times = std::any_of(trace.events.begin(), trace.events.end(),
                                     [](const TraceEvent& event) { return event.time != 0; });
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    time = std::max(time, has_times ? event.time : static_cast<std::int64_t>(i) * 1000);
    builder.SetThread(trace.thread_names[event.thread]);
    const std::string_view stream =
        trace.stream_names.size() == 0 ? "" : trace.stream_names[event.stream];
    switch (event.kind) {
      case Kind::kAllocate: {
        const TraceAllocation& allocation = trace.allocations[event.index];
        copy_tag(allocation.tag);
        EXPECT_TRUE(builder
                        .Allocate(trace.allocation_ids[event.index], allocation.bytes,
                                  allocation.hint, stream, time)
                        .ok());
        break;
      }
      case Kind::kFree:
        EXPECT_TRUE(builder.Free(trace.allocation_ids[event.index], stream, time));
        break;
      case Kind::kMark:
        ++open_marks[event.index];
        builder.Mark(trace.mark_names[event.index], time);
        break;
      case Kind::kMarkEnd:
        if (open_marks[event.index] == 0) break;
        --open_marks[event.index];
        builder.MarkEnd(trace.mark_names[event.index], time);
        break;
      case Kind::kFailure: {
        const TraceAllocation& failure = trace.failures[event.index];
        copy_tag(failure.tag);
        EXPECT_TRUE(builder.Failure(failure.bytes, failure.hint, stream, time).ok());
        break;
      }
      case Kind::kReserve: {
        const std::int64_t bytes = trace.reservations[event.index].bytes;
        const std::int64_t total =
            bytes > INT64_MAX - reserved ? INT64_MAX : std::max<std::int64_t>(0, reserved + bytes);
        const std::int64_t change = total - std::exchange(reserved, total);
        if (change == 0) break;
        EXPECT_TRUE(
            builder.Reserve({trace.reservations[event.index].address, change}, stream, time).ok());
        break;
      }
      case Kind::kPause:
      case Kind::kResume:
      case Kind::kWait:
        break;
    }
  }
  builder.SetDevices(trace.device, {trace.device});
  return builder.Build();
}

// Compares by text, because names are numbered by first use, and the original also numbers streams
// of waits.
Lines Details(const Trace& trace) {
  Lines lines = Dump(trace);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == Kind::kMark || event.kind == Kind::kMarkEnd) continue;
    absl::StrAppend(&lines[i], " on ", std::string(trace.stream_names[event.stream]));
    if (event.kind == Kind::kReserve) {
      absl::StrAppend(&lines[i], " at ", trace.reservations[event.index].address);
    }
    const TraceAllocation* request = event.kind == Kind::kAllocate ? &trace.allocations[event.index]
                                     : event.kind == Kind::kFailure ? &trace.failures[event.index]
                                                                    : nullptr;
    if (request != nullptr && request->hint == Hint::kOffloadable) lines[i] += " high";
  }
  return lines;
}

TEST(ChromeTrace, IsReadAgainAsItWasWritten) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Trace trace = testing::RandomTrace(seed).Make(static_cast<int>(seed) + 1);
    if (trace.allocations.empty() && trace.failures.empty()) continue;
    const auto again = ParseTrace(Written(trace), "test.json");
    ASSERT_TRUE(again.ok()) << again.status() << " seed " << seed;
    const Trace expected = Holdable(trace);
    ASSERT_EQ(Details(*again), Details(expected)) << "seed " << seed;
    EXPECT_EQ(again->device, trace.device);
    EXPECT_EQ(again->unmatched_frees, 0);
    EXPECT_EQ(again->skipped_rows, 0);
    // A second conversion changes nothing.
    const std::string twice = Written(*again);
    const auto third = ParseTrace(twice, "test.json");
    ASSERT_TRUE(third.ok());
    EXPECT_EQ(Details(*third), Details(*again));
    EXPECT_EQ(Written(*third), twice);
  }
}

// Expects pairs of a begin and a later end among asynchronous events of one category and id.
void ExpectPairs(const nlohmann::json& events) {
  std::map<std::pair<std::string, int>, std::string> open;
  for (const auto& event : events) {
    if (event["ph"] != "b" && event["ph"] != "e") continue;
    const std::pair<std::string, int> key = {event["cat"], event["id"]};
    if (event["ph"] == "b") {
      EXPECT_TRUE(open.emplace(key, event["name"]).second) << event;
    } else {
      EXPECT_EQ(open[key], event["name"].get<std::string>()) << event;
      open.erase(key);
    }
  }
  EXPECT_THAT(open, IsEmpty());
}

TEST(ChromeTrace, IsWrittenForViewers) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Trace trace = testing::RandomTrace(seed).Make(200);
    const nlohmann::json document = nlohmann::json::parse(Written(trace));
    EXPECT_EQ(document["displayTimeUnit"], "ns");
    const nlohmann::json& events = document["traceEvents"];
    ExpectPairs(events);
    std::int64_t live = 0;
    std::int64_t counted = 0;
    double time = -1e300;
    std::size_t waits = 0;
    for (const auto& event : events) {
      if (event["ph"] == "M") continue;
      EXPECT_GE(event["ts"].get<double>(), time);
      time = event["ts"];
      if (event["name"] == "[memory]") live += event["args"]["Bytes"].get<std::int64_t>();
      if (event["ph"] == "C" && event["name"] == "live") counted = event["args"]["bytes"];
      waits += event["name"] == "wait" ? 1 : 0;
      if (event["ph"] != "C" && event.contains("tid")) {
        EXPECT_GE(event["tid"].get<int>(), 1);
      }
    }
    EXPECT_EQ(counted, live);
    EXPECT_EQ(waits, std::count_if(trace.events.begin(), trace.events.end(),
                                   [](const auto& event) { return event.kind == Kind::kWait; }));
  }
}

TEST(ChromeTrace, IsWrittenLikeThis) {
  TraceBuilder builder(TraceFormat::kNative);
  builder.SetThread("main");
  builder.Mark("step", 1000);
  builder.SetTag(*builder.Frame(*builder.Frame(0, "train", "a.py", 3), "f", "", 0));
  ASSERT_TRUE(builder.Reserve({4096, 100}, "", 1500).ok());
  ASSERT_TRUE(builder.Allocate("0x200", 10, Hint::kOffloadable, "7", 1500).ok());
  builder.Wait("7", "8", 1600);
  builder.MarkEnd("step", 2000);
  builder.Mark("done", 2000);
  const Trace trace = builder.Build();
  EXPECT_EQ(Written(trace), R"({"displayTimeUnit":"ns",
"stackFrames":{
"1":{"name":"train","file":"a.py","line":3},
"2":{"name":"f","parent":"1"}},
"traceEvents":[
{"ph":"M","name":"process_name","pid":1,"args":{"name":"memory of device 0"}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"main"}},
{"ph":"b","pid":1,"ts":1,"tid":1,"cat":"user_annotation","name":"step","id":1},
{"ph":"i","pid":1,"ts":1.500,"tid":1,"s":"t","cat":"cpu_instant_event","name":"[memory]","args":{"Bytes":0,"Addr":4096,"Device Id":0,"Device Type":1,"Total Allocated":0,"Total Reserved":100}},
{"ph":"b","pid":1,"ts":1.500,"tid":1,"cat":"allocation","id":1,"name":"train","args":{"bytes":10,"id":"0x200","stream":"7","hint":"high","stack":"train;f"}},
{"ph":"i","pid":1,"ts":1.500,"tid":1,"s":"t","cat":"cpu_instant_event","name":"[memory]","args":{"Bytes":10,"Addr":512,"Device Id":0,"Device Type":1,"Total Allocated":10,"Total Reserved":100,"Stream":"7","Hint":"high"},"sf":2},
{"ph":"C","pid":1,"ts":1.500,"name":"live","args":{"bytes":10}},
{"ph":"C","pid":1,"ts":1.500,"name":"reserved","args":{"bytes":100}},
{"ph":"i","pid":1,"ts":1.600,"tid":1,"s":"t","cat":"wait","name":"wait","args":{"stream":"7","for":"8"}},
{"ph":"e","pid":1,"ts":2,"tid":1,"cat":"user_annotation","name":"step","id":1},
{"ph":"i","pid":1,"ts":2,"tid":1,"cat":"user_annotation","name":"done","s":"p"},
{"ph":"e","pid":1,"ts":2,"cat":"allocation","id":1,"name":"train","args":{"freed":false}}
]}
)");
}

// A trace without times gets invented times, so that a viewer shows it.
TEST(ChromeTrace, ShowsTracesWithoutTimes) {
  TraceBuilder builder(TraceFormat::kOperationCsv);
  ASSERT_TRUE(builder.Allocate("x", 10, Hint::kResident, "", 0).ok());
  ASSERT_TRUE(builder.Allocate("y", 20, Hint::kResident, "", 0).ok());
  ASSERT_TRUE(builder.Free("x", "", 0));
  EXPECT_THAT(DumpOf(Written(builder.Build())),
              ElementsAre("0  a x 10 ", "1000  a y 20 ", "2000  f x"));
}

TEST(ChromeTrace, KeepsNamesThatJsonCanHold) {
  const std::string odd = "<b>&'\"\\/\n\t\x01\x7f \xc3\xa9 \xf0\x9f\x8c\x8a \xe2\x80\xa8</script>";
  TraceBuilder builder(TraceFormat::kNative);
  builder.SetThread(odd + "t");
  builder.SetTag(*builder.Frame(0, odd + "f", odd + "file", 1));
  builder.Mark(odd + "m", 1);
  ASSERT_TRUE(builder.Allocate(odd, 10, Hint::kResident, odd + "s", 2).ok());
  const Trace trace = builder.Build();
  const auto again = ParseTrace(Written(trace), "test.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Details(*again), Details(trace));
}

// Bytes outside UTF-8 are replaced. If ids have such bytes, all ids become addresses, so that no
// two become equal.
TEST(ChromeTrace, ReplacesWhatJsonCannotHold) {
  TraceBuilder builder(TraceFormat::kNative);
  builder.SetThread("t\xff");
  builder.Mark("m\xc3(\xed\xa0\x80\xf5", 1);
  ASSERT_TRUE(builder.Allocate("\xfe", 10, Hint::kResident, "\x80", 2).ok());
  ASSERT_TRUE(builder.Allocate("\xff", 20, Hint::kResident, "", 3).ok());
  ASSERT_TRUE(builder.Allocate("0x200", 30, Hint::kResident, "", 4).ok());
  ASSERT_TRUE(builder.Free("\xfe", "", 5));
  const std::string text = Written(builder.Build());
  EXPECT_TRUE(nlohmann::json::accept(text));
  const std::string r = "\xef\xbf\xbd";
  EXPECT_THAT(
      DumpOf(text),
      ElementsAre(absl::StrCat("1 t", r, " m m", r, "(", r, r, r, r),
                  absl::StrCat("2 t", r, " a 0x200 10 "), absl::StrCat("3 t", r, " a 0x400 20 "),
                  absl::StrCat("4 t", r, " a 0x600 30 "), absl::StrCat("5 t", r, " f 0x200")));
}

TEST(ChromeTrace, IsWrittenForTracesThatAreRead) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / absl::StrCat("tidepool-chrome-", getpid());
  std::filesystem::create_directories(folder);
  int traces = 0;
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".csv.gz")) {
    const auto trace = ReadTrace(path);
    ASSERT_TRUE(trace.ok()) << trace.status();
    const std::string copy = folder / "copy.json.gz";
    ASSERT_TRUE(WriteTrace(*trace, TraceFormat::kChromeTrace, copy).ok());
    const auto again = ReadTrace(copy);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(Details(*again), Details(Holdable(*trace))) << path;
    ++traces;
  }
  std::filesystem::remove_all(folder);
  EXPECT_GE(traces, 3);
}

}  // namespace
}  // namespace tidepool
