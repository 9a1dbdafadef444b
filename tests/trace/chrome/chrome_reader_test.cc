// SPDX-License-Identifier: Apache-2.0
// Tests of the reader of PyTorch's profiler traces, and of its errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/trace/profiles.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using testing::Dump;
using testing::DumpOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::File;
using ::testing::HasSubstr;
using testing::Lines;
using testing::MemoryEvent;
using testing::Span;
using testing::StackText;
using ::testing::StartsWith;

// Sample of the text that Kineto writes, with irrelevant fields and events in between.
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
              AllOf(StartsWith("test.json: device 3 is not in the file"), HasSubstr("-1, 0")));
  // Without events of a GPU, the device is the host, with any number.
  const std::string host = absl::StrReplaceAll(File({MemoryEvent("1", "5", "6")}),
                                               {{"\"Device Type\":1", "\"Device Type\":0"}});
  EXPECT_EQ(ParseTrace(host, "test.json")->device, -1);
  // The device is the first GPU with events.
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
  // Other values among the events, and other keys of the file, are ignored.
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
  // An allocation at a live address implies a free that the profiler missed.
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
              ElementsAre("3000 2 r 9", "3000 2 a before the recording 1 ", "3000 2 o 70 f"));
}

std::string Totals(std::int64_t allocated, std::int64_t reserved) {
  return absl::StrCat(",\"Total Allocated\":", allocated, ",\"Total Reserved\":", reserved);
}

TEST(ChromeTrace, BeginsWithTheMemoryFromBeforeTheRecording) {
  // 1000 bytes are live before: 300 at 7, freed below, and others.
  const std::string file =
      File({Span("user_annotation", "step", 1, 9), MemoryEvent("2", "50", "1", Totals(1050, 4096)),
            MemoryEvent("3", "-300", "7", Totals(750, 4096)),
            MemoryEvent("4", "-50", "1", Totals(700, 4096)),
            MemoryEvent("5", "-50", "1", Totals(700, 4096))});
  const auto trace = ParseTrace(file, "test.json");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(Dump(*trace),
              ElementsAre("1000 2 r 4096", "1000 2 a before the recording 700 ",
                          "1000 2 a 0x7 300 ", "1000 2 m step", "2000 2 a 0x1 50 step",
                          "3000 2 f 0x7", "4000 2 f 0x1", "10000 2 e step"));
  EXPECT_EQ(trace->earlier_allocations, 2);
  EXPECT_EQ(trace->unmatched_frees, 1);
}

TEST(ChromeTrace, HasNoEarlierMemoryWithoutTotals) {
  for (const std::int64_t total : {-1, 0, 5}) {  // 5: the event itself
    const auto trace =
        ParseTrace(File({MemoryEvent("1", "5", "1", Totals(total, -1))}), "test.json");
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->earlier_allocations, 0);
    EXPECT_THAT(Dump(*trace), ElementsAre("1000 2 a 0x1 5 "));
  }
}

TEST(ChromeTrace, RefusesEarlierMemoryThatNoDeviceHas) {
  EXPECT_THAT(
      ErrorOf(File({MemoryEvent("1", "5", "1", Totals(std::int64_t{1} << 60, 0))})),
      HasSubstr("memory from before the recording ('Total Allocated' less the events up to it): "
                "size 1152921504606846971, expected 1 to"));
}

