// SPDX-License-Identifier: Apache-2.0
// Tests sweeps of `tidepool simulate`: values, tables, questions and errors. sweep_test.py compares
// the points with single runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/sizes.h"
#include "tests/trace_replay/command_line.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"
#include "trace_replay/offload/sweep_values.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SweepValues, AreListsAndRanges) {
  const auto sizes = tool::ParseSizes("1GiB..2GiB/256MiB,512,4G");
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_TRUE(sizes->is_sweep);
  EXPECT_THAT(sizes->values,
              ElementsAre(kGiB, kGiB * 5 / 4, kGiB * 3 / 2, kGiB * 7 / 4, 2 * kGiB, 512, 4 * kGiB));
  EXPECT_THAT(tool::ParseSizes("1..10/4")->values, ElementsAre(1, 5, 9));
  EXPECT_THAT(tool::ParseWholes("3..6,9", {1, 9})->values, ElementsAre(3, 4, 5, 6, 9));
  EXPECT_THAT(tool::ParseNames("a,,b")->values, ElementsAre("a", "", "b"));
}

TEST(SweepValues, OneValueIsASweepOnlyInARange) {
  EXPECT_FALSE(tool::ParseSizes("8GiB")->is_sweep);
  EXPECT_FALSE(tool::ParseNames("vdnn")->is_sweep);
  const auto range = tool::ParseSizes("8GiB..8GiB/1GiB");
  EXPECT_TRUE(range->is_sweep);
  EXPECT_THAT(range->values, ElementsAre(8 * kGiB));
}

