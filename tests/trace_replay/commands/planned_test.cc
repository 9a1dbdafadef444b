// SPDX-License-Identifier: Apache-2.0
// Tests the placement `planned` on the command line: replay, size, report and convert.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/rounds.h"
#include "tests/support/shared_files.h"
#include "tests/trace_replay/command_line.h"
#include "tests/trace_replay/hard_trace.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using testing::Contents;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PlannedCommand : public CommandLine {
 protected:
  json Answer(const std::vector<std::string>& arguments, int status = 0) {
    std::vector<std::string> all = arguments;
    all.emplace_back("--json");
    const Outcome outcome = Run(all);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, IsEmpty());
    return json::parse(outcome.out);
  }
  json Replay(const std::string& trace, std::vector<std::string> more, int status = 0) {
    more.insert(more.begin(), {"replay", trace, "--policy", "planned"});
    return Answer(more, status);
  }

  std::string PlanOf(const std::string& trace, const std::string& name = "plan.csv",
                     const std::string& seconds = "1000") {
    const std::string path = folder_ / name;
    EXPECT_EQ(Run({"plan", trace, "--time-limit", seconds, "-o", path}).status, 0);
    return path;
  }

  // Returns the answer of `size` about the policy.
  json Size(const std::string& trace, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"size", trace, "--policy", "planned"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Answer(arguments)["policies"][0];
  }
};

TEST_F(PlannedCommand, ReplaysEveryExampleInItsPlan) {
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".csv.gz")) {
    SCOPED_TRACE(path);
    const json answer = Replay(path, {"--offsets", "--time-limit", "0"});
    EXPECT_EQ(answer["served"], true);
    EXPECT_EQ(answer["pool_bytes"], answer["planned"]["plan_bytes"]);
    EXPECT_EQ(answer["high_water_bytes"], answer["planned"]["plan_bytes"]);
    EXPECT_EQ(answer["planned"]["optimal"], answer["pool_bytes"] == answer["peak_live_bytes"]);
    EXPECT_EQ(answer["planned"]["planned"], answer["trace"]["allocations"]);
    EXPECT_EQ(answer["planned"]["deviations"], 0);
    const Trace trace = *ReadTrace(path);
    EXPECT_TRUE(ValidatePlan(*ToPlanProblem(trace, 512), answer["offsets"],
                             answer["pool_bytes"].get<std::int64_t>())
                    .ok());
  }
}

TEST_F(PlannedCommand, ReplaysAPlanFromAFile) {
  const std::string trace = File("hard.csv", kHard);
  for (const std::string name : {"plan.csv", "plan.csv.gz"}) {
    const std::string plan = PlanOf(trace, name);
    const json answer = Replay(trace, {"--plan", plan, "--offsets"});
    EXPECT_EQ(answer["pool_bytes"], 18432);
    EXPECT_EQ(answer["planned"]["plan_bytes"], 18432);
    EXPECT_EQ(answer["planned"]["planned"], 9);
    EXPECT_EQ(answer["planned"]["deviations"], 0);
    EXPECT_EQ(answer["planned"]["seconds"], nullptr);
    const Trace read = *ReadTrace(trace);
    EXPECT_EQ(answer["offsets"], json(*OffsetsFor(*ReadPlan(plan), read, 1)));
  }
}

// A plan is known to be the smallest only at the lower bound.
TEST_F(PlannedCommand, SaysOfAFileWhetherItIsKnownToBeTheSmallest) {
  const std::string trace = File("paper.csv", kPaper);
  const std::string plan = PlanOf(trace);
  EXPECT_EQ(Replay(trace, {"--plan", plan})["planned"]["optimal"], true);
  const std::string higher = File(
      "higher.csv", absl::StrReplaceAll(Contents(plan), {{"5,7,8,4096,0", "5,7,8,4096,51200"}}));
  ASSERT_NE(Contents(higher), Contents(plan));
  const json answer = Replay(trace, {"--plan", higher});
  EXPECT_EQ(answer["planned"]["optimal"], nullptr);
  EXPECT_EQ(answer["pool_bytes"], 51200 + 4096);
  EXPECT_EQ(answer["planned"]["deviations"], 0);
  EXPECT_THAT(Run({"replay", trace, "--policy", "planned", "--plan", higher}).out,
              ContainsRegex("smallest possible +unknown, at least"));
}

