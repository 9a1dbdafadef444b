// SPDX-License-Identifier: Apache-2.0
// Tests the command line as a program: its output, its exit status, and its one line of error.
#include "tests/trace_replay/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/dividing_trace.h"
#include "tests/support/pickled.h"
#include "tests/support/shared_files.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using testing::Contents;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(CommandLine, SizePrintsTheContractsObject) {
  const std::string trace = File("paper.csv", kPaper);
  const Outcome outcome = Run({"size", trace, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  const json answer = json::parse(outcome.out);
  EXPECT_EQ(answer["trace"], json({{"format", "operation-csv"},
                                   {"events", 8},
                                   {"allocations", 5},
                                   {"unfreed", 2},
                                   {"alignment", 512},
                                   {"peak_live_bytes", 4608}}));
  ASSERT_EQ(answer["policies"].size(), 5);
  const json& best_fit = answer["policies"][0];
  EXPECT_EQ(best_fit["policy"], "best-fit");
  EXPECT_EQ(best_fit["pool_bytes"], 4608);
  EXPECT_EQ(best_fit["overhead"], 1.0);
  EXPECT_EQ(best_fit["attempts"], 1);
  EXPECT_EQ(best_fit["exact_pool_bytes"], 4608);
  EXPECT_EQ(best_fit["serves_all_larger"], false);
}

// A terminal obeys text after an escape character, also in an error.
TEST_F(CommandLine, ErrorsShowArgumentsWithoutWhatSteersATerminal) {
  const std::string evil =
      "\x1b[31m\x07\xc2\x9b"
      "31mx";
  const std::string trace = File("paper.csv", kPaper);
  const std::vector<std::vector<std::string>> all = {
      {evil},
      {"size", evil},
      {"size", "--policy", evil, trace},
      {"size", "--align", evil, trace},
      {"size", "--" + evil, trace},
      {"size", trace, evil},
      {"info", "--device", evil, trace},
      {"replay", "--pool", evil, trace},
      {"replay", "--pool", "1GiB", "--policy", evil, trace},
      {"replay", "--pool", "1GiB", "--device", evil, trace},
      {"replay", "--pool", "1GiB", "--memory", evil, trace},
      {"replay", "--pool", "1GiB", "--policy", "planned", "--plan", evil, trace},
      {"convert", trace, "--to", evil, "x"},
      {"report", trace, "-o", "no/" + evil},
      {"plan", evil},
      {"tune", "compression", "--density", evil},
      {"tune", "compression", "--max-threads", evil},
      {"tune", "compression", "--link", evil},
      {"model", evil},
      {"model", "vgg-16", "--gpu", evil},
      {"simulate", evil},
      {"simulate", trace, "--memory", "1GiB", "--policy", evil},
      {"run", evil},
  };
  for (const std::vector<std::string>& arguments : all) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 1) << ::testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, Not(ContainsRegex("[\x1b\x07]|\xc2\x9b")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_THAT(ErrorOf({"size", "--policy", evil, trace}),
              HasSubstr("no placement policy '\\x1b[31m\\x07"));
}

TEST_F(CommandLine, SizeTakesPoliciesAndAlignment) {
  const std::string trace = File("paper.csv", kPaper);
  const Outcome outcome = Run({"size", "--policy", "first-fit", "--policy", "best-fit", "--align",
                               "1KiB", trace, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json answer = json::parse(outcome.out);
  EXPECT_EQ(answer["trace"]["alignment"], 1024);
  ASSERT_EQ(answer["policies"].size(), 2);
  EXPECT_EQ(answer["policies"][0]["policy"], "first-fit");
  const Outcome table = Run({"size", trace});
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.out, HasSubstr("best-fit"));
  EXPECT_THAT(table.out, HasSubstr("some fail"));
}

TEST_F(CommandLine, SizeSaysWhatItMayNotKeep) {
  const std::string trace = File("dividing.csv", testing::DividingTrace(16));
  const Outcome outcome = Run({"size", trace, "--policy", "best-fit", "--policy", "first-fit",
                               "--time-limit", "1e9", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json policies = json::parse(outcome.out)["policies"];
  EXPECT_EQ(policies[0]["exact_pool_bytes"], nullptr);
  EXPECT_EQ(policies[0]["serves_all_larger"], nullptr);
  EXPECT_EQ(policies[0]["exact_limit"], "pieces");
  EXPECT_GT(policies[0]["exact_pieces"], policies[0]["exact_limit_value"]);
  EXPECT_NE(policies[1]["exact_pool_bytes"], nullptr);
  EXPECT_EQ(policies[1]["exact_limit"], nullptr);
  EXPECT_EQ(policies[1]["exact_limit_value"], nullptr);
  EXPECT_THAT(
      Run({"size", trace, "--time-limit", "1e9"}).out,
      HasSubstr(
          "\n\n  the smallest pool was not found for best-fit, high-end-offload: more than "));
}

TEST_F(CommandLine, SizeTellsWhichAnswerIsUnknown) {
  const std::string trace = testing::ExampleTraces() / "resnet50-b4-sgd.rmm.csv.gz";
  EXPECT_THAT(
      Run({"size", trace, "--policy", "best-fit"}).out,
      HasSubstr("whether larger pools work is not known for best-fit: more than 3,000,000"));
}

TEST_F(CommandLine, SizeSaysThatTimeWasUp) {
  const std::string trace = File("dividing.csv", testing::DividingTrace(4));
  const std::vector<std::string> command = {"size",     trace,          "--policy",
                                            "best-fit", "--time-limit", "0"};
  EXPECT_THAT(Run(command).out,
              HasSubstr("the smallest pool was not found for best-fit: more than 0 s"));
  std::vector<std::string> as_json = command;
  as_json.push_back("--json");
  const json policy = json::parse(Run(as_json).out)["policies"][0];
  EXPECT_EQ(policy["exact_limit"], "time");
  EXPECT_EQ(policy["exact_limit_value"], 0.0);
}

TEST_F(CommandLine, InfoSaysWhatIsInATrace) {
  const std::string trace = File("log.csv",
                                 "Thread,Time,Action,Pointer,Size,Stream\n"
                                 "1,00:00:00:000000,free,0x9,512,0x0\n"
                                 "1,00:00:00:000001,allocate,0x1,1000,0x0\n"
                                 "1,00:00:00:000002,allocate,0x2,2000,0x1\n"
                                 "1,00:00:00:000003,free,0x1,1000,0x0\n");
  const json answer = json::parse(Run({"info", trace, "--json"}).out);
  EXPECT_EQ(answer["trace"]["format"], "rmm-csv");
  EXPECT_EQ(answer["trace"]["peak_live_bytes"], 1024 + 2048);
  EXPECT_EQ(answer["frees"], 1);
  EXPECT_EQ(answer["streams"], 2);
  EXPECT_EQ(answer["unmatched_frees"], 1);
  EXPECT_EQ(answer["largest_unfreed"], json::parse(R"([{"id": "0x2", "bytes": 2000}])"));
  EXPECT_THAT(Run({"info", trace}).out, HasSubstr("frees without allocation"));
}

TEST_F(CommandLine, InfoSaysWhatARecordingHolds) {
  const std::string recording = folder_ / "x.tide";
  auto recorder = *Recorder::Create({.path = recording, .alignment = 1024});
  recorder->Mark("step");
  recorder->Allocate(reinterpret_cast<const void*>(0x7f0000000200), 1000, Hint::kOffloadable, {1});
  recorder->Failure(4096, Hint::kResident, {2});
  recorder->Wait({2}, {1});
  recorder->Mark("step");
  ASSERT_TRUE(recorder->Flush().ok());
  json answer = json::parse(Run({"info", recording, "--json"}).out);
  EXPECT_EQ(answer["trace"]["format"], "native");
  EXPECT_EQ(answer["trace"]["events"], 5);
  EXPECT_EQ(answer["trace"]["alignment"], 1024);
  EXPECT_EQ(answer["frees"], 0);
  EXPECT_EQ(answer["failures"], 1);
  EXPECT_EQ(answer["waits"], 1);
  EXPECT_EQ(answer["marks"], 2);
  EXPECT_EQ(answer["streams"], 2);
  EXPECT_EQ(answer["threads"], 1);
  EXPECT_EQ(answer["ended_early"], true);
  EXPECT_EQ(answer["largest_unfreed"], json::parse(R"([{"id": "0x7f0000000200", "bytes": 1000}])"));
  EXPECT_THAT(Run({"info", recording}).out, ContainsRegex("ended early +yes"));
  EXPECT_THAT(Run({"info", recording}).out,
              ContainsRegex("out of memory +1 \\(4.0 KiB refused at event 2\\)"));
  ASSERT_TRUE(recorder->Close().ok());
  EXPECT_EQ(json::parse(Run({"info", recording, "--json"}).out)["ended_early"], false);
  EXPECT_THAT(Run({"info", recording}).out, Not(HasSubstr("ended early")));
}

TEST_F(CommandLine, TakesARecordingOfNothing) {
  const std::string recording = folder_ / "x.tide";
  ASSERT_TRUE((*Recorder::Create({.path = recording}))->Close().ok());
  EXPECT_EQ(json::parse(Run({"info", recording, "--json"}).out)["trace"]["events"], 0);
  EXPECT_EQ(Run({"size", recording, "--json"}).status, 0);
  EXPECT_EQ(Run({"replay", recording, "--pool", "1KiB", "--json"}).status, 0);
  EXPECT_EQ(Run({"convert", recording, folder_ / "y.tide"}).status, 0);
  ErrorOf({"convert", recording, folder_ / "y.csv"});
}

TEST_F(CommandLine, ReplayAnswersWithItsStatus) {
  const std::string trace = File("paper.csv", kPaper);
  const Outcome fits =
      Run({"replay", trace, "--pool", "4608", "--device", "none", "--offsets", "--json"});
  ASSERT_EQ(fits.status, 0) << fits.err;
  const json answer = json::parse(fits.out);
  EXPECT_EQ(answer["offsets"], json::parse("[0, 2560, 3584, 4096, 0]"));
  EXPECT_EQ(answer["served"], true);
  EXPECT_EQ(answer["high_water_bytes"], 4608);
  const Outcome larger = Run({"replay", trace, "--pool", "5.5KiB", "--offsets", "--json"});
  EXPECT_EQ(larger.status, 2);
  EXPECT_EQ(json::parse(larger.out)["offsets"], json::parse("[0, 2560, 3584, 2560, -1]"));
  EXPECT_EQ(json::parse(larger.out)["refused"], 1);
  const Outcome table = Run({"replay", trace, "--pool", "5632", "--offsets"});
  EXPECT_EQ(table.status, 2);
  EXPECT_THAT(table.out, HasSubstr("all but 1"));
  EXPECT_EQ(Run({"replay", trace, "--pool", "8KiB", "--policy", "first-fit"}).status, 0);
}

TEST_F(CommandLine, ConvertWritesTheFormatThatTheNameAsksFor) {
  const std::string trace = File("paper.csv", kPaper);
  const std::string rmm = folder_ / "paper.rmm.csv.gz";
  const std::string lifetimes = folder_ / "paper.lifetime.csv";
  ASSERT_EQ(Run({"convert", trace, rmm}).status, 0);
  ASSERT_EQ(Run({"convert", trace, lifetimes}).status, 0);
  EXPECT_EQ(json::parse(Run({"info", rmm, "--json"}).out)["trace"]["format"], "rmm-csv");
  EXPECT_EQ(Contents(lifetimes),
            "id,lower,upper,size\n1,0,5,2560\n2,1,3,1024\n3,2,6,512\n4,4,8,512\n5,7,8,4096\n");
  const Outcome outcome =
      Run({"convert", lifetimes, folder_ / "x.csv", "--to", "rmm-csv", "--json"});
  EXPECT_EQ(json::parse(outcome.out)["to"], "rmm-csv");
  EXPECT_EQ(Run({"convert", trace, "/dev/stdout"}).out, kPaper);
  ErrorOf({"convert", trace, "/dev/stdout", "--json"});
}

TEST_F(CommandLine, ConvertTakesTheNativeFormatBothWays) {
  const std::string trace = File("paper.csv", kPaper);
  const std::string lifetimes = File("paper.lifetime.csv", "id,lower,upper,size\nx,-3,9,100\n");
  for (const std::string native : {folder_ / "x.tide", folder_ / "x.tide.gz"}) {
    const json done = json::parse(Run({"convert", trace, native, "--json"}).out);
    EXPECT_EQ(done["to"], "native");
    EXPECT_THAT(done["left_out"], IsEmpty());
    EXPECT_EQ(Run({"convert", native, "/dev/stdout"}).out, kPaper);
    EXPECT_EQ(Run({"size", native}).status, 0);
    EXPECT_EQ(Run({"convert", lifetimes, native}).status, 0);
    EXPECT_EQ(Run({"convert", native, "/dev/stdout", "--to", "lifetime-csv"}).out,
              Contents(lifetimes));
    EXPECT_EQ(json::parse(Run({"info", native, "--json"}).out)["trace"]["alignment"], 1);
  }
  ASSERT_EQ(Run({"convert", trace, folder_ / "x", "--to", "native"}).status, 0);
  EXPECT_EQ(json::parse(Run({"info", folder_ / "x", "--json"}).out)["trace"]["format"], "native");
  const std::string recording = folder_ / "r.tide";
  auto recorder = *Recorder::Create({.path = recording});
  recorder->Mark("step");
  recorder->Allocate(reinterpret_cast<const void*>(0x200), 1000, Hint::kOffloadable, {1});
  recorder->Failure(4096, Hint::kResident, {2});
  recorder->Wait({2}, {1});
  ASSERT_TRUE(recorder->Close().ok());
  const auto left_out = [&](const std::string& format) {
    return json::parse(
        Run({"convert", recording, folder_ / "z", "--to", format, "--json"}).out)["left_out"];
  };
  EXPECT_EQ(left_out("operation-csv"), json({"failures", "waits", "threads"}));
  EXPECT_EQ(left_out("rmm-csv"),
            json({"hints", "ids that are no addresses, and times below a microsecond", "marks",
                  "waits"}));
  EXPECT_EQ(left_out("lifetime-csv"), json({"the alignment", "hints", "marks", "failures", "waits",
                                            "threads", "streams and times"}));
}

TEST_F(CommandLine, ConvertSaysThatAlignmentAndEndsAreLost) {
  const std::string native = folder_ / "x.tide";
  TraceBuilder builder(TraceFormat::kLifetimeCsv);
  builder.Mark("step", 1);
  ASSERT_TRUE(builder.Allocate("x", 100, Hint::kResident, "s", 2).ok());
  ASSERT_TRUE(builder.Free("x", "s", 3));
  builder.MarkEnd("step", 4);
  ASSERT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, native).ok());
  const auto left_out = [&](const std::string& format) {
    return json::parse(
        Run({"convert", native, folder_ / "z", "--to", format, "--json"}).out)["left_out"];
  };
  EXPECT_THAT(left_out("native"), IsEmpty());
  EXPECT_THAT(left_out("operation-csv"),
              ::testing::IsSupersetOf({"the alignment", "ends of marks"}));
  EXPECT_THAT(left_out("chrome-trace"), ::testing::Contains("the alignment"));
  EXPECT_THAT(left_out("lifetime-csv"), ::testing::Not(::testing::Contains("the alignment")));
  EXPECT_THAT(ErrorOf({"convert", native, folder_ / "z.csv", "--policy", "best-fit"}),
              HasSubstr("--policy: a snapshot alone gets addresses"));
  EXPECT_THAT(ErrorOf({"convert", native, folder_ / "z.pickle", "--policy", "worst"}),
              HasSubstr("'worst'"));
}

// The error of a job stands at the end of its log, of any length.
TEST_F(CommandLine, InfoReadsTheEndOfALog) {
  std::string log;
  while (log.size() < (std::size_t{17} << 20)) log += "step 1 loss 0.123456 tokens/s 12345\n";
  log +=
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
      "of which 1.56 GiB is free.\n";
  const json answer = json::parse(Run({"info", File("job.log", log), "--json"}).out);
  EXPECT_EQ(answer["out_of_memory"]["requested_bytes"], std::int64_t{2} << 30);
}

// A damaged trace may be large: a terabyte takes minutes to read.
TEST_F(CommandLine, InfoReadsNoMoreThanTheEndOfALog) {
  const std::string path = File("job.log", "step 1\n");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // a hole, which takes no disk
  std::ofstream(path, std::ios::app) << "\nCUDA out of memory. Tried to allocate 2.00 GiB.\n";
  const json answer = json::parse(Run({"info", path, "--json"}).out);
  EXPECT_EQ(answer["out_of_memory"]["requested_bytes"], std::int64_t{2} << 30);
}

TEST_F(CommandLine, AllPoliciesNeedNothingForATraceOfMarks) {
  const std::string marks = File("marks.csv", "op,id,size,hint\nm,step,,\n");
  const Outcome text = Run({"size", marks});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, ::testing::Not(HasSubstr("not found")));
}

TEST_F(CommandLine, JsonHoldsNothingThatATerminalActsUpon) {
  const std::string trace = File("c1.csv",
                                 "op,id,size,hint\na,x\xc2\x9b"
                                 "31m\x7f\u202e,500,\n");
  const std::string out = Run({"info", trace, "--json"}).out;
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](char c) {
    return c == '\n' || (c >= ' ' && c < '\x7f');
  })) << out;
  EXPECT_EQ(json::parse(out)["largest_unfreed"][0]["id"],
            "x\xc2\x9b"
            "31m\x7f\u202e");
}

