// PyTorch's profiler traces: what is read of them, what is wrong with them, and that what is
// written for viewers is read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lib/trace/format.h"
#include "lib/trace/json_number.h"
#include "tests/support/random_trace.h"
#include "tests/support/shared_files.h"
#include "tidepool/trace.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Kind = TraceEvent::Kind;
using Lines = std::vector<std::string>;

// "outer/file.py:3:inner"
std::string StackText(const Trace& trace, TraceTag tag) {
  std::string text;
  for (; tag != 0; tag = trace.frames[tag - 1].caller) {
    const TraceFrame& frame = trace.frames[tag - 1];
    const std::string_view file = trace.frame_texts[frame.file];
    std::string name(trace.frame_texts[frame.name]);
    if (!file.empty()) name = absl::StrCat(std::string(file), ":", frame.line, ":", name);
    text = absl::StrCat(name, text.empty() ? "" : "/", text);
  }
  return text;
}

// One line an event: "TIME THREAD what".
Lines Dump(const Trace& trace) {
  Lines lines;
  for (const TraceEvent& event : trace.events) {
    std::string line =
        absl::StrCat(event.time, " ", std::string(trace.thread_names[event.thread]), " ");
    const auto request = [&](const TraceAllocation& allocation) {
      absl::StrAppend(&line, allocation.bytes, " ", StackText(trace, allocation.tag));
    };
    switch (event.kind) {
      case Kind::kAllocate:
        absl::StrAppend(&line, "a ", std::string(trace.allocation_ids[event.index]), " ");
        request(trace.allocations[event.index]);
        break;
      case Kind::kFree:
        absl::StrAppend(&line, "f ", std::string(trace.allocation_ids[event.index]));
        break;
      case Kind::kMark:
        absl::StrAppend(&line, "m ", std::string(trace.mark_names[event.index]));
        break;
      case Kind::kMarkEnd:
        absl::StrAppend(&line, "e ", std::string(trace.mark_names[event.index]));
        break;
      case Kind::kFailure:
        line += "o ";
        request(trace.failures[event.index]);
        break;
      case Kind::kReserve:
        absl::StrAppend(&line, "r ", trace.reservations[event.index].bytes);
        break;
      case Kind::kWait:
        line += "w";
    }
    lines.push_back(line);
  }
  return lines;
}

Lines DumpOf(const std::string& contents, const ReadOptions& options = {}) {
  const auto trace = ParseTrace(contents, "test.json", options);
  EXPECT_TRUE(trace.ok()) << trace.status() << "\n" << contents;
  return trace.ok() ? Dump(*trace) : Lines{};
}

std::string ErrorOf(const std::string& contents, const ReadOptions& options = {}) {
  const auto trace = ParseTrace(contents, "test.json", options);
  EXPECT_FALSE(trace.ok()) << contents;
  if (trace.ok()) return "";
  const std::string message(trace.status().message());
  EXPECT_THAT(message, HasSubstr("expected"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

std::string File(const Lines& events) {
  return absl::StrCat("{\"traceEvents\":[\n", absl::StrJoin(events, ",\n"), "\n]}\n");
}

std::string MemoryEvent(const std::string& time, const std::string& bytes,
                        const std::string& address, const std::string& more = "") {
  return absl::StrCat(R"({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,)",
                      R"("tid":2,"ts":)", time, R"(,"args":{"Bytes":)", bytes, R"(,"Addr":)",
                      address, R"(,"Device Id":0,"Device Type":1)", more, "}}");
}

std::string Span(const std::string& category, const std::string& name, int time, int duration) {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name,
                      R"(","pid":1,"tid":2,"ts":)", time, ",\"dur\":", duration,
                      R"(,"args":{"Ev Idx":1}})");
}

// As Kineto writes it, with what is of no interest around.
const char* const kSample = R"json({
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "H100", "totalGlobalMem": 84942979072}],
  "traceEvents": [
  {
    "name": "process_name", "ph": "M", "ts": 100, "pid": 6504, "tid": 0,
    "args": {"name": "python"}
  },
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 6504, "tid": 6569,
    "ts": 100.000, "dur": 50.5, "args": {"External id": 1}
  },
  {
    "ph": "X", "cat": "python_function", "name": "train.py(12): step", "pid": 6504, "tid": 6569,
    "ts": 101, "dur": 40, "args": {"Python id": 1, "Python parent id": null}
  },
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 6504, "tid": 6569,
    "ts": 102.125, "dur": 2, "args": {"Input Dims": [[2, 3], []], "Concrete Inputs": ["", "[1]"]}
  },
  {
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 6504, "tid": 6569,
    "ts": 103.250,
    "args": {
      "Total Reserved": 2097152, "Total Allocated": 512, "Bytes": 512, "Addr": 139637976727552,
      "Device Id": 0, "Device Type": 1, "Ev Idx": 5
    }
  },
  {
    "ph": "X", "cat": "kernel", "name": "void f<int>()", "pid": 0, "tid": 7,
    "ts": 103, "dur": 9, "args": {"stream": 7, "grid": [1, 1, 1]}
  },
  {
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 6504, "tid": 6569,
    "ts": 110.001,
    "args": {
      "Total Reserved": 0, "Total Allocated": 0, "Bytes": 64, "Addr": 4096,
      "Device Id": -1, "Device Type": 0, "Ev Idx": 6
    }
  },
  {
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 6504, "tid": 6569,
    "ts": 120,
    "args": {
      "Total Reserved": 1048576, "Total Allocated": 0, "Bytes": -512, "Addr": 139637976727552,
      "Device Id": 0, "Device Type": 1, "Ev Idx": 7
    }
  },
  {
    "name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 200
  }
  ],
  "traceName": "trace.json"
}
)json";