TEST_F(PlannedCommand, PrintsATable) {
  const Outcome outcome = Run({"replay", File("hard.csv", kHard), "--policy", "planned"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, ContainsRegex("plan +18.0 KiB"));
  EXPECT_THAT(outcome.out, ContainsRegex("smallest possible +yes"));
  EXPECT_THAT(outcome.out, ContainsRegex("as planned +9"));
  EXPECT_THAT(outcome.out, ContainsRegex("deviations +0"));
}

TEST_F(PlannedCommand, TakesAnyPool) {
  const std::string trace = File("hard.csv", kHard);
  const json offsets = Replay(trace, {"--offsets"})["offsets"];
  const json larger = Replay(trace, {"--offsets", "--pool", "1MiB"});
  EXPECT_EQ(larger["pool_bytes"], 1 << 20);
  EXPECT_EQ(larger["planned"]["plan_bytes"], 18432);
  EXPECT_EQ(larger["offsets"], offsets);
  const json smaller = Replay(trace, {"--pool", "9216"}, 2);
  EXPECT_GT(smaller["refused"], 0);
}

TEST_F(PlannedCommand, TakesATraceOfNothing) {
  const std::string trace = File("marks.csv", "op,id,size,hint\nm,begin,,\n");
  const json answer = Replay(trace, {"--plan", PlanOf(trace)});
  EXPECT_EQ(answer["pool_bytes"], 0);
  EXPECT_EQ(answer["planned"]["optimal"], true);
}

// Makes buffers of up to 60 KiB, freed on any of three streams, which sometimes wait for each
// other.
void WriteManyStreams(std::uint64_t seed, const std::string& path) {
  std::mt19937_64 random(seed);
  TraceBuilder builder(TraceFormat::kNative);
  std::vector<std::string> live;
  for (int i = 0; i < 2'000; ++i) {
    const std::string stream = absl::StrCat("s", random() % 3);
    if (random() % 20 == 0) builder.Wait(stream, absl::StrCat("s", random() % 3), i);
    if (live.size() < 30 && random() % 2 == 0) {
      live.push_back(absl::StrCat(i));
      const auto bytes = static_cast<std::int64_t>(1 + random() % (60 << 10));
      EXPECT_TRUE(builder.Allocate(live.back(), bytes, Hint::kResident, stream, i).ok());
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_TRUE(builder.Free(live.back(), stream, i));
      live.pop_back();
    }
  }
  EXPECT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, path).ok());
}

TEST_F(PlannedCommand, ServesEveryExampleFromAPoolOnTheHost) {
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".csv.gz")) {
    SCOPED_TRACE(path);
    const std::string plan = PlanOf(path, "plan.csv", "0");
    const json placed = Replay(path, {"--plan", plan, "--offsets"});
    const json served = Replay(path, {"--plan", plan, "--offsets", "--device", "host"});
    for (const char* key : {"offsets", "pool_bytes", "high_water_bytes", "planned"}) {
      EXPECT_EQ(served[key], placed[key]) << key;
    }
    EXPECT_EQ(served["growths"], 0);
  }
}

TEST_F(PlannedCommand, KeepsContents) {
  const std::string trace = File("hard.csv", kHard);
  for (const char* memory : {"virtual", "segments"}) {
    const json answer = Replay(trace, {"--device", "host", "--verify", "--memory", memory});
    EXPECT_EQ(answer["verified"], true);
    EXPECT_EQ(answer["planned"]["deviations"], 0);
  }
}