TEST_F(CommandLine, ConvertTakesChromeTracesBothWays) {
  const std::string trace = File("paper.csv", kPaper);
  for (const std::string chrome : {folder_ / "x.json", folder_ / "x.json.gz"}) {
    const json done = json::parse(Run({"convert", trace, chrome, "--json"}).out);
    EXPECT_EQ(done["to"], "chrome-trace");
    EXPECT_THAT(done["left_out"], IsEmpty());
    EXPECT_EQ(json::parse(Run({"info", chrome, "--json"}).out)["trace"]["format"], "chrome-trace");
    const auto sizes = [&](const std::string& file) {
      return json::parse(
          Run({"size", file, "--policy", "best-fit", "--policy", "first-fit", "--json"})
              .out)["policies"];
    };
    EXPECT_EQ(sizes(chrome), sizes(trace));
  }
  const std::string native = folder_ / "x.tide";
  TraceBuilder builder(TraceFormat::kNative);
  builder.MarkEnd("step", 5);
  builder.Wait("1", "2", 4);
  ASSERT_TRUE(builder.Allocate("x", 1, Hint::kOffloadable, "1", 6).ok());
  ASSERT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, native).ok());
  EXPECT_EQ(json::parse(Run({"convert", native, folder_ / "z", "--to", "chrome-trace", "--json"})
                            .out)["left_out"],
            json({"waits", "ends of marks that did not begin", "times that go back"}));
  EXPECT_THAT(ErrorOf({"info", File("profile.json", "{\"traceEvents\":[]}")}),
              HasSubstr("profile.json: a Chrome trace without events of PyTorch's profiler"));
}

