// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool plan` and `size --plan`: their output, their files and their exit status.
#include "tidepool/trace/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/support/random_problem.h"
#include "tests/trace_replay/command_line.h"
#include "tests/trace_replay/hard_trace.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using nlohmann::json;
using testing::Contents;
using ::testing::HasSubstr;

class PlanCommand : public CommandLine {
 protected:
  // Returns the offsets in a written file. Its rows must begin with those of `rows`.
  std::vector<std::int64_t> Offsets(const std::string& path, const std::string& rows) {
    std::istringstream expected(rows);
    std::ifstream file(path);
    std::vector<std::int64_t> offsets;
    std::string row;
    std::string line;
    while (std::getline(expected, row) && std::getline(file, line)) {
      EXPECT_EQ(line.substr(0, row.size() + 1), row + ",");
      if (row.starts_with("id")) {
        EXPECT_EQ(line, row + ",offset");
      } else {
        offsets.push_back(std::stoll(line.substr(row.size() + 1)));
      }
    }
    EXPECT_FALSE(std::getline(file, line));
    return offsets;
  }

  // A trace that takes a planner minutes.
  std::string BusyTrace() {
    std::mt19937_64 random(7);
    std::string text = "id,lower,upper,size\n";
    const PlanProblem problem = testing::CutRectangle(random, 1'500, 100'000, 100);
    for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
      const PlanBuffer& buffer = problem.buffers[i];
      text += std::to_string(i) + "," + std::to_string(buffer.lower) + "," +
              std::to_string(buffer.upper) + "," + std::to_string(buffer.bytes) + "\n";
    }
    return File("busy.csv", text);
  }
};