TEST_F(PlannedCommand, KeepsContentsOfManyStreams) {
  const auto seeds = static_cast<std::uint64_t>(testing::Rounds(5));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::string trace = folder_ / "streams.tide";
    WriteManyStreams(seed, trace);
    const std::string peak = Size(trace, {"--time-limit", "0.2"})["pool_bytes"].dump();
    for (const bool waits : {false, true}) {
      // The pool is that of a plan that was found, so its search ends there.
      const std::string limit = waits ? "1" : "0.2";
      std::vector<std::string> options = {"--device", "host", "--verify", "--time-limit", limit};
      if (waits) options.insert(options.end(), {"--pool", peak});
      const json answer = Replay(trace, options);
      EXPECT_EQ(answer["verified"], true);
      EXPECT_EQ(answer["pool_bytes"], answer["planned"]["plan_bytes"]);
      EXPECT_EQ(answer["planned"]["planned"], answer["trace"]["allocations"]);
      EXPECT_EQ(answer["planned"]["deviations"], 0);
      EXPECT_EQ(answer["planned"]["streams_wait"], waits);
    }
  }
}

// The plan is one of the whole trace.
TEST_F(PlannedCommand, FollowsThePlanAcrossMarksOfIterations) {
  std::string text = "op,id,size,hint\n";
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&text, "m,iteration,,\na,x", i, ",", 512 * (i + 1), ",\n");
    if (i > 3) absl::StrAppend(&text, "f,x", i - 4, ",,\n");
  }
  const std::string trace = File("marks.csv", text);
  for (const char* device : {"none", "host"}) {
    const json answer = Replay(trace, {"--device", device});
    EXPECT_EQ(answer["planned"]["planned"], 20);
    EXPECT_EQ(answer["planned"]["deviations"], 0);
  }
}

// Two streams allocate and free 100 MiB in turn, and never wait.
std::string TwoStreams(int rounds, const std::string& path) {
  TraceBuilder builder(TraceFormat::kNative);
  std::int64_t time = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const std::string stream : {"compute", "copy"}) {
      const std::string id = absl::StrCat(stream, round);
      EXPECT_TRUE(builder.Allocate(id, 100 << 20, Hint::kResident, stream, ++time).ok());
      EXPECT_TRUE(builder.Free(id, stream, ++time));
    }
  }
  EXPECT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, path).ok());
  return path;
}

TEST_F(PlannedCommand, PlansOfStreamsDoNotGrowWithTheRecording) {
  for (const int rounds : {10, 1000}) {
    const std::string trace = TwoStreams(rounds, folder_ / "two.tide");
    const json plan = Answer({"plan", trace});
    EXPECT_EQ(plan["pool_bytes"], 200 << 20);
    EXPECT_EQ(plan["lower_bound_bytes"], 200 << 20);
    EXPECT_EQ(plan["optimal"], true);
    for (const char* device : {"none", "host"}) {
      const json answer = Replay(trace, {"--device", device});
      EXPECT_EQ(answer["pool_bytes"], 200 << 20);
      EXPECT_EQ(answer["planned"]["planned"], 2 * rounds);
      EXPECT_EQ(answer["planned"]["deviations"], 0);
      // The second stream waits once: a pool knows little of the time before its second stream.
      if (std::string(device) == "host") {
        EXPECT_LE(answer["stream_waits"], 1);
      }
    }
  }
}

TEST_F(PlannedCommand, NeedsAPoolAsHighAsThePlanOnADevice) {
  const std::string trace = File("hard.csv", kHard);
  EXPECT_THAT(
      ErrorOf({"replay", trace, "--policy", "planned", "--device", "host", "--pool", "9216"}),
      HasSubstr("--pool: 9.0 KiB (9216 bytes), expected at least the plan's height, "
                "18.0 KiB (18432 bytes)"));
  EXPECT_THAT(
      ErrorOf({"replay", trace, "--policy", "planned", "--device", "host", "--initial", "18433"}),
      HasSubstr(
          "--initial: 18.0 KiB (18433 bytes), expected at most the pool, 18.0 KiB (18432 bytes)"));
  ErrorOf(
      {"replay", trace, "--policy", "planned", "--device", "host", "--pool", "1GiB", "--remap"});
  EXPECT_EQ(Replay(trace, {"--device", "host", "--pool", "1GiB"})["planned"]["deviations"], 0);
}