// Two devices: one reserved more than it needed, the other has segments alone.
json TwoDevices() {
  const auto event = [](const char* action, int address, int size) {
    return json{{"action", action}, {"addr", address}, {"size", size}, {"stream", 0}};
  };
  const json block = {{"size", 512}, {"requested_size", 100}, {"state", "active_allocated"}};
  const json segment = {
      {"device", 1}, {"address", 4096}, {"total_size", 2048}, {"blocks", json::array({block})}};
  return {{"segments", json::array({segment})},
          {"device_traces",
           json::array({json::array({event("segment_alloc", 4096, 4096), event("alloc", 4096, 1000),
                                     event("free_completed", 4096, 1000),
                                     event("segment_free", 4096, 4096)})})}};
}

TEST_F(CommandLine, SaysWhatPyTorchHadReserved) {
  const std::string snapshot = File("x.pickle", testing::Pickled(TwoDevices()));
  json info = json::parse(Run({"info", snapshot, "--json"}).out);
  EXPECT_EQ(info["trace"]["format"], "pytorch-snapshot");
  EXPECT_EQ(info["peak_reserved_bytes"], 4096);
  EXPECT_EQ(info["reserved_bytes"], 0);
  EXPECT_EQ(info["reserved_overhead"], 4);
  EXPECT_EQ(info["device"], 0);
  EXPECT_EQ(info["devices"], json({0, 1}));
  EXPECT_EQ(info["stacks"], 0);
  const Outcome table = Run({"info", snapshot});
  EXPECT_THAT(table.out, ContainsRegex("peak reserved by the recorded allocator +4.0 KiB"));
  EXPECT_THAT(table.out, ContainsRegex("/ peak live +4.000x"));
  EXPECT_THAT(table.out, ContainsRegex("device +0 of 0, 1"));
  const json size = json::parse(Run({"size", snapshot, "--json"}).out);
  EXPECT_EQ(
      size["recorded"],
      json({{"reserved_bytes", 0}, {"peak_reserved_bytes", 4096}, {"reserved_overhead", 4.0}}));
  EXPECT_THAT(Run({"size", snapshot}).out, ContainsRegex("as recorded +4.0 KiB +4.000x"));
  const std::string paper = File("paper.csv", kPaper);
  info = json::parse(Run({"info", paper, "--json"}).out);
  EXPECT_TRUE(info["reserved_bytes"].is_null() && info["reserved_overhead"].is_null());
  EXPECT_EQ(info["devices"], json::array());
  EXPECT_THAT(Run({"info", paper}).out, Not(HasSubstr("reserved")));
  EXPECT_THAT(Run({"size", paper}).out, Not(HasSubstr("as recorded")));
}