TEST(ChromeTrace, PrefersADeviceThatRefusedARequest) {
  std::string refusal = MemoryEvent("2", "70", "0");
  absl::StrReplaceAll({{"[memory]", "[OutOfMemory]"}, {"\"Device Id\":0", "\"Device Id\":3"}},
                      &refusal);
  EXPECT_THAT(DumpOf(File({MemoryEvent("1", "5", "1"), refusal})), ElementsAre("2000 2 o 70 "));
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
  // A number and a text with the same characters are the same id.
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

// Calls are nested. Spans that keep overlapping would need a new stack for every event.
TEST(ChromeTrace, RefusesSpansThatAreNoCalls) {
  constexpr int kSpans = 2000;
  Lines events;
  for (int i = 0; i < kSpans; ++i) {
    events.push_back(Span("cpu_op", absl::StrCat("s", i), i, kSpans / 2));
    events.push_back(MemoryEvent(absl::StrCat(i, ".5"), "1", absl::StrCat(i + 1)));
  }
  EXPECT_THAT(ErrorOf(File(events)), HasSubstr("overlap too often without being nested"));
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
              StartsWith("test.json: stackFrames call each other"));
  EXPECT_THAT(ErrorOf(with_stack(R"({"1":{"line":-3}})", "1")), StartsWith("test.json:1: 'line'"));
  EXPECT_THAT(ErrorOf(with_stack(R"({"1":{"name":"f","name":"g"}})", "1")), HasSubstr("twice"));
}

TEST(ChromeTrace, IsOfOneProcessAndOneKindOfGpu) {
  const std::string event = MemoryEvent("1", "5", "1");
  EXPECT_THAT(ErrorOf(File({event, absl::StrReplaceAll(event, {{"\"pid\":1", "\"pid\":7"}})})),
              AllOf(StartsWith("test.json: "), HasSubstr("processes '1' and '7'")));
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
    // Two other events before it, one of them on two lines.
    EXPECT_THAT(ErrorOf(File({"{\"x\":\n1}", MemoryEvent("1", "1", "1"), changed})),
                StartsWith("test.json:5: " + wrong.error))
        << wrong.to;
    // An irrelevant event may have this mistake.
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
  EXPECT_THAT(ErrorOf("{}"), StartsWith("test.json: JSON without traceEvents"));
  EXPECT_THAT(ErrorOf("{\"a\":[1]}"), StartsWith("test.json: JSON without traceEvents"));
  EXPECT_THAT(ErrorOf("{\"traceEvents\":[],\n\"traceEvents\":[]}"),
              StartsWith("test.json:2: traceEvents is there twice"));
  for (const std::string value : {"{}", "5", "\"x\"", "null", "true"}) {
    EXPECT_THAT(ErrorOf("{\n\"traceEvents\":" + value + "}"),
                StartsWith("test.json:2: traceEvents is "));
  }
  for (const std::string& file : {std::string("[]"), File({})}) {
    EXPECT_THAT(ErrorOf(file),
                StartsWith("test.json: a Chrome trace without events of PyTorch's profiler"));
  }
  EXPECT_THAT(ErrorOf(File({Span("cpu_op", "f", 1, 2)})),
              AllOf(StartsWith("test.json: a profiler's trace without [memory] events"),
                    HasSubstr("profile_memory=True")));
  EXPECT_THAT(ErrorOf(File({MemoryEvent("1", "-5", "1")})),
              StartsWith("test.json: no allocations on device 0"));
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
    EXPECT_THAT(ErrorOf(nested(deep, "[", "]")), StartsWith("test.json:2: values nested too deep"));
    EXPECT_THAT(ErrorOf(nested(deep, "{\"\":", "}")), HasSubstr("1000 levels"));
  }
  // Two arrays are the beginning of a memory timeline.
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')), HasSubstr("test.json:1: not a row"));
}

TEST(ChromeTrace, HoldsTextsOfABoundedLength) {
  const auto with_text = [](std::size_t size) {
    return "[\"" + std::string(size, 'x') + "\"," + MemoryEvent("1", "1", "1") + "]";
  };
  EXPECT_THAT(DumpOf(with_text(1 << 20)), ::testing::SizeIs(1));
  EXPECT_THAT(ErrorOf(with_text(17 << 20)),
              StartsWith("test.json:1: a text or number is too long"));
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

// All bytes except white space at the end are needed.
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
      }
    }
  }
}

}  // namespace
}  // namespace tidepool