TEST(ChromeTrace, IsReadAsTheProfilerWritesIt) {
  const auto trace = ParseTrace(kSample, "test.json");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format, TraceFormat::kChromeTrace);
  EXPECT_EQ(trace->device, 0);
  EXPECT_THAT(trace->devices, ElementsAre(-1, 0));
  EXPECT_THAT(Dump(*trace), ElementsAre("100000 6569 m ProfilerStep#3", "103250 6569 r 2097152",
                                        "103250 6569 a 0x7f0000000000 512 "
                                        "ProfilerStep#3/train.py:12:step/aten::empty",
                                        "120000 6569 r -1048576", "120000 6569 f 0x7f0000000000",
                                        "150500 6569 e ProfilerStep#3"));
}

TEST(ChromeTrace, HasTheDeviceThatIsAskedFor) {
  EXPECT_THAT(DumpOf(kSample, {.device = -1}),
              ElementsAre("100000 6569 m ProfilerStep#3",
                          "110001 6569 a 0x1000 64 ProfilerStep#3/train.py:12:step",
                          "150500 6569 e ProfilerStep#3"));
  EXPECT_THAT(DumpOf(kSample, {.device = 0}), ::testing::SizeIs(6));
  EXPECT_THAT(ErrorOf(kSample, {.device = 3}),
              AllOf(StartsWith("test.json:0: nothing of device 3"), HasSubstr("-1, 0")));
  // Without a GPU the host it is, whatever number it has.
  const std::string host = absl::StrReplaceAll(File({MemoryEvent("1", "5", "6")}),
                                               {{"\"Device Type\":1", "\"Device Type\":0"}});
  EXPECT_EQ(ParseTrace(host, "test.json")->device, -1);
  // The first GPU that has events.
  const std::string third = absl::StrReplaceAll(File({MemoryEvent("1", "5", "6")}),
                                                {{"\"Device Id\":0", "\"Device Id\":3"}});
  EXPECT_EQ(ParseTrace(third, "test.json")->device, 3);
}

TEST(ChromeTrace, IsAnObjectOrAnArrayBehindWhiteSpaceOrAMark) {
  const std::string event = MemoryEvent("1", "5", "6");
  const Lines expected = {"1000 2 a 0x6 5 "};
  EXPECT_EQ(DumpOf("[" + event + "]"), expected);
  EXPECT_EQ(DumpOf(" \r\n\t[" + event + "] \n"), expected);
  EXPECT_EQ(DumpOf("\xef\xbb\xbf[" + event + "]"), expected);
  EXPECT_EQ(DumpOf("\xef\xbb\xbf\n{\"a\":{\"traceEvents\":[1]},\"traceEvents\":[" + event + "]}"),
            expected);
  // Other values among the events, and what the file says of itself, are of no interest.
  EXPECT_EQ(DumpOf("[1,null,\"x\",[[]],{}," + event + ",{\"ph\":7},{\"ph\":\"XX\"}]"), expected);
  EXPECT_EQ(DumpOf("{\"traceEvents\":[" + event + "],\"stackFrames\":[],\"x\":[{\"ts\":{}}]}"),
            expected);
}

TEST(ChromeTrace, KnowsKeysByNameWhateverTheirOrderAndSpelling) {
  EXPECT_THAT(DumpOf(R"([{"args":{"Device Type":1,"Addr":6,"Device Id":0,"By\u0074es":5},"ts":1,)"
                     R"("na\u006de":"[mem\u006fry]","ph":"i"}])"),
              ElementsAre("1000  a 0x6 5 "));
}

TEST(ChromeTrace, IsSortedByTimeAndThenByPlace) {
  EXPECT_THAT(
      DumpOf(File({MemoryEvent("30", "7", "1"), MemoryEvent("20", "-5", "1"),
                   MemoryEvent("10.5", "5", "1"), MemoryEvent("20", "6", "2")})),
      ElementsAre("10500 2 a 0x1 5 ", "20000 2 f 0x1", "20000 2 a 0x2 6 ", "30000 2 a 0x1 7 "));
}

TEST(ChromeTrace, BeginsAndEndsAnywhere) {
  const std::string file =
      File({MemoryEvent("1", "-5", "1"), MemoryEvent("2", "0", "7"), MemoryEvent("3", "8", "2"),
            MemoryEvent("4", "9", "2"), MemoryEvent("5", "-9", "2")});
  const auto trace = ParseTrace(file, "test.json");
  ASSERT_TRUE(trace.ok()) << trace.status();
  // What is allocated once more was freed without the profiler's knowledge.
  EXPECT_THAT(Dump(*trace),
              ElementsAre("3000 2 a 0x2 8 ", "4000 2 f 0x2", "4000 2 a 0x2 9 ", "5000 2 f 0x2"));
  EXPECT_EQ(trace->unmatched_frees, 2);
  EXPECT_EQ(trace->skipped_rows, 1);
}

TEST(ChromeTrace, HoldsFailures) {
  const std::string failure =
      R"({"ph":"i","name":"[OutOfMemory]","pid":1,"tid":2,"ts":3,"args":{"Bytes":70,)"
      R"("Total Allocated":1,"Total Reserved":9,"Device Id":0,"Device Type":1}})";
  EXPECT_THAT(DumpOf(File({Span("cpu_op", "f", 2, 4), failure})),
              ElementsAre("3000 2 r 9", "3000 2 o 70 f"));
}