TEST_F(CommandLine, AsksAboutADevice) {
  const std::string snapshot = File("x.pickle", testing::Pickled(TwoDevices()));
  for (const std::string option : {"--device", "--trace-device"}) {
    const auto live = [&](const std::string& device) {
      return json::parse(
          Run({"info", snapshot, option, device, "--json"}).out)["per_device"][0]["live_bytes"];
    };
    EXPECT_EQ(live("0"), 1024);
    EXPECT_EQ(live("1"), 512);
    EXPECT_EQ(
        json::parse(
            Run({"size", snapshot, option, "1", "--json"}).out)["recorded"]["peak_reserved_bytes"],
        2048);
    ASSERT_EQ(Run({"convert", snapshot, folder_ / "x.tide", option, "1"}).status, 0);
    EXPECT_EQ(json::parse(Run({"info", folder_ / "x.tide", "--json"}).out)["device"], 1);
    EXPECT_THAT(ErrorOf({"info", snapshot, option, "2"}),
                HasSubstr("x.pickle: device 2 is not in the file, expected one of 0, 1"));
  }
  EXPECT_EQ(json::parse(Run({"replay", snapshot, "--pool", "512", "--trace-device", "1", "--device",
                             "none", "--json"})
                            .out)["served"],
            true);
  EXPECT_EQ(Run({"replay", snapshot, "--pool", "512"}).status, 2);
  EXPECT_THAT(ErrorOf({"info", snapshot, "--device", "all"}),
              HasSubstr("--device: 'all' is no device, expected a number, -1 for the host"));
}