TEST_F(PlanCommand, PrintsTheContractsObject) {
  const Outcome outcome = Run({"plan", File("hard.csv", kHard), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json answer = json::parse(outcome.out);
  EXPECT_EQ(answer["pool_bytes"], 18432);
  EXPECT_EQ(answer["overhead"], 18432.0 / 17920);
  EXPECT_EQ(answer["lower_bound_bytes"], 18432);
  EXPECT_EQ(answer["optimal"], true);
  EXPECT_EQ(answer["buffers"], 9);
  EXPECT_GE(answer["seconds"], 0);
  EXPECT_EQ(answer["fits"], nullptr);
  EXPECT_EQ(answer["interrupted"], false);
}

// Returns the buffers of `csv`, one a row.
PlanProblem ProblemOfRows(const std::string& csv) {
  PlanProblem problem;
  std::istringstream rows(csv);
  std::string row;
  std::getline(rows, row);
  while (std::getline(rows, row)) {
    PlanBuffer buffer;
    char comma = 0;
    std::istringstream fields(row.substr(row.find(',') + 1));
    fields >> buffer.lower >> comma >> buffer.upper >> comma >> buffer.bytes;
    problem.buffers.push_back(buffer);
  }
  return problem;
}

TEST_F(PlanCommand, WritesTheRowsWithOffsets) {
  const std::string plan = folder_ / "plan.csv";
  ASSERT_EQ(Run({"plan", File("hard.csv", kHard), "-o", plan}).status, 0);
  EXPECT_TRUE(ValidatePlan(ProblemOfRows(kHard), Offsets(plan, kHard), 18432).ok());
}

TEST_F(PlanCommand, WritesEventIndicesForOtherFormats) {
  const std::string plan = folder_ / "plan.csv";
  ASSERT_EQ(Run({"plan", File("paper.csv", kPaper), "-o", plan}).status, 0);
  const std::vector<std::int64_t> offsets = Offsets(
      plan, "id,lower,upper,size\n1,0,5,2560\n2,1,3,1024\n3,2,6,512\n4,4,8,512\n5,7,8,4096\n");
  EXPECT_EQ(offsets.size(), 5);
  for (const std::int64_t offset : offsets) EXPECT_EQ(offset % 512, 0);
}

TEST_F(PlanCommand, AnswersWhetherItFits) {
  const std::string trace = File("hard.csv", kHard);
  const std::string plan = folder_ / "plan.csv";
  const Outcome fits = Run({"plan", trace, "--capacity", "18KiB", "--json", "-o", plan});
  EXPECT_EQ(fits.status, 0);
  EXPECT_EQ(json::parse(fits.out)["fits"], true);
  EXPECT_TRUE(std::filesystem::exists(plan));
  std::filesystem::remove(plan);
  const Outcome tight = Run({"plan", trace, "--capacity", "18431", "--json", "-o", plan});
  EXPECT_EQ(tight.status, 2);
  EXPECT_EQ(json::parse(tight.out)["fits"], false);
  EXPECT_FALSE(std::filesystem::exists(plan));
  const Outcome tiny = Run({"plan", trace, "--capacity", "9215", "--json"});
  EXPECT_EQ(tiny.status, 2);
  EXPECT_EQ(json::parse(tiny.out)["too_large"], json({{"id", "a"}, {"bytes", 9216}}));
  EXPECT_EQ(json::parse(tiny.out)["pool_bytes"], nullptr);
  EXPECT_THAT(Run({"plan", trace, "--capacity", "9215"}).out, HasSubstr("allocation a alone"));
}

TEST_F(PlanCommand, AlwaysHasAPlan) {
  const Outcome outcome = Run({"plan", BusyTrace(), "--time-limit", "0", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json answer = json::parse(outcome.out);
  EXPECT_GE(answer["pool_bytes"], answer["lower_bound_bytes"]);
  EXPECT_EQ(answer["timed_out"], true);
  EXPECT_EQ(answer["optimal"], false);
}

TEST_F(PlanCommand, TakesATraceOfNothing) {
  const std::string trace = File("marks.csv", "op,id,size,hint\nm,begin,,\n");
  const std::string plan = folder_ / "plan.csv";
  const Outcome outcome = Run({"plan", trace, "--json", "-o", plan, "--capacity", "0"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["pool_bytes"], 0);
  EXPECT_EQ(json::parse(outcome.out)["optimal"], true);
  EXPECT_EQ(Contents(plan), "id,lower,upper,size,offset\n");
}

TEST_F(PlanCommand, GivesWhatItHasWhenItIsInterrupted) {
  const std::string file = BusyTrace();
  const std::string plan = folder_ / "plan.csv";
  const json answer = InterruptedJson({"plan", file, "--time-limit", "1000000", "-o", plan});
  EXPECT_EQ(answer["interrupted"], true);
  EXPECT_GE(answer["pool_bytes"], answer["lower_bound_bytes"]);
  const absl::StatusOr<Trace> trace = ReadTrace(file);
  const PlanProblem problem = *ToPlanProblem(*trace, 1);
  const absl::StatusOr<PlanFile> written = ReadPlan(plan);
  ASSERT_TRUE(written.ok()) << written.status();
  const auto offsets = OffsetsFor(*written, *trace, 1);
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  EXPECT_TRUE(ValidatePlan(problem, *offsets, answer["pool_bytes"]).ok());
}

TEST_F(PlanCommand, RefusesBadArgumentsInOneLine) {
  const std::string trace = File("hard.csv", kHard);
  ErrorOf({"plan"});
  ErrorOf({"plan", trace, "--capacity", "-1"});
  ErrorOf({"plan", trace, "--time-limit", "-1"});
  EXPECT_THAT(ErrorOf({"plan", trace, "--time-limit", "nan"}), HasSubstr("--time-limit: 'nan'"));
  EXPECT_THAT(ErrorOf({"plan", trace, "--time-limit", "inf"}), HasSubstr("--time-limit"));
  EXPECT_THAT(ErrorOf({"plan", trace, "-o", folder_ / "no" / "plan.csv"}), HasSubstr("plan.csv: "));
  EXPECT_THAT(ErrorOf({"plan", trace, "--json", "-o", "/dev/stdout"}), HasSubstr("--json"));
  EXPECT_THAT(ErrorOf({"plan", File("bad.csv", "id,lower,upper,size\na,2,2,1\n")}),
              HasSubstr("bad.csv:2: upper 2"));
}

TEST_F(PlanCommand, RefusesRowsThatAreNone) {
  const auto error = [&](const std::string& rows) {
    return ErrorOf({"plan", File("bad.csv", "id,lower,upper,size\n" + rows)});
  };
  EXPECT_THAT(error("a,0,5,1\na,3,7,1\n"), HasSubstr("bad.csv:3: id 'a' is allocated again while"));
  EXPECT_THAT(error("a,6,5,1\n"), HasSubstr("bad.csv:2: upper 5 after lower 6"));
  EXPECT_THAT(error("a,0,5,0\n"), HasSubstr("bad.csv:2: size '0'"));
  EXPECT_THAT(error("a,0,5,4611686018427387904\n"), HasSubstr("bad.csv:2: size '46116860184"));
  EXPECT_THAT(error("a,0,5,9223372036854775808\n"), HasSubstr("bad.csv:2: size '92233720368"));
  EXPECT_THAT(error("a,0,9223372036854775808,1\n"), HasSubstr("bad.csv:2: upper '92233720368"));
  EXPECT_THAT(error("a,0,5,1099511627776\nb,0,5,1125899906842624\n"),
              HasSubstr("bad.csv: more than 16.0 TiB (17592186044415 bytes) are live"));
}

// These times are equal as doubles.
TEST_F(PlanCommand, KeepsTimesBeyondWhatADoubleHolds) {
  const std::string rows =
      "id,lower,upper,size\n"
      "c,-9223372036854775808,9007199254740994,9\n"
      "a,9007199254740993,9007199254740995,7\n"
      "b,9007199254740994,9223372036854775807,8\n"
      "d,9007199254740995,9007199254740996,8\n";
  const std::string plan = folder_ / "plan.csv";
  const Outcome outcome = Run({"plan", File("far.csv", rows), "--json", "-o", plan});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["pool_bytes"], 16);
  EXPECT_EQ(json::parse(outcome.out)["optimal"], true);
  const std::vector<std::int64_t> offsets = Offsets(plan, rows);
  const absl::StatusOr<Trace> trace = ReadTrace(folder_ / "far.csv");
  EXPECT_TRUE(ValidatePlan(*ToPlanProblem(*trace, 1), offsets, 16).ok());
}

TEST_F(PlanCommand, SizePlansWhenAsked) {
  const std::string trace = File("hard.csv", kHard);
  const json without = json::parse(Run({"size", trace, "--json"}).out);
  EXPECT_FALSE(without.contains("plan"));
  const json with = json::parse(Run({"size", trace, "--plan", "--json"}).out);
  EXPECT_EQ(with["plan"]["pool_bytes"], 18432);
  EXPECT_EQ(with["plan"]["lower_bound_bytes"], 18432);
  EXPECT_EQ(with["plan"]["optimal"], true);
  EXPECT_THAT(Run({"size", trace, "--plan"}).out, HasSubstr("the smallest possible"));
}

// An engine that loads, and two kinds of batches.
constexpr char kServing[] =
    "op,id,size,hint\n"
    "m,load,,\na,w,3000000,\na,tmp,500000,\nf,tmp,,\n"
    "m,cache,,\na,kv,50000000,\n"
    "m,prefill,,\na,x,800000,\na,logits,64000,\nf,x,,\n"
    "m,decode,,\nf,logits,,\na,x,100000,\nf,x,,\na,logits,1000,\n"
    "m,decode,,\nf,logits,,\n";

TEST_F(PlanCommand, FindsTheMemoryOfAllOrdersOfPhases) {
  const std::string trace = File("serving.csv", kServing);
  const Outcome run = Run({"plan", trace, "--regions", "--without", "cache", "--align", "1",
                           "--capacity", "80MB", "--block", "2MB", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json answer = json::parse(run.out);
  EXPECT_EQ(answer["kept_bytes"], 3000000);
  EXPECT_EQ(answer["handed_bytes"], 64000);
  EXPECT_EQ(answer["areas"], 2);
  EXPECT_EQ(answer["work_bytes"], 800000);
  EXPECT_EQ(answer["needed_bytes"], 3928000);
  EXPECT_EQ(answer["blocks"], 38);
  EXPECT_EQ(answer["fits"], true);
  ASSERT_EQ(answer["phases"].size(), 3);
  EXPECT_EQ(answer["phases"][2], json({{"name", "decode"},
                                       {"times", 2},
                                       {"kept_bytes", 0},
                                       {"handed_bytes", 1000},
                                       {"work_bytes", 100000},
                                       {"beside_bytes", 0}}));
  EXPECT_EQ(answer["before_bytes"], 3500000);
  const Outcome text = Run({"plan", trace, "--regions", "--capacity", "1MiB"});
  EXPECT_EQ(text.status, 2);
  EXPECT_THAT(text.out, HasSubstr("does not fit into 1.0 MiB"));
}

// Graphs are captured beside the cache, and the load before it needs more than all batches.
TEST_F(PlanCommand, CountsPhasesBeforeACacheAndBesideIt) {
  const std::string trace = File("capture.csv",
                                 "op,id,size,hint\n"
                                 "m,load,,\na,w,3145728,\na,tmp,5242880,\nf,tmp,,\n"
                                 "m,cache,,\na,kv,52428800,\n"
                                 "m,capture,,\na,graph,1048576,\na,warm,524288,\nf,warm,,\n"
                                 "m,decode,,\na,x,1048576,\nf,x,,\n");
  const std::vector<std::string> plan = {"plan",       trace,  "--regions", "--without", "cache",
                                         "--capacity", "8MiB", "--block",   "1MiB"};
  EXPECT_THAT(Text(plan), HasSubstr("\n  any order needs 5.0 MiB: 4.0 MiB kept, 0 x 0 B handed on, "
                                    "1.0 MiB to work in\n"
                                    "  capture beside a full cache needs 1.5 MiB of it\n"
                                    "  the phases before cache need 8.0 MiB\n"
                                    "  fits into 8.0 MiB, beside 3 blocks of 1.0 MiB\n"));
  const Outcome small = Run({"plan", trace, "--regions", "--without", "cache", "--capacity", "7MiB",
                             "--block", "1MiB", "--json"});
  EXPECT_EQ(small.status, 2);
  const json answer = json::parse(small.out);
  EXPECT_EQ(answer["fits"], false);
  EXPECT_EQ(answer["needed_bytes"], 5 << 20);
  EXPECT_EQ(answer["before_bytes"], 8 << 20);
  EXPECT_EQ(answer["blocks"], 0);
  EXPECT_EQ(answer["phases"][1]["beside_bytes"], 3 << 19);
}

TEST_F(PlanCommand, RefusesPhasesThatItCannotFind) {
  const std::string trace = File("serving.csv", kServing);
  EXPECT_THAT(ErrorOf({"plan", trace, "--regions", "--without", "cash"}),
              HasSubstr("no phase \"cash\", expected one of load, cache, prefill, decode"));
  EXPECT_THAT(ErrorOf({"plan", trace, "--regions", "-o", File("plan.csv", "")}),
              HasSubstr("--output"));
  EXPECT_THAT(ErrorOf({"plan", trace, "--without", "load"}), HasSubstr("--regions"));
  EXPECT_THAT(ErrorOf({"plan", trace, "--regions", "--capacity", "1GB", "--block", "0"}),
              HasSubstr("--block"));
  EXPECT_THAT(ErrorOf({"plan", trace, "--regions", "--block", "1MB"}), HasSubstr("--capacity"));
  const std::string plain = File("plain.csv", "op,id,size,hint\na,x,1,\n");
  EXPECT_THAT(ErrorOf({"plan", plain, "--regions"}), HasSubstr("no marks"));
}

}  // namespace
}  // namespace tidepool