TEST(ChromeTrace, KnowsWhatTheAllocatorReserved) {
  const auto reserved = [](const std::string& bytes) { return ",\"Total Reserved\":" + bytes; };
  EXPECT_THAT(DumpOf(File({MemoryEvent("1", "5", "1", reserved("100")),
                           MemoryEvent("2", "5", "2", reserved("100")), MemoryEvent("3", "5", "3"),
                           MemoryEvent("4", "5", "4", reserved("-1")),
                           MemoryEvent("5", "0", "0", reserved("30")),
                           MemoryEvent("6", "-5", "1", reserved("0"))})),
              ElementsAre("1000 2 r 100", "1000 2 a 0x1 5 ", "2000 2 a 0x2 5 ", "3000 2 a 0x3 5 ",
                          "4000 2 a 0x4 5 ", "5000 2 r -70", "6000 2 r -30", "6000 2 f 0x1"));
}

TEST(ChromeTrace, NamesThreads) {
  const auto name = [](const std::string& pid, const std::string& args) {
    return absl::StrCat(R"({"ph":"M","name":"thread_name","tid":2,"pid":)", pid, ",\"args\":", args,
                        "}");
  };
  EXPECT_THAT(DumpOf(File({MemoryEvent("1", "5", "1"), name("1", R"({"name":"main"})"),
                           name("3", R"({"name":"other"})"), name("1", R"({"name":5})")})),
              ElementsAre("1000 main a 0x1 5 "));
  // Numbers and texts name the same.
  EXPECT_THAT(DumpOf(File({name("\"1\"", R"({"name":"main"})"), MemoryEvent("1", "5", "1")})),
              ElementsAre("1000 main a 0x1 5 "));
}

TEST(ChromeTrace, TellsSpansThatLieInEachOther) {
  const auto at = [](const std::string& time) { return MemoryEvent(time, "1", time); };
  const std::string other =
      absl::StrReplaceAll(Span("cpu_op", "elsewhere", 0, 99), {{"\"tid\":2", "\"tid\":3"}});
  EXPECT_THAT(
      DumpOf(File({other, Span("cpu_op", "b", 10, 10), Span("cpu_op", "a", 10, 30), at("9"),
                   at("10"), at("19"), at("20"), at("39"), at("40"), Span("Operator", "c", 18, 2),
                   Span("python_function", "<built-in f>", 38, 2),
                   Span("cuda_runtime", "not a caller", 0, 99), Span("cpu_op", "empty", 19, 0),
                   Span("cpu_op", "negative", 19, -5)})),
      ElementsAre("9000 2 a 0x9 1 ", "10000 2 a 0xa 1 a/b", "19000 2 a 0x13 1 a/b/c",
                  "20000 2 a 0x14 1 a", "39000 2 a 0x27 1 a/<built-in f>", "40000 2 a 0x28 1 "));
}

// Calls lie in each other. What overlaps all the time would make a new stack of all of it each
// time.
TEST(ChromeTrace, RefusesSpansThatAreNoCalls) {
  constexpr int kSpans = 2000;
  Lines events;
  for (int i = 0; i < kSpans; ++i) {
    events.push_back(Span("cpu_op", absl::StrCat("s", i), i, kSpans / 2));
    events.push_back(MemoryEvent(absl::StrCat(i, ".5"), "1", absl::StrCat(i + 1)));
  }
  EXPECT_THAT(ErrorOf(File(events)), HasSubstr("overlap all the time without lying in each other"));
}

TEST(ChromeTrace, TakesPythonFunctionsApart) {
  const auto stack_of = [](const std::string& name) {
    const auto trace = ParseTrace(
        File({Span("python_function", name, 0, 9), MemoryEvent("1", "1", "1")}), "test.json");
    EXPECT_TRUE(trace.ok());
    return StackText(*trace, trace->allocations[0].tag);
  };
  EXPECT_EQ(stack_of("a b.py(12): f"), "a b.py:12:f");
  EXPECT_EQ(stack_of("/x (1)/y.py(3): <lambda>"), "/x (1)/y.py:3:<lambda>");
  for (const std::string name : {"a.py(x): f", "a.py(-1): f", "(1): f", "a.py(1): ", "a.py(1):f",
                                 "a.py(99999999999): f", "): ", "nn.Module: Linear_0"}) {
    EXPECT_EQ(stack_of(name), name);
  }
}

TEST(ChromeTrace, TakesSpansThatReachBeyondAllTime) {
  const std::string far = absl::StrReplaceAll(Span("cpu_op", "far", 0, 7),
                                              {{"\"dur\":7", "\"dur\":9223372036854775.807"}});
  EXPECT_THAT(
      DumpOf(File({absl::StrReplaceAll(far, {{"\"ts\":0", "\"ts\":5"}}),
                   absl::StrReplaceAll(far, {{"\"ts\":0", "\"ts\":-9e15"}}),
                   MemoryEvent("-8e15", "1", "1"), MemoryEvent("8e15", "1", "2")})),
      ElementsAre("-8000000000000000000 2 a 0x1 1 far", "8000000000000000000 2 a 0x2 1 far"));
}