TEST_F(PlannedCommand, RefusesPlansOfOtherTraces) {
  const std::string trace = File("hard.csv", kHard);
  const std::string plan = PlanOf(trace);
  const auto error = [&](const std::string& file) {
    return ErrorOf({"replay", trace, "--policy", "planned", "--plan", file});
  };
  EXPECT_THAT(error(PlanOf(File("paper.csv", kPaper), "other.csv")),
              HasSubstr("other.csv:2: id '1', lower 0, upper 5, size 2560, expected id 'a'"));
  EXPECT_THAT(error(trace), HasSubstr("hard.csv:1: no column 'offset'"));
  EXPECT_THAT(error(folder_ / "none.csv"), HasSubstr("none.csv: "));
  const std::string whole = Contents(plan);
  EXPECT_THAT(error(File("cut.csv", whole.substr(0, whole.rfind("i,1,3")))), HasSubstr("cut.csv:"));
  EXPECT_THAT(error(File("cut.csv", whole.substr(0, whole.rfind(',')))),
              HasSubstr("cut.csv:10: the file is cut off: 4 fields"));
  EXPECT_THAT(
      error(File("same.csv", absl::StrReplaceAll(whole, {{"a,0,1,9216,", "a,0,1,9216,1"}}))),
      HasSubstr("same.csv:"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--policy", "planned", "--plan", plan, "--align", "65536"}),
              HasSubstr("expected a multiple of 65536"));
}

TEST_F(PlannedCommand, RefusesOptionsThatMeanNothing) {
  const std::string trace = File("hard.csv", kHard);
  EXPECT_THAT(ErrorOf({"replay", trace, "--pool", "1MiB", "--plan", PlanOf(trace)}),
              HasSubstr("--plan: policy best-fit"));
  EXPECT_THAT(ErrorOf({"replay", trace}), HasSubstr("--pool is missing"));
  ErrorOf({"replay", trace, "--policy", "planned", "--time-limit", "-1"});
  ErrorOf({"replay", trace, "--policy", "planned", "--pool", "-1"});
}

TEST_F(PlannedCommand, IsAPolicyOfSize) {
  const json size = Size(File("hard.csv", kHard));
  EXPECT_EQ(size["policy"], "planned");
  EXPECT_EQ(size["pool_bytes"], 18432);
  EXPECT_EQ(size["overhead"], 18432.0 / 17920);
  EXPECT_EQ(size["attempts"], 1);
  EXPECT_EQ(size["exact_pool_bytes"], 18432);
  EXPECT_EQ(size["serves_all_larger"], true);
  const json all = Answer({"size", File("paper.csv", kPaper)})["policies"];
  EXPECT_EQ(all.back()["policy"], "planned");
  EXPECT_EQ(all.size(), PlacementPolicyNames().size());
  EXPECT_THAT(Run({"size", folder_ / "paper.csv"}).out, HasSubstr("planned"));
}

// All rows of a table let streams wait, as a pool does. Another column has the pools without waits.
TEST_F(PlannedCommand, HasOneRuleForTheStreamsOfAllPolicies) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("x", 512, Hint::kResident, "s", 0).ok());
  ASSERT_TRUE(builder.Free("x", "s", 1));
  ASSERT_TRUE(builder.Allocate("y", 512, Hint::kResident, "t", 2).ok());
  ASSERT_TRUE(builder.Free("y", "t", 3));
  const std::string trace = folder_ / "two.tide";
  ASSERT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, trace).ok());
  const json sizes = Answer({"size", trace});
  for (const json& size : sizes["policies"]) {
    if (size["policy"].get<std::string>().starts_with("pytorch")) continue;
    EXPECT_EQ(size["pool_bytes"], 512) << size;
    EXPECT_EQ(size["exact_pool_bytes"], 512) << size;
    EXPECT_EQ(size["serves_all_larger"], true) << size;
    EXPECT_EQ(size["pool_bytes_without_waits"], 1024) << size;
  }
  EXPECT_EQ(Answer({"size", trace, "--plan"})["plan"]["pool_bytes"], 1024);
  const std::string text = Run({"size", trace, "--plan"}).out;
  EXPECT_THAT(text, HasSubstr("without waits"));
  EXPECT_THAT(text,
              HasSubstr("2 streams, 0 recorded waits: streams wait for memory of each other"));
  const char* unless =
      "the smallest possible unless streams wait for memory (2 streams, 0 recorded";
  EXPECT_THAT(text, HasSubstr(unless));
  EXPECT_THAT(Run({"plan", trace}).out, HasSubstr(unless));
  const json report = Answer({"report", trace, "-o", folder_ / "x.html"});
  EXPECT_EQ(report["policies"].back()["pool_bytes"], 512);
  EXPECT_THAT(report["headline"].get<std::string>(),
              HasSubstr("a plan without such waits needs 1.0 KiB"));
  EXPECT_EQ(Run({"replay", trace, "--pool", "512"}).status, 0);
  // A pool that is too small for the plan without waits follows one with waits.
  for (const char* device : {"none", "host"}) {
    for (const bool waits : {true, false}) {
      const json replay = Replay(trace, {"--device", device, "--pool", waits ? "512" : "1024"});
      EXPECT_EQ(replay["planned"]["streams_wait"], waits);
      EXPECT_EQ(replay["planned"]["deviations"], 0);
      EXPECT_EQ(replay["planned"]["plan_bytes"], waits ? 512 : 1024);
    }
  }
  // A log without waits needs none for a plan.
  const std::string log = File("two.csv",
                               "op,id,size,hint,stream\n"
                               "a,x,512,,s\nf,x,,,s\na,y,512,,t\nf,y,,,t\n");
  EXPECT_EQ(Size(log)["exact_pool_bytes"], 512);
  EXPECT_EQ(Size(log)["pool_bytes_without_waits"], nullptr);
  EXPECT_THAT(Run({"size", log}).out, Not(HasSubstr("without waits")));
}