TEST_F(CommandLine, ConvertLaysOutASnapshot) {
  const std::string trace = File("paper.csv", kPaper);
  for (const std::string name : {"x.pickle", "x.pkl.gz"}) {
    const json done = json::parse(Run({"convert", trace, folder_ / name, "--json"}).out);
    EXPECT_EQ(done["to"], "pytorch-snapshot");
    EXPECT_EQ(done["left_out"], json({"times below a microsecond", "ids"}));
    const json info = json::parse(Run({"info", folder_ / name, "--json"}).out);
    EXPECT_EQ(info["trace"]["format"], "pytorch-snapshot");
    EXPECT_EQ(info["trace"]["peak_live_bytes"], 4608);
    EXPECT_EQ(info["peak_reserved_bytes"], 4608);
  }
  // First-fit needs no more here, but the requested layout is that of another policy.
  EXPECT_EQ(Run({"convert", trace, folder_ / "y.pickle", "--policy", "first-fit"}).status, 0);
  EXPECT_THAT(ErrorOf({"convert", trace, folder_ / "y.pickle", "--policy", "worst-fit"}),
              HasSubstr("'worst-fit'"));
  // A snapshot keeps its addresses and segments.
  const std::string snapshot = File("s.pickle", testing::Pickled(TwoDevices()));
  const json again = json::parse(
      Run({"convert", snapshot, folder_ / "t", "--to", "pytorch-snapshot", "--json"}).out);
  EXPECT_THAT(again["left_out"], IsEmpty());
  EXPECT_EQ(Run({"convert", folder_ / "t", "/dev/stdout"}).out,
            Run({"convert", snapshot, "/dev/stdout"}).out);
  EXPECT_THAT(Run({"convert", folder_ / "t", "/dev/stdout"}).out, HasSubstr("a,0x1000,1000"));
}