TEST(ChromeTrace, KnowsNoRoundingOfTimesAndAddresses) {
  const auto trace = ParseTrace(
      File({MemoryEvent("9223372036854775.807", "1", "18446744073709551615"),
            MemoryEvent("1724696104648464.123", "1", "-2"), MemoryEvent("-0.001", "1", "3"),
            MemoryEvent("1.7246961046484641e15", "1", "4"), MemoryEvent("0.0004999", "1", "0")}),
      "test.json");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(Dump(*trace),
              ElementsAre("-1 2 a 0x3 1 ", "0 2 a 0x0 1 ", "1724696104648464100 2 a 0x4 1 ",
                          "1724696104648464123 2 a 0xfffffffffffffffe 1 ",
                          "9223372036854775807 2 a 0xffffffffffffffff 1 "));
}

TEST(ChromeTrace, ListsStacks) {
  const auto with_stack = [](const std::string& frames, const std::string& stack) {
    const std::string event = MemoryEvent("1", "5", "1");
    return absl::StrCat("{\"stackFrames\":", frames, ",\"traceEvents\":[",
                        event.substr(0, event.size() - 1), ",\"sf\":", stack, "}]}");
  };
  const std::string frames =
      R"({"1":{"name":"main","file":"a.py","line":3},"x":{"name":"f","parent":1,"category":{}}})";
  EXPECT_THAT(DumpOf(with_stack(frames, "\"x\"")), ElementsAre("1000 2 a 0x1 5 a.py:3:main/f"));
  EXPECT_THAT(DumpOf(with_stack(frames, "1")), ElementsAre("1000 2 a 0x1 5 a.py:3:main"));
  EXPECT_THAT(DumpOf(with_stack(frames, "7")), ElementsAre("1000 2 a 0x1 5 "));
  EXPECT_THAT(ErrorOf(with_stack(R"({"1":{"name":"f","parent":"1"}})", "1")),
              StartsWith("test.json:0: stackFrames that call each other"));
  EXPECT_THAT(ErrorOf(with_stack(R"({"1":{"line":-3}})", "1")), StartsWith("test.json:1: 'line'"));
  EXPECT_THAT(ErrorOf(with_stack(R"({"1":{"name":"f","name":"g"}})", "1")), HasSubstr("twice"));
}

TEST(ChromeTrace, IsOfOneProcessAndOneKindOfGpu) {
  const std::string event = MemoryEvent("1", "5", "1");
  EXPECT_THAT(ErrorOf(File({event, absl::StrReplaceAll(event, {{"\"pid\":1", "\"pid\":7"}})})),
              AllOf(StartsWith("test.json:0: "), HasSubstr("processes '1' and '7'")));
  EXPECT_THAT(ErrorOf(File({event, absl::StrReplaceAll(event, {{"Type\":1", "Type\":12"}})})),
              StartsWith("test.json:3: 'Device Type' is 12, expected 1"));
}

TEST(ChromeTrace, NamesTheLineAndTheKeyThatIsWrong) {
  struct Wrong {
    std::string from;
    std::string to;
    std::string error;
  };
  const std::string memory = MemoryEvent("4", "5", "6", ",\"Total Reserved\":8");
  const std::vector<Wrong> wrongs = {
      {"\"Bytes\":5", "\"Bytes\":\"5\"", "'Bytes' is the text '5', expected a whole number"},
      {"\"Bytes\":5", "\"Bytes\":5.0", "'Bytes' is 5.0, expected a whole number"},
      {"\"Bytes\":5", "\"Bytes\":9223372036854775808", "'Bytes' is 9223372036854775808"},
      {"\"Bytes\":5", "\"Bytes\":1125899906842625", "'Bytes' is 1125899906842625"},
      {"\"Bytes\":5", "\"Bytes\":-1125899906842625", "'Bytes' is -1125899906842625"},
      {"\"Bytes\":5", "\"Bytes\":null", "'Bytes' is no text and no number"},
      {"\"Bytes\":5", "\"Bytes\":{}", "'Bytes' is an object"},
      {"\"Bytes\":5", "\"Bytes\":[5]", "'Bytes' is no text and no number"},
      {"\"Bytes\":5,", "", "'Bytes' is missing"},
      {"\"Bytes\":5", "\"Bytes\":5,\"Bytes\":5", "'Bytes' is in an event twice"},
      {"\"Addr\":6", "\"Addr\":\"0x6\"", "'Addr' is the text '0x6'"},
      {"\"Addr\":6", "\"Addr\":18446744073709551616", "'Addr' is 18446744073709551616"},
      {"\"Addr\":6", "\"Addr\":6e2", "'Addr' is 6e2"},
      {"\"Addr\":6,", "", "'Addr' is missing"},
      {"\"Device Id\":0,", "", "'Device Id' is missing"},
      {"\"Device Id\":0", "\"Device Id\":-1", "'Device Id' is -1, expected a whole number from 0"},
      {"\"Device Id\":0", "\"Device Id\":2147483648", "'Device Id' is 2147483648"},
      {",\"Device Type\":1", "", "'Device Type' is missing"},
      {"\"Device Type\":1", "\"Device Type\":true", "'Device Type' is no text and no number"},
      {"\"Device Type\":1", "\"Device Type\":-1", "'Device Type' is -1"},
      {"\"Total Reserved\":8", "\"Total Reserved\":\"8\"", "'Total Reserved' is the text '8'"},
      {"\"Total Reserved\":8", "\"Stream\":8", "'Stream' is 8, expected a text"},
      {"\"Total Reserved\":8", "\"Hint\":\"low\"", "'Hint' is the text 'low', expected 'high'"},
      {"\"Total Reserved\":8", "\"Id\":[]", "'Id' is no text and no number, expected a text"},
      {"\"ts\":4", "\"ts\":\"4\"", "'ts' is the text '4', expected a number of microseconds"},
      {"\"ts\":4", "\"ts\":9223372036854775.808", "'ts' is 9223372036854775.808"},
      {"\"ts\":4", "\"ts\":1e300", "'ts' is 1e300"},
      {"\"ts\":4,", "", "'ts' is missing"},
      {"\"ts\":4", "\"ts\":4,\"ts\":4", "'ts' is in an event twice"},
      {"\"args\":{", "\"args\":7,\"no\":{", "'args' is 7, expected an object"},
      {"\"ts\":4", "\"ts\":NaN", "broken JSON (Invalid value.)"},
      {"\"ts\":4", "\"ts\":Infinity", "broken JSON (Invalid value.)"},
      {"\"ts\":4", "\"ts\":-Infinity", "broken JSON (Invalid value.)"},
      {"\"ts\":4", "\"ts\":1e400", "broken JSON"},
      {"\"ts\":4", "\"ts\":04", "broken JSON"},
      {"\"ts\":4", "\"ts\":", "broken JSON"},
      {"\"ts\":4", "'ts':4", "broken JSON"},
      {"\"ts\":4,", "\"ts\":4,,", "broken JSON"},
      {"[memory]", "[mem\x01ory]", "broken JSON"},
      {"[memory]", "[mem\\xory]", "broken JSON"},
  };
  for (const Wrong& wrong : wrongs) {
    ASSERT_NE(memory.find(wrong.from), std::string::npos) << wrong.from;
    const std::string changed = absl::StrReplaceAll(memory, {{wrong.from, wrong.to}});
    // Two events before it, one of them on two lines.
    EXPECT_THAT(ErrorOf(File({"{\"x\":\n1}", MemoryEvent("1", "1", "1"), changed})),
                StartsWith("test.json:5: " + wrong.error))
        << wrong.to;
    // Nobody minds in an event that nobody wants.
    if (wrong.error.starts_with("'")) {
      const std::string unused = absl::StrReplaceAll(changed, {{"[memory]", "[else]"}});
      EXPECT_THAT(DumpOf(File({unused, MemoryEvent("1", "1", "1")})), ::testing::SizeIs(1));
    }
  }
}