TEST(SweepValues, LargeRangesEnd) {
  EXPECT_THAT(
      tool::ParseSizes("4611686018427387903..4611686018427387904/4611686018427387904")->values,
      ElementsAre(4611686018427387903));
  EXPECT_EQ(tool::ParseSizes("1..10000/1")->values.size(), 10'000);
  for (const char* text : {"1..10001/1", "1..10000/1,5", "0..4611686018427387904/1"}) {
    EXPECT_THAT(std::string(tool::ParseSizes(text).status().message()),
                HasSubstr("has too many values, expected at most 10000"))
        << text;
  }
}

TEST(SweepValues, WrongOnesAreRefused) {
  for (const char* text : {"", ",", "1GiB,", "1..", "..1", "1../1", "..2/1", "1..2", "1..2/",
                           "2..1/1", "1..2/0", "1..2/x", "1..2..3/1", "1...2/1", "x"}) {
    const auto sizes = tool::ParseSizes(text);
    EXPECT_FALSE(sizes.ok()) << text;
    EXPECT_THAT(std::string(sizes.status().message()), HasSubstr("expected")) << text;
  }
}

class Sweep : public CommandLine {
 protected:
  Outcome Simulate(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"simulate", "alexnet", "--gpu", "gtx-1080-ti"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
  std::string Refusal(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"simulate", "alexnet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  }
};

TEST_F(Sweep, PrintsATableOfItsPoints) {
  const Outcome outcome = Simulate(
      {"--batch", "128", "--memory", "512MiB,2GiB", "--policy", "none,vdnn++", "--offload", "all"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(
      outcome.out,
      "  alexnet                    memory      iteration   slowdown   to the host      pool\n"
      "  none, batch 128         512.0 MiB   does not fit\n"
      "  none, batch 128           2.0 GiB      82.649 ms     1.087x           0 B   1.4 GiB\n"
      "  vdnn++ all, batch 128   512.0 MiB   does not fit\n"
      "  vdnn++ all, batch 128     2.0 GiB     108.693 ms     1.429x     452.7 MiB   1.3 GiB\n");
}

TEST_F(Sweep, AnswersWhichMemorySuffices) {
  const Outcome outcome =
      Simulate({"--batch", "128", "--memory", "512MiB..2GiB/256MiB", "--policy", "none,vdnn++",
                "--offload", "dynamic", "--smallest-memory", "--slowdown", "1.5"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              ::testing::EndsWith(
                  "\n"
                  "  smallest memory with a slowdown of at most 1.5x             slowdown\n"
                  "    none, batch 128                                 1.5 GiB     1.087x\n"
                  "    vdnn++ dynamic, batch 128                       1.5 GiB     1.087x\n"));
}

TEST_F(Sweep, AQuestionWithoutAnAnswerIsANo) {
  const std::vector<std::string> sweep = {"--batch", "128,256", "--memory", "1GiB"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sweep.begin(), sweep.end());
    return Simulate(more);
  };
  EXPECT_EQ(with({"--policy", "vdnn++", "--offload", "dynamic"}).status, 0);
  Outcome outcome = with({"--offload", "dynamic", "--smallest-memory", "--slowdown", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out,
              ::testing::EndsWith(
                  "\n"
                  "  smallest memory with a slowdown of at most 1x                     slowdown\n"
                  "    vdnn++ dynamic, batch 128                     more than these\n"
                  "    vdnn++ dynamic, batch 256                     more than these\n"));
  outcome = with({"--offload", "dynamic", "--largest-batch", "--slowdown", "1", "--json"});
  EXPECT_EQ(outcome.status, 2);
  const json answer = json::parse(outcome.out);
  EXPECT_EQ(answer["largest_batch"],
            json::parse(R"([{"policy": "vdnn++", "offload": "dynamic", "memory_bytes": 1073741824,
                             "batch": null, "overhead": null}])"));
  EXPECT_FALSE(answer.contains("smallest_memory"));
  EXPECT_EQ(with({"--policy", "none"}).status, 2) << "no point fits";
}

TEST_F(Sweep, OneMemoryInARangeHasAnArrayOfPoints) {
  const Outcome outcome = Simulate({"--batch", "8", "--memory", "2GiB..2GiB/1GiB", "--json"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(json::parse(outcome.out)["points"].size(), 1);
}

// Points are computed in the order of their memories, and printed in the order of the option.
TEST_F(Sweep, BestIsNeverSlowerInMoreMemory) {
  const Outcome outcome =
      Simulate({"--batch", "64", "--memory", "700MiB,400MiB,550MiB,600MiB", "--policy", "best",
                "--memory-kind", "paged", "--time-limit", "20ms", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const json points = json::parse(outcome.out)["points"];
  ASSERT_EQ(points.size(), 4);
  EXPECT_EQ(points[0]["memory_bytes"], 700 * kMiB);
  EXPECT_FALSE(points[1]["fits"]);
  EXPECT_LE(points[3]["seconds"], points[2]["seconds"]);
  EXPECT_LE(points[0]["seconds"], points[3]["seconds"]);
}

TEST_F(Sweep, GraphsOfFilesHaveABatchOfTheirOwn) {
  const std::string path = folder_ / "graph.json";
  ASSERT_EQ(WriteGraph(*MakeModel("alexnet", {.batch = 8}), path), absl::OkStatus());
  const Outcome outcome =
      Run({"simulate", path, "--memory", "1GiB,2GiB", "--policy", "none", "--json"});
  EXPECT_EQ(json::parse(outcome.out)["points"][1]["batch"], 8);
  EXPECT_THAT(ErrorOf({"simulate", path, "--memory", "1GiB", "--gpu", "v100"}),
              HasSubstr("graph.json has times of its own, expected the name of a network"));
  EXPECT_THAT(ErrorOf({"simulate", path, "--memory", "1GiB", "--batch", "4"}),
              HasSubstr("a graph of batch 8 has one batch, expected no --batch"));
}

TEST_F(Sweep, GraphsAtAnyBatchTakeBatches) {
  const std::string path = folder_ / "family.json";
  ASSERT_EQ(Run({"model", "alexnet", "--family", "--batches", "4,8", "-o", path}).status, 0);
  const auto simulate = [&](const std::string& graph) {
    return Run({"simulate", graph, "--memory", "1GiB,2GiB", "--batch", "4,8", "--json"});
  };
  const Outcome outcome = simulate(path);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, simulate("alexnet").out);
  EXPECT_THAT(ErrorOf({"simulate", path, "--memory", "1GiB"}),
              HasSubstr("family.json: a graph at any batch, expected --batch too"));
  EXPECT_THAT(ErrorOf({"simulate", path, "--memory", "1GiB", "--batch", "9"}),
              HasSubstr("family.json: no times for batch 9, expected 4 to 8"));
  EXPECT_THAT(ErrorOf({"simulate", path, "--memory", "1GiB", "--batch", "4", "--gpu", "v100"}),
              HasSubstr("family.json has times of its own"));
  EXPECT_EQ(Run({"run", path, "--memory", "1GiB", "--batch", "5", "--scale", "0", "--iterations",
                 "1", "--link", "1TB/s"})
                .status,
            0);
  EXPECT_THAT(ErrorOf({"run", path, "--memory", "1GiB"}), HasSubstr("expected --batch too"));
}

TEST_F(Sweep, WhatContradictsItselfIsRefused) {
  EXPECT_THAT(
      Refusal({"--memory", "1GiB"}),
      HasSubstr("--batch is missing, expected the samples of an iteration of alexnet, 1 to"));
  EXPECT_THAT(Refusal({"--batch", "0,1", "--memory", "1GiB"}),
              HasSubstr("--batch: '0', expected a whole number from 1 to 1048576"));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "4GiB..8GiB"}),
              HasSubstr("--memory: '4GiB..8GiB' has no step, expected FIRST..LAST/STEP"));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "1GiB", "--slowdown", "1.1"}),
              HasSubstr("--slowdown: a limit for --smallest-memory or --largest-batch"));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "1GiB,2GiB", "--timeline", folder_ / "t"}),
              HasSubstr("--timeline: a file for one iteration, expected one memory"));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "1GiB", "--csv", "--json"}),
              HasSubstr("--csv: --json prints the points too: remove one of the two"));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "1GiB", "--svg", "/dev/stdout", "--json"}),
              HasSubstr("--svg: the drawing goes to standard output"));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "1GiB", "--svg", "x.png"}),
              HasSubstr("--svg: x.png, expected a name that ends in .svg"));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "1GiB", "--policy", "none,bane"}),
              HasSubstr("no offload policy 'bane', expected one of none, base, vdnn, vdnn++, "));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "1GiB", "--offload", "all,"}),
              HasSubstr("no set of layers '', expected one of all, conv, aconv, dynamic"));
  EXPECT_THAT(Refusal({"--batch", "1..200", "--memory", "1..200/1"}),
              HasSubstr("40000 points, expected at most 10000"));
  EXPECT_THAT(Refusal({"--batch", "1", "--memory", "1GiB", "--svg", folder_ / "no" / "x.svg"}),
              HasSubstr("x.svg"));
}

// Names of graphs are of any file.
TEST_F(Sweep, NamesAreSafeInEachOutput) {
  TaskGraph graph = *MakeModel("alexnet", {.batch = 8});
  graph.name = "a,\"b\"\n\x1b[31m<script>";
  const std::string path = folder_ / "graph.json";
  ASSERT_EQ(WriteGraph(graph, path), absl::OkStatus());
  EXPECT_THAT(Run({"simulate", path, "--memory", "1GiB,2GiB"}).out,
              AllOf(HasSubstr("a,\\\"b\\\"\\n\\x1b[31m"), ::testing::Not(HasSubstr("\x1b"))));
  EXPECT_THAT(Run({"simulate", path, "--memory", "1GiB,2GiB", "--csv"}).out,
              HasSubstr("\n\"a,\"\"b\"\"\n"));
  const Outcome drawing = Run({"simulate", path, "--memory", "1GiB", "--svg", "/dev/stdout"});
  EXPECT_EQ(drawing.status, 0) << drawing.err;
  EXPECT_THAT(drawing.out, AllOf(::testing::StartsWith("<svg "), HasSubstr("\\x1b"),
                                 ::testing::Not(HasSubstr("<script>"))));
}

}  // namespace
}  // namespace tidepool