TEST_F(CommandLine, RefusesPicklesThatCouldDoAnything) {
  EXPECT_THAT(ErrorOf({"info", File("evil.pickle", "\x80\2cos\nsystem\n(U\2lstR.")}),
              HasSubstr("evil.pickle: byte 2: opcode GLOBAL (0x63), expected"));
  EXPECT_THAT(ErrorOf({"info", File("new.pickle", "\x80\6N.")}),
              HasSubstr("pickle protocol 6, expected 2 to 5"));
}

TEST_F(CommandLine, TakesALifetimeCsvByTheByte) {
  const std::string trace = File("l.csv", "id,lower,upper,size\na,0,2,3\nb,1,3,4\n");
  const json answer = json::parse(Run({"size", trace, "--json"}).out);
  EXPECT_EQ(answer["trace"]["alignment"], 1);
  EXPECT_EQ(answer["policies"][0]["pool_bytes"], 7);
}

TEST_F(CommandLine, RefusesBadFilesInOneLineThatNamesThem) {
  const std::string line = "op,id,size,hint\n";
  EXPECT_THAT(ErrorOf({"size", File("empty.csv", "")}), HasSubstr("empty.csv:1: an empty file"));
  EXPECT_THAT(ErrorOf({"size", File("header.csv", line)}), HasSubstr("header.csv:2: no events"));
  EXPECT_THAT(ErrorOf({"info", File("bad.csv", line + "a,x,-1,\n"), "--json"}),
              HasSubstr("bad.csv:2: size '-1'"));
  EXPECT_THAT(ErrorOf({"replay", File("noise", std::string("\0\x01\x02\xff", 4)), "--pool", "1"}),
              HasSubstr("noise:1: "));
  EXPECT_THAT(ErrorOf({"info", folder_}), HasSubstr(": a directory"));
  EXPECT_THAT(ErrorOf({"info", folder_ / "nothing\nhere"}), HasSubstr(": cannot be opened"));
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf({"size", fifo}), HasSubstr("fifo: a FIFO"));
  const std::string bad = File("bad.csv", line + "a,x,1,\na,x,1,\n");
  const std::string target = File("target.csv", "old");
  EXPECT_THAT(ErrorOf({"convert", bad, target}), HasSubstr("bad.csv:3: "));
  EXPECT_EQ(Contents(target), "old");
  EXPECT_THAT(ErrorOf({"convert", File("good.csv", line + "a,x,1,\n"), folder_ / "no" / "x.csv"}),
              HasSubstr("x.csv: "));
}