TEST(ChromeTrace, NamesWhatIsWrongWithSpansMarksAndFailures) {
  const std::string memory = MemoryEvent("1", "1", "1");
  const auto error = [&](const std::string& event) { return ErrorOf(File({memory, event})); };
  EXPECT_THAT(error(R"({"ph":"X","cat":"cpu_op","name":"f","ts":1})"),
              StartsWith("test.json:3: 'dur' is missing"));
  EXPECT_THAT(error(R"({"ph":"X","cat":"cpu_op","name":"f","ts":[],"dur":2})"),
              StartsWith("test.json:3: 'ts' is no text"));
  EXPECT_THAT(error(R"({"ph":"X","cat":"cpu_op","name":4,"ts":1,"dur":2})"),
              StartsWith("test.json:3: 'name' is 4, expected a text"));
  EXPECT_THAT(error(R"({"ph":"X","cat":"cpu_op","name":"f","ts":1,"dur":2,"dur":2})"),
              StartsWith("test.json:3: 'dur' is in an event twice"));
  EXPECT_THAT(error(R"({"ph":"b","cat":"user_annotation","name":4,"ts":1})"),
              StartsWith("test.json:3: 'name' is 4"));
  EXPECT_THAT(error(R"({"ph":"e","cat":"user_annotation","name":"x"})"),
              StartsWith("test.json:3: 'ts' is missing"));
  EXPECT_THAT(error(R"({"ph":"i","name":"[OutOfMemory]","ts":1,"args":{"Bytes":-1,"Device Id":0,)"
                    R"("Device Type":1}})"),
              StartsWith("test.json:3: 'Bytes' is -1"));
}

TEST(ChromeTrace, IsATraceWithMemoryInIt) {
  EXPECT_THAT(ErrorOf("{}"), StartsWith("test.json:0: no traceEvents"));
  EXPECT_THAT(ErrorOf("{\"a\":[1]}"), StartsWith("test.json:0: no traceEvents"));
  EXPECT_THAT(ErrorOf("{\"traceEvents\":[],\n\"traceEvents\":[]}"),
              StartsWith("test.json:2: traceEvents is there twice"));
  for (const std::string value : {"{}", "5", "\"x\"", "null", "true"}) {
    EXPECT_THAT(ErrorOf("{\n\"traceEvents\":" + value + "}"),
                StartsWith("test.json:2: traceEvents is "));
  }
  for (const std::string& file : {std::string("[]"), File({}), File({Span("cpu_op", "f", 1, 2)})}) {
    EXPECT_THAT(ErrorOf(file), AllOf(StartsWith("test.json:0: no [memory] events"),
                                     HasSubstr("profile_memory=True")));
  }
  EXPECT_THAT(ErrorOf(File({MemoryEvent("1", "-5", "1")})),
              StartsWith("test.json:0: no allocations on device 0"));
  EXPECT_THAT(ErrorOf("[" + MemoryEvent("1", "1", "1") + "]\n]"),
              StartsWith("test.json:2: broken JSON"));
  EXPECT_THAT(ErrorOf("[" + MemoryEvent("1", "1", "1") + "]\n" + std::string(1, '\0')),
              StartsWith("test.json:2: broken JSON"));
  EXPECT_THAT(ErrorOf(std::string("[\n\0]", 4)), StartsWith("test.json:2: broken JSON"));
}