// Makes iterations of which some are marked.
TEST_F(PlannedCommand, ShowsWhatAPoolLearns) {
  for (const bool is_marked : {true, false}) {
    std::string text = "op,id,size,hint\na,weights,5000,\n";
    for (int iteration = 0; iteration < 20; ++iteration) {
      if (is_marked) text += "m,iteration,,\n";
      for (int i = 0; i < 40; ++i) absl::StrAppend(&text, "a,", i, ",", 1000 * (i % 7 + 1), ",\n");
      for (int i = 0; i < 40; ++i) absl::StrAppend(&text, "f,", (i * 7 + 3) % 40, ",,\n");
    }
    const json learned = Answer({"replay", File("steps.csv", text), "--policy", "planned",
                                 "--learn", "--pool", "1MiB", "--device", "host", "--verify"});
    EXPECT_EQ(learned["planned"]["plans"], 1);
    EXPECT_EQ(learned["planned"]["deviations"], 0);
    EXPECT_GE(learned["planned"]["planned"], 40 * (is_marked ? 18 : 10));
    EXPECT_EQ(learned["verified"], true);
  }
  const std::string trace = File("hard.csv", kHard);
  EXPECT_THAT(ErrorOf({"replay", trace, "--policy", "planned", "--learn", "--pool", "1MiB"}),
              HasSubstr("--learn"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--learn", "--pool", "1MiB", "--device", "host"}),
              HasSubstr("--learn"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--policy", "planned", "--learn", "--device", "host"}),
              HasSubstr("--pool"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--policy", "planned", "--learn", "--device", "host",
                       "--pool", "1MiB", "--plan", PlanOf(trace)}),
              HasSubstr("--learn"));
}

TEST_F(PlannedCommand, LearnsFromTheShippedSteps) {
  const std::string trace = testing::ExampleTraces() / "resnet-50-b32-12-steps.tide.gz";
  const json learned = Answer({"replay", trace, "--policy", "planned", "--learn", "--pool", "3GiB",
                               "--device", "host"})["planned"];
  EXPECT_EQ(learned["plans"], 1);
  EXPECT_EQ(learned["deviations"], 0);
  EXPECT_GE(learned["iterations"], 10);
  EXPECT_GE(learned["planned"], 4'000);
  EXPECT_EQ(learned["why_no_plans"], nullptr);
}

TEST_F(PlannedCommand, SaysWhyAPoolLearnsNothing) {
  const auto reason = [&](const std::string& trace) {
    const std::vector<std::string> command = {"replay", trace,   "--policy", "planned", "--learn",
                                              "--pool", "10GiB", "--device", "host"};
    const json planned = Answer(command)["planned"];
    EXPECT_EQ(planned["plans"], 0);
    const std::string text = planned["why_no_plans"];
    EXPECT_THAT(Run(command).out, HasSubstr("no plan: " + text));
    return text;
  };
  for (const auto& path : testing::Cases(testing::FilesIn(testing::ExampleTraces(), ".csv.gz"))) {
    SCOPED_TRACE(path);
    EXPECT_THAT(reason(path), HasSubstr("record at least five equal steps"));
  }
  EXPECT_THAT(reason(testing::ExampleTraces() / "vgg16-b4-sgd.rmm.csv.gz"),
              HasSubstr("no marks named 'iteration', and no two equal iterations in a row: at best "
                        "781 of 782 requests repeat"));
  EXPECT_THAT(reason(testing::ExampleTraces() / "resnet50-b4-sgd.rmm.csv.gz"),
              HasSubstr("the trace ends soon after the first equal iterations, of 1,731 requests"));
  EXPECT_THAT(reason(File("few.csv", "op,id,size,hint\na,x,512,\na,y,1024,\n")),
              HasSubstr("no request repeats with the same bytes live"));
  EXPECT_THAT(reason(File("one.csv", "op,id,size,hint\nm,iteration,,\na,x,512,\n")),
              HasSubstr("1 marked iterations: the pool plans after two equal ones"));
  EXPECT_THAT(reason(File("differ.csv",
                          "op,id,size,hint\nm,iteration,,\na,x,512,\nm,iteration,,\na,y,5120,\n")),
              HasSubstr("2 marked iterations, and no two with the same requests: the pool plans"));
}

TEST_F(PlannedCommand, NeedsNoMoreThanAnyOtherPolicy) {
  const std::string trace = testing::ExampleTraces() / "resnet50-b4-sgd.rmm.csv.gz";
  const json answer = Answer({"size", trace, "--time-limit", "1000"});
  const json& planned = answer["policies"].back();
  EXPECT_EQ(planned["pool_bytes"], answer["trace"]["peak_live_bytes"]);
  for (const json& policy : answer["policies"]) {
    EXPECT_LE(planned["pool_bytes"], policy["pool_bytes"]);
  }
}

TEST_F(PlannedCommand, IsInTheReport) {
  const json answer =
      Answer({"report", File("hard.csv", kHard), "-o", folder_ / "x.html"})["policies"];
  EXPECT_EQ(answer.back()["policy"], "planned");
  EXPECT_EQ(answer.back()["exact_pool_bytes"], 18432);
}

// Makes more streams than a plan supports.
TEST_F(PlannedCommand, IsLeftOutOfTablesOfTracesThatCannotBePlanned) {
  TraceBuilder builder(TraceFormat::kNative);
  for (int i = 0; i < 1025; ++i) {
    const std::string name = absl::StrCat(i);
    ASSERT_TRUE(builder.Allocate(name, 512, Hint::kResident, name, i).ok());
  }
  const std::string trace = folder_ / "streams.tide";
  ASSERT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, trace).ok());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"size", trace},
        std::vector<std::string>{"report", trace, "-o", folder_ / "x.html"}}) {
    const json policies = Answer(command)["policies"];
    EXPECT_EQ(policies.size(), PlacementPolicyNames().size() - 1);
    EXPECT_EQ(policies[0]["policy"], "best-fit");
    std::vector<std::string> asked = command;
    asked.insert(asked.end(), {"--policy", "planned"});
    EXPECT_THAT(ErrorOf(asked), HasSubstr("streams.tide: 1025 streams, expected"));
  }
  EXPECT_THAT(ErrorOf({"size", trace, "--plan"}), HasSubstr("1025 streams"));
  EXPECT_THAT(ErrorOf({"replay", trace, "--policy", "planned"}), HasSubstr("1025 streams"));
}

TEST_F(PlannedCommand, LaysOutSnapshots) {
  const std::string trace = File("paper.csv", kPaper);
  const std::string snapshot = folder_ / "x.pickle";
  ASSERT_EQ(Run({"convert", trace, snapshot, "--policy", "planned"}).status, 0);
  EXPECT_EQ(Answer({"size", snapshot})["recorded"]["peak_reserved_bytes"], 4608);
}

}  // namespace
}  // namespace tidepool