TEST_F(CommandLine, RefusesBadArgumentsInOneLine) {
  const std::string trace = File("paper.csv", kPaper);
  EXPECT_THAT(ErrorOf({"grow"}),
              HasSubstr("no command 'grow', expected one of info, diff, size, "));
  EXPECT_THAT(ErrorOf({"--grow"}), HasSubstr("no option '--grow' before a command, expected"));
  EXPECT_THAT(ErrorOf({"size"}),
              HasSubstr("size: TRACE is missing, expected tidepool size TRACE [OPTIONS]"));
  EXPECT_THAT(ErrorOf({"size", trace, "--no-such-option"}),
              HasSubstr("size: no option '--no-such-option', expected an option of 'tidepool size "
                        "--help'"));
  EXPECT_THAT(ErrorOf({"plan", trace, "second.csv"}),
              HasSubstr("plan: 'second.csv' is a second trace, expected tidepool plan TRACE"));
  EXPECT_THAT(
      ErrorOf({"model", "vgg-16", "second"}),
      HasSubstr("model: 'second' is one argument too many, expected tidepool model [NAME]"));
  EXPECT_THAT(ErrorOf({"model", ""}), HasSubstr("NAME: '', expected a network or no argument"));
  EXPECT_THAT(ErrorOf({"dryrun", "--rank", "1", "--ranks", "2", "--", "a"}),
              HasSubstr("dryrun: --rank excludes --ranks, expected one of the two"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--pool"}), HasSubstr("--pool: no value, expected one"));
  EXPECT_THAT(ErrorOf({"replay", trace}), HasSubstr("replay: --pool is missing, expected a size"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--pool", "1K", "--pool", "2K"}),
              HasSubstr("--pool: given twice, expected once"));
  EXPECT_THAT(ErrorOf({"size", trace, "--policy", "worst-fit"}), HasSubstr("'worst-fit'"));
  EXPECT_THAT(ErrorOf({"size", trace, "--align", "3"}), HasSubstr("--align"));
  for (const std::string size :
       {"-1", "x", "", "1.5", "1e3x", "99999999999999999999", "1XiB", "9000000TiB"}) {
    EXPECT_THAT(ErrorOf({"replay", trace, "--pool", size}), HasSubstr("--pool")) << size;
  }
  EXPECT_THAT(ErrorOf({"replay", trace, "--pool", "1", "--device", "tpu"}), HasSubstr("--device"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--pool", "4000000TiB"}), HasSubstr("a pool of"));
  EXPECT_THAT(ErrorOf({"convert", trace, folder_ / "y.csv", "--to", "pdf"}), HasSubstr("'pdf'"));
}

TEST_F(CommandLine, NamesTheNearestCommandAndOption) {
  const std::string trace = File("paper.csv", kPaper);
  EXPECT_THAT(ErrorOf({"inof", trace}),
              ContainsRegex("no command 'inof', expected one of info, .*; did you mean 'info'\\?"));
  EXPECT_THAT(ErrorOf({"--versoin"}), HasSubstr("; did you mean '--version'?"));
  EXPECT_THAT(ErrorOf({"size", trace, "--polcy=best-fit"}),
              HasSubstr("size: no option '--polcy', expected an option of 'tidepool size --help'; "
                        "did you mean '--policy'?"));
  EXPECT_THAT(ErrorOf({"diffs-of-everything"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(ErrorOf({"tune", "compresion"}),
              HasSubstr("tune: no command 'compresion', expected one of compression; did you mean "
                        "'compression'?"));
  EXPECT_THAT(ErrorOf({"tune", "compression", "--lnk", "3"}),
              HasSubstr("tune compression: no option '--lnk', expected an option of 'tidepool tune "
                        "compression --help'; did you mean '--link'?"));
}

TEST_F(CommandLine, SaysThatAFileIsCutOff) {
  const std::string trace = File("paper.csv", kPaper);
  EXPECT_THAT(ErrorOf({"info", File("cut.csv", "op,id,size,hint\na,1,2560,\na,2")}),
              HasSubstr("cut.csv:3: the file is cut off: 2 fields, expected 4"));
  EXPECT_THAT(ErrorOf({"info", File("few.csv", "op,id,size,hint\na,1,2560,\na,2\n")}),
              HasSubstr("few.csv:3: 2 fields, expected 4"));
  for (const std::string name : {"x.pickle", "x.json", "x.csv.gz", "x.pkl.gz"}) {
    ASSERT_EQ(Run({"convert", trace, folder_ / name}).status, 0);
    const std::string whole = Contents(folder_ / name);
    EXPECT_THAT(ErrorOf({"info", File(name, whole.substr(0, whole.size() - 10))}),
                AllOf(HasSubstr(name), HasSubstr("the file is cut off")));
  }
  const std::string graph = folder_ / "graph.json";
  ASSERT_EQ(Run({"model", "alexnet", "--batch", "1", "-o", graph}).status, 0);
  EXPECT_THAT(
      ErrorOf({"simulate", "--memory", "1GiB", File("graph.json", Contents(graph).substr(0, 999))}),
      HasSubstr("the file is cut off: its JSON ends early"));
}

TEST_F(CommandLine, NamesTheKindOfFileThatIsMissing) {
  const std::string trace = File("paper.csv", kPaper);
  const std::string graph = folder_ / "graph.json";
  ASSERT_EQ(Run({"model", "alexnet", "--batch", "1", "-o", graph}).status, 0);
  const std::string missing = ": cannot be opened: No such file or directory, expected ";
  EXPECT_THAT(ErrorOf({"info", "none"}), HasSubstr("tidepool: none" + missing + "a trace\n"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--policy", "planned", "--plan", "none"}),
              HasSubstr("tidepool: none" + missing + "a plan\n"));
  EXPECT_THAT(ErrorOf({"simulate", "none", "--memory", "1GiB"}),
              HasSubstr("tidepool: none" + missing + "a task graph\n"));
  EXPECT_THAT(ErrorOf({"model", "alexnet", "--batch", "1", "--times", "none"}),
              HasSubstr("tidepool: none" + missing + "a table of times\n"));
  EXPECT_THAT(ErrorOf({"simulate", graph, "--memory", "1GiB", "--compression-profile", "none"}),
              HasSubstr("tidepool: none" + missing + "a compression profile\n"));
  ASSERT_EQ(setenv("TIDEPOOL_COMPRESSION_PROFILE", "none", 1), 0);
  EXPECT_THAT(ErrorOf({"simulate", graph, "--memory", "1GiB"}),
              HasSubstr("tidepool: TIDEPOOL_COMPRESSION_PROFILE names none" + missing +
                        "a compression profile\n"));
  unsetenv("TIDEPOOL_COMPRESSION_PROFILE");
}

TEST_F(CommandLine, ConvertRefusesEndingsOfNoFormat) {
  const std::string trace = File("paper.csv", kPaper);
  for (const std::string name : {"x.perfetto", "x", "x.gz", "x.rmm"}) {
    EXPECT_THAT(ErrorOf({"convert", trace, folder_ / name}),
                HasSubstr(name + ": no format has this ending, expected .tide, .pickle, .pkl, "
                                 ".json, .rmm.csv, .lifetime.csv, .csv, each with or without .gz, "
                                 "or --to FORMAT"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / name));
  }
  EXPECT_EQ(Run({"convert", trace, folder_ / "x", "--to", "operation-csv"}).status, 0);
  EXPECT_EQ(Run({"convert", trace, folder_ / "x.csv.gz"}).status, 0);
}

TEST_F(CommandLine, HasHelp) {
  const Outcome outcome = Run({"--help"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Usage: tidepool COMMAND [OPTIONS]"));
  const Outcome of_command = Run({"run", "--help"});
  EXPECT_EQ(of_command.status, 0);
  EXPECT_THAT(of_command.out, HasSubstr("Usage: tidepool run GRAPH [OPTIONS]\n"));
  EXPECT_THAT(of_command.out, HasSubstr("Examples:\n  tidepool "));
}

TEST_F(CommandLine, WithoutArgumentsPrintsHelpAndAnError) {
  const Outcome outcome = Run({});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, Run({"--help"}).out);
  EXPECT_THAT(outcome.err, HasSubstr("tidepool: no command, expected one of info, diff, size, "));
}

TEST_F(CommandLine, HasAVersion) {
  const Outcome outcome = Run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, ContainsRegex("^tidepool [0-9]+[.][0-9]+[.][0-9]+\n$"));
  EXPECT_EQ(Run({"size", "--version"}).out, outcome.out);
  EXPECT_EQ(Run({"tune", "compression", "--version"}).out, outcome.out);
}

TEST_F(CommandLine, TakesSizesInUnits) {
  const std::string trace = File("paper.csv", kPaper);
  const auto pool = [&](const std::string& size) {
    return json::parse(Run({"replay", trace, "--pool", size, "--align", "1", "--json"}).out)
        ["pool_"
         "bytes"];
  };
  EXPECT_EQ(pool("8192"), 8192);
  EXPECT_EQ(pool("8K"), 8192);
  EXPECT_EQ(pool("8 KiB"), 8192);
  EXPECT_EQ(pool("8kb"), 8000);
  EXPECT_EQ(pool("19.4GiB"), 20830591386);
  EXPECT_EQ(pool("1g"), std::int64_t{1} << 30);
}

TEST_F(CommandLine, SaysWhenItsAnswerCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this machine";
  const std::string trace = File("paper.csv", kPaper);
  const std::string command =
      std::string(TIDEPOOL_TOOL) + " size " + trace + " --json >/dev/full 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
}

}  // namespace
}  // namespace tidepool