TEST(ChromeTrace, NestsABoundedNumberOfTimes) {
  const auto nested = [](int deep, const std::string& open, const std::string& close) {
    std::string text = "{\n\"traceEvents\":[" + MemoryEvent("1", "1", "1") + "],\"x\":";
    for (int i = 0; i < deep; ++i) text += open;
    text += "1";
    for (int i = 0; i < deep; ++i) text += close;
    return text + "}";
  };
  EXPECT_THAT(DumpOf(nested(999, "[", "]")), ::testing::SizeIs(1));
  EXPECT_THAT(DumpOf(nested(999, "{\"\":", "}")), ::testing::SizeIs(1));
  for (const int deep : {1000, 1'000'000}) {
    EXPECT_THAT(ErrorOf(nested(deep, "[", "]")),
                StartsWith("test.json:2: values in each other more than 1000 deep"));
    EXPECT_THAT(ErrorOf(nested(deep, "{\"\":", "}")), HasSubstr("1000 deep"));
  }
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')), HasSubstr("1000 deep"));
}

TEST(ChromeTrace, HoldsTextsOfABoundedLength) {
  const auto with_text = [](std::size_t size) {
    return "[\"" + std::string(size, 'x') + "\"," + MemoryEvent("1", "1", "1") + "]";
  };
  EXPECT_THAT(DumpOf(with_text(1 << 20)), ::testing::SizeIs(1));
  EXPECT_THAT(ErrorOf(with_text(17 << 20)),
              StartsWith("test.json:1: a text or number that is longer"));
}

TEST(ChromeTrace, KnowsItsLineInLongFiles) {
  Lines events;
  for (int i = 0; i < 20'000; ++i) {
    events.push_back(MemoryEvent(absl::StrCat(i), i % 2 == 0 ? "5" : "-5", "1"));
  }
  EXPECT_THAT(DumpOf(File(events)), ::testing::SizeIs(20'000));
  events.push_back(MemoryEvent("1", "x", "1"));
  EXPECT_THAT(ErrorOf(File(events)), StartsWith("test.json:20002: broken JSON"));
  events.back() = MemoryEvent("1", "\n[]", "1");
  EXPECT_THAT(ErrorOf(File(events)), StartsWith("test.json:20002: 'Bytes'"));
}

// All of its bytes but white space at the end are needed.
TEST(ChromeTrace, SurvivesACutAtEveryByte) {
  const std::string whole = kSample;
  const std::size_t end = whole.find_last_of('}');
  for (std::size_t length = 1; length <= end; ++length) {
    const std::string cut = whole.substr(0, length);
    const auto lines = 1 + std::count(cut.begin(), cut.end(), '\n');
    EXPECT_THAT(ErrorOf(cut), StartsWith(absl::StrCat("test.json:", lines, ": ")));
  }
  EXPECT_EQ(DumpOf(whole.substr(0, end + 1)), DumpOf(whole));
}

TEST(ChromeTrace, SurvivesAnyChangedByte) {
  const std::string whole = kSample;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char byte : {'\0', '\n', ',', '"', '-', '9', '{', ']', '\\', '\xff'}) {
      std::string changed = whole;
      changed[i] = byte;
      const auto trace = ParseTrace(changed, "test.json");
      if (!trace.ok()) {
        EXPECT_THAT(std::string(trace.status().message()), HasSubstr("expected"));
      }
    }
  }
}

TEST(JsonNumber, IsADecimalFractionOfAnyForm) {
  const auto thousandths = [](const std::string& text) {
    std::int64_t value = -12345;
    return internal::ParseThousandths(text, INT64_MAX, &value) ? absl::StrCat(value)
                                                               : std::string("no");
  };
  EXPECT_EQ(thousandths("0"), "0");
  EXPECT_EQ(thousandths("-0"), "0");
  EXPECT_EQ(thousandths("12.3456"), "12346");
  EXPECT_EQ(thousandths("12.3454"), "12345");
  EXPECT_EQ(thousandths("-12.3455"), "-12346");
  EXPECT_EQ(thousandths("0.0005"), "1");
  EXPECT_EQ(thousandths("9e-4"), "1");
  EXPECT_EQ(thousandths("4e-4"), "0");
  EXPECT_EQ(thousandths("5e-5"), "0");
  EXPECT_EQ(thousandths("1E+2"), "100000");
  EXPECT_EQ(thousandths("1.5e1"), "15000");
  EXPECT_EQ(thousandths("0e99999999999999999999"), "0");
  EXPECT_EQ(thousandths("1e99999999999999999999"), "no");
  EXPECT_EQ(thousandths("1e-99999999999999999999"), "0");
  EXPECT_EQ(thousandths("9223372036854775.8074"), "9223372036854775807");
  EXPECT_EQ(thousandths("9223372036854775.8075"), "no");
  EXPECT_EQ(thousandths("0.00000000000009223372036854775807e29"), "9223372036854775807");
}

// Random profiler traces as text, with everything in any order.
class RandomProfile {
 public:
  explicit RandomProfile(std::uint64_t seed) : random_(seed) {}

  std::string Make() {
    Lines events;
    const int count = static_cast<int>(Below(60)) + 1;
    for (int i = 0; i < count; ++i) events.push_back(Event());
    events.push_back(Instant("[memory]", "8"));  // so that there is a trace
    std::shuffle(events.begin(), events.end(), random_);
    const std::string text = absl::StrCat("[", absl::StrJoin(events, Space() + "," + Space()), "]");
    return Below(3) == 0 ? text
                         : absl::StrCat("{\"a\":[{}],", Space(), "\"traceEvents\":", text, "}");
  }

 private:
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  std::string Space() { return std::string(Below(3), Below(2) == 0 ? ' ' : '\n'); }
  std::string Time(std::uint64_t limit) {
    return absl::StrCat(Below(limit), Below(2) == 0 ? "" : absl::StrCat(".", Below(1000)));
  }

  std::string Object(Lines members) {
    std::shuffle(members.begin(), members.end(), random_);
    return absl::StrCat("{", Space(), absl::StrJoin(members, "," + Space()), "}");
  }

  Lines Common(const std::string& phase) {
    return {absl::StrCat("\"ph\":\"", phase, "\""), "\"pid\":5", absl::StrCat("\"tid\":", Below(3)),
            absl::StrCat("\"ts\":", Time(100))};
  }

  std::string Instant(const std::string& name, const std::string& bytes) {
    Lines args = {absl::StrCat("\"Bytes\":", bytes), absl::StrCat("\"Addr\":", Below(6)),
                  "\"Ev Idx\":1"};
    const std::uint64_t device = Below(3);
    args.push_back(absl::StrCat("\"Device Type\":", device == 0 ? 0 : 1));
    args.push_back(absl::StrCat("\"Device Id\":", device == 0 ? -1 : static_cast<int>(device)));
    if (Below(2) == 0) args.push_back(absl::StrCat("\"Total Reserved\":", Below(4) * 100));
    Lines members = Common("i");
    members.push_back(absl::StrCat("\"name\":\"", name, "\""));
    members.push_back("\"args\":" + Object(args));
    return Object(members);
  }

  std::string SpanEvent() {
    static constexpr const char* kCategories[] = {"cpu_op", "python_function", "user_annotation",
                                                  "kernel"};
    static constexpr const char* kNames[] = {"f", "g", "a.py(3): f", "h \\\"x\\\" \\u00e9"};
    Lines members = Common("X");
    members.push_back(absl::StrCat("\"cat\":\"", kCategories[Below(4)], "\""));
    members.push_back(absl::StrCat("\"name\":\"", kNames[Below(4)], "\""));
    members.push_back("\"dur\":" + Time(Below(2) == 0 ? 10 : 60));
    return Object(members);
  }

  std::string Event() {
    switch (Below(8)) {
      case 0:
        return Instant("[OutOfMemory]", absl::StrCat(Below(50)));
      case 1:
        return Instant("[memory]", "0");
      case 2:
        return Instant("[memory]", absl::StrCat("-", Below(50) + 1));
      case 3:
      case 4:
        return Instant("[memory]", absl::StrCat(Below(50) + 1));
      case 5:
        return Object({"\"ph\":\"M\"", "\"name\":\"thread_name\"", "\"pid\":5",
                       absl::StrCat("\"tid\":", Below(3)), "\"args\":{\"name\":\"t\"}"});
      default:
        return SpanEvent();
    }
  }

  std::mt19937_64 random_;
};

// What the reader is to do, by the whole document and a scan of it for each question.
class SlowReader {
 public:
  explicit SlowReader(const std::string& text) : document_(nlohmann::json::parse(text)) {
    events_ = document_.is_array() ? document_ : document_["traceEvents"];
  }

  std::set<int> Devices() const {
    std::set<int> devices;
    for (const auto& event : events_) {
      if (IsInstant(event)) devices.insert(DeviceOf(event));
    }
    return devices;
  }

  Lines Read(int device) {
    struct Item {
      std::int64_t time;
      std::string what;
      const nlohmann::json* event;
    };
    std::vector<Item> items;
    for (const auto& event : events_) {
      if (IsInstant(event) && DeviceOf(event) == device) {
        items.push_back({TimeOf(event, "ts"), "", &event});
      } else if (event.value("cat", "") == "user_annotation") {
        const std::string name = event["name"];
        items.push_back({TimeOf(event, "ts"), "m " + name, &event});
        items.push_back({TimeOf(event, "ts") + TimeOf(event, "dur"), "e " + name, &event});
      }
    }
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.time < b.time; });
    for (const Item& item : items) {
      if (item.what.empty()) {
        AddInstant(*item.event);
      } else {
        Add(*item.event, item.time, item.what);
      }
    }
    return lines_;
  }

  int unmatched() const { return unmatched_; }
  int skipped() const { return skipped_; }

 private:
  using Json = nlohmann::json;

  static bool IsInstant(const Json& event) {
    const std::string name = event["name"];
    return name == "[memory]" || name == "[OutOfMemory]";
  }
  static int DeviceOf(const Json& event) {
    return event["args"]["Device Type"] == 0 ? -1 : event["args"]["Device Id"].get<int>();
  }
  static std::int64_t TimeOf(const Json& event, const char* key) {
    return std::llround(event[key].get<double>() * 1000);
  }

  void Add(const Json& event, std::int64_t time, const std::string& what) {
    std::string thread = event["tid"].dump();
    for (const auto& other : events_) {
      if (other["name"] == "thread_name" && other["tid"] == event["tid"]) thread = "t";
    }
    lines_.push_back(absl::StrCat(time, " ", thread, " ", what));
  }

  std::string Stack(const Json& event) const {
    std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> around;
    const std::int64_t time = TimeOf(event, "ts");
    for (const auto& span : events_) {
      const std::string category = span.value("cat", "kernel");
      if (category == "kernel" || span["tid"] != event["tid"]) continue;
      const std::int64_t begin = TimeOf(span, "ts");
      const std::int64_t duration = TimeOf(span, "dur");
      if (begin > time || time >= begin + duration) continue;
      const std::string name = span["name"];
      around.emplace_back(begin, -duration, name == "a.py(3): f" ? "a.py:3:f" : name);
    }
    std::stable_sort(around.begin(), around.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    return absl::StrJoin(around, "/", [](std::string* text, const auto& span) {
      absl::StrAppend(text, std::get<2>(span));
    });
  }

  void AddInstant(const Json& event) {
    const Json& args = event["args"];
    const std::int64_t time = TimeOf(event, "ts");
    const std::int64_t bytes = args["Bytes"];
    const std::string id = absl::StrCat("0x", absl::Hex(args["Addr"].get<std::uint64_t>()));
    const std::int64_t reserved = args.value("Total Reserved", reserved_);
    const std::int64_t change = reserved - std::exchange(reserved_, reserved);
    if (change != 0) Add(event, time, absl::StrCat("r ", change));
    const std::string request = absl::StrCat(bytes, " ", Stack(event));
    if (event["name"] == "[OutOfMemory]") return Add(event, time, "o " + request);
    if (bytes == 0) {
      skipped_ += change == 0 ? 1 : 0;
    } else if (bytes < 0 && live_.erase(id) == 0) {
      ++unmatched_;
    } else if (bytes < 0 || live_.contains(id)) {
      Add(event, time, "f " + id);
      unmatched_ += bytes > 0 ? 1 : 0;
    }
    if (bytes > 0) {
      live_.insert(id);
      Add(event, time, absl::StrCat("a ", id, " ", request));
    }
  }

  Json document_;
  Json events_;
  Lines lines_;
  std::set<std::string> live_;
  std::int64_t reserved_ = 0;
  int unmatched_ = 0;
  int skipped_ = 0;
};

TEST(ChromeTrace, IsReadAsASlowReaderReadsIt) {
  int read = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string text = RandomProfile(seed).Make();
    const std::set<int> devices = SlowReader(text).Devices();
    for (const int device : devices) {
      SlowReader slow(text);
      const Lines expected = slow.Read(device);
      const auto trace = ParseTrace(text, "test.json", {.device = device});
      const bool is_any = std::any_of(expected.begin(), expected.end(), [](const auto& line) {
        return line.find(" a ") != std::string::npos || line.find(" o ") != std::string::npos;
      });
      ASSERT_EQ(trace.ok(), is_any) << trace.status() << " seed " << seed << "\n" << text;
      if (!is_any) continue;
      ++read;
      ASSERT_EQ(Dump(*trace), expected) << "seed " << seed << "\n" << text;
      ASSERT_EQ(trace->unmatched_frees, slow.unmatched());
      ASSERT_EQ(trace->skipped_rows, slow.skipped());
      ASSERT_THAT(trace->devices, ::testing::ElementsAreArray(devices));
    }
  }
  EXPECT_GT(read, 2000);
}

std::string Written(const Trace& trace) {
  std::ostringstream out;
  EXPECT_TRUE(internal::WriteChromeTrace(trace, out).ok());
  return out.str();
}

// What a Chrome trace holds of a trace.
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
      case Kind::kWait:
        break;
    }
  }
  builder.SetDevices(trace.device, {trace.device});
  return builder.Build();
}

// By text: names are numbered as they come, and the original knows some that only waits have.
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
    // Once it is what the format holds, it stays as it is.
    const std::string twice = Written(*again);
    const auto third = ParseTrace(twice, "test.json");
    ASSERT_TRUE(third.ok());
    EXPECT_EQ(Details(*third), Details(*again));
    EXPECT_EQ(Written(*third), twice);
  }
}

// Asynchronous events of one category and id: pairs of a beginning and, later, an end.
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
{"ph":"b","pid":1,"ts":1.500,"tid":1,"cat":"allocation","id":1,"name":"f","args":{"bytes":10,"id":"0x200","stream":"7","hint":"high","stack":"train;f"}},
{"ph":"i","pid":1,"ts":1.500,"tid":1,"s":"t","cat":"cpu_instant_event","name":"[memory]","args":{"Bytes":10,"Addr":512,"Device Id":0,"Device Type":1,"Total Allocated":10,"Total Reserved":100,"Stream":"7","Hint":"high"},"sf":2},
{"ph":"C","pid":1,"ts":1.500,"name":"live","args":{"bytes":10}},
{"ph":"C","pid":1,"ts":1.500,"name":"reserved","args":{"bytes":100}},
{"ph":"i","pid":1,"ts":1.600,"tid":1,"s":"t","cat":"wait","name":"wait","args":{"stream":"7","for":"8"}},
{"ph":"e","pid":1,"ts":2,"tid":1,"cat":"user_annotation","name":"step","id":1},
{"ph":"i","pid":1,"ts":2,"tid":1,"cat":"user_annotation","name":"done","s":"p"},
{"ph":"e","pid":1,"ts":2,"cat":"allocation","id":1,"name":"f","args":{"freed":false}}
]}
)");
}

// Times that tell nothing are made up, so that there is something to see.
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

// Bytes that are no UTF-8 are replaced; ids that have some give way to addresses, all of them, so
// that no two become the same.
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
