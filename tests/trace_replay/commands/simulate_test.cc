// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool simulate`: its output, its files and its errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/paper_models.h"
#include "tests/support/pool_schedule.h"
#include "tests/support/shared_files.h"
#include "tests/trace_replay/command_line.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SimulateCommand : public CommandLine {
 protected:
  SimulateCommand() : graph_(*MakeModel("alexnet", testing::PaperModel(128, "gtx-1080-ti"))) {
    path_ = folder_ / "graph.json";
    EXPECT_EQ(WriteGraph(graph_, path_), absl::OkStatus());
  }

  json Answer(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"simulate", path_, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  std::string Refusal(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"simulate", path_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  }

  TaskGraph graph_;
  std::string path_;
};

// Returns the tried pools with this order and placement.
json Tried(const json& answer, const json& order, const json& placement) {
  for (const json& trial : answer["pools_tried"]) {
    if (trial["order"] == order && trial["placement"] == placement) return trial;
  }
  return {};
}

TEST_F(SimulateCommand, TriesOrdersAndPlacementsForTheSmallestPool) {
  const std::vector<std::string> mode = {"--offload", "all", "--memory", "4GiB"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), mode.begin(), mode.end());
    return Answer(more);
  };
  const json both = with({"--order", "best", "--placement", "best"});
  EXPECT_EQ(both["pools_tried"].size(), 2 * PlacementPolicyNames().size());
  const json taken = Tried(both, both["order"], both["placement"]);
  EXPECT_EQ(taken["fits"], true);
  for (const json& trial : both["pools_tried"]) EXPECT_GE(trial["pool_bytes"], taken["pool_bytes"]);
  const json orders = with({"--order", "best", "--placement", "best-fit"});
  EXPECT_EQ(orders["pools_tried"].size(), 2);
  EXPECT_EQ(orders["placement"], "best-fit");
  EXPECT_EQ(Tried(orders, "derivative-first", "best-fit"),
            Tried(both, "derivative-first", "best-fit"));
  const json placements = with({"--placement", "best"});
  EXPECT_EQ(placements["order"], "prefetch-first");
  EXPECT_EQ(placements["pools_tried"].size(), PlacementPolicyNames().size());
  EXPECT_FALSE(with({}).contains("pools_tried"));
  // The iteration is that of the choice itself.
  json alone = with({"--order", both["order"], "--placement", both["placement"]});
  alone["pools_tried"] = both["pools_tried"];
  EXPECT_EQ(alone["seconds"], both["seconds"]);
  EXPECT_EQ(alone["pool_bytes"], both["pool_bytes"]);
  const Outcome text = Run({"simulate", path_, "--memory", "4GiB", "--order", "best"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("pools tried"), HasSubstr("taken")));
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--order", "x"}),
              HasSubstr("expected one of prefetch-first, derivative-first, best"));
}

TEST_F(SimulateCommand, PrintsOneObjectThatIsTheTimelines) {
  const json answer = Answer({"--policy", "vdnn", "--offload", "all", "--algorithms", "m",
                              "--order", "derivative-first", "--memory", "2GiB", "--link", "4e9"});
  testing::PoolPolicy options;
  options.machine.placing.placement = "planned";
  options.machine.memory() = std::int64_t{2} << 30;
  options.machine.SetRate(4e9);
  options.set = OffloadSet::kAll;
  options.algorithms = AlgorithmChoice::kLeastMemory;
  options.order = AllocationOrder::kDerivativeFirst;
  const Schedule schedule = testing::MakePoolSchedule("vdnn", graph_, options).value();
  const Timeline timeline = Simulate(graph_, schedule, options.machine).value();
  EXPECT_EQ(answer["graph"], "alexnet");
  EXPECT_EQ(answer["batch"], 128);
  EXPECT_EQ(answer["tasks"], graph_.tasks.size());
  EXPECT_EQ(answer["policy"], "vdnn");
  EXPECT_EQ(answer["offload"], "all");
  EXPECT_EQ(answer["algorithms"], "m");
  EXPECT_EQ(answer["schedule"], "vdnn all(m)");
  EXPECT_EQ(answer["memory_bytes"], options.machine.memory());
  EXPECT_EQ(answer["fits"], true);
  EXPECT_EQ(answer["seconds"], timeline.seconds);
  EXPECT_EQ(answer["ideal_seconds"], TotalsOf(graph_).least_seconds);
  EXPECT_DOUBLE_EQ(answer["overhead"], timeline.seconds / TotalsOf(graph_).least_seconds);
  EXPECT_EQ(answer["compute_seconds"], timeline.compute_seconds);
  EXPECT_EQ(answer["bytes_out"], timeline.bytes_out);
  EXPECT_EQ(answer["bytes_in"], timeline.bytes_in);
  EXPECT_EQ(answer["offloads"], 9);
  EXPECT_EQ(answer["compressed"], 0);
  EXPECT_EQ(answer["stayed"], 0);
  EXPECT_EQ(answer["peak_device_bytes"], timeline.peak_device_bytes);
  EXPECT_EQ(answer["peak_host_bytes"], timeline.peak_host_bytes);
  EXPECT_EQ(answer["pool_bytes"], timeline.pool_bytes);
  ASSERT_EQ(answer["stalls"].size(), timeline.stalls.size());
  double stalled = 0;
  for (std::size_t i = 0; i < timeline.stalls.size(); ++i) {
    EXPECT_EQ(answer["stalls"][i]["task"], graph_.tasks[timeline.stalls[i].task].name);
    EXPECT_EQ(answer["stalls"][i]["seconds"], timeline.stalls[i].seconds);
    EXPECT_EQ(answer["stalls"][i]["reason"], "synchronize");
    stalled += timeline.stalls[i].seconds;
  }
  EXPECT_DOUBLE_EQ(answer["stall_seconds"]["synchronize"], stalled);
  EXPECT_EQ(answer["stall_seconds"]["data"], 0);
  const json& pools = answer["smallest_pools"];
  EXPECT_LE(pools["peak_live_bytes"], pools["planned_bytes"]);
  EXPECT_LE(pools["planned_bytes"], pools["best_fit_bytes"]);
  EXPECT_LE(pools["best_fit_bytes"], answer["memory_bytes"]);
}

TEST_F(SimulateCommand, PrintsATable) {
  const Outcome outcome = Run({"simulate", path_, "--offload", "all", "--memory", "2GiB"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("alexnet\n  batch 128, 47 tasks, vdnn++ all(p), memory 2.0 GiB"),
                    HasSubstr("iteration"), HasSubstr("ideal, all data in memory"),
                    HasSubstr("for data"), HasSubstr("peak on the host"),
                    HasSubstr("fragmentation"), HasSubstr("longest stalls"), HasSubstr("planned")));
}

TEST_F(SimulateCommand, WhatDoesNotFitIsANo) {
  for (const char* memory : {"0", "100MiB", "500MiB"}) {
    const Outcome outcome = Run({"simulate", path_, "--memory", memory, "--json"});
    EXPECT_EQ(outcome.status, 2) << memory << outcome.err;
    const json answer = json::parse(outcome.out);
    EXPECT_EQ(answer["fits"], false);
    EXPECT_THAT(std::string(answer["why"]), AllOf(HasSubstr("task '"), HasSubstr("bytes")));
  }
  const Outcome outcome = Run({"simulate", path_, "--memory", "100MiB"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out,
            "alexnet\n"
            "  does not fit in 100.0 MiB: task 'conv1.forward' alone needs 455.2 MiB (477347328 "
            "bytes), with the weights of the graph, 238.0 MiB; the memory has 100.0 MiB (104857600 "
            "bytes)\n");
}

TEST_F(SimulateCommand, SaysWhyNothingWasOffloaded) {
  const std::string gpt = folder_ / "gpt2.json";
  ASSERT_EQ(WriteGraph(*MakeModel("gpt2-small", {.batch = 2, .gpu = "h200"}), gpt),
            absl::OkStatus());
  Outcome outcome = Run({"simulate", gpt, "--memory", "2GiB"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("gpt2-small\n  does not fit in 2.0 GiB: at task 'block"),
            ::testing::ContainsRegex(
                "step [0-9]+, [0-9.]+ MiB \\([0-9]+ bytes\\) more are needed for data 'block"),
            ::testing::EndsWith("\n  nothing was offloaded: this graph has no convolutions; try "
                                "--offload all\n")));
  EXPECT_EQ(json::parse(Run({"simulate", gpt, "--memory", "2GiB", "--json"}).out)["advice"],
            "nothing was offloaded: this graph has no convolutions; try --offload all");
  outcome = Run({"simulate", gpt, "--memory", "2GiB", "--policy", "none"});
  EXPECT_THAT(outcome.out, ::testing::EndsWith("\n  nothing was offloaded: --policy none; try "
                                               "--policy vdnn++ --offload dynamic\n"));
  EXPECT_EQ(Run({"simulate", gpt, "--memory", "2GiB", "--offload", "all"}).status, 0);
  EXPECT_EQ(Run({"simulate", gpt, "--memory", "2GiB", "--offload", "dynamic"}).status, 0);
}

TEST_F(SimulateCommand, WritesATimeline) {
  const std::filesystem::path timeline = folder_ / "timeline.json";
  Answer({"--memory", "2GiB", "--timeline", timeline});
  const json trace = json::parse(testing::Contents(timeline));
  EXPECT_GT(trace["traceEvents"].size(), graph_.tasks.size());
  const Outcome outcome = Run({"simulate", path_, "--memory", "2GiB", "--timeline", "/dev/stdout"});
  EXPECT_EQ(json::parse(outcome.out), trace);
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--timeline", "/dev/stdout", "--json"}),
              HasSubstr("--json"));
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--timeline", folder_ / "none" / "t.json"}),
              HasSubstr("expected"));
}

TEST_F(SimulateCommand, LinksMayDiffer) {
  const json slow_in =
      Answer({"--offload", "all", "--memory", "2GiB", "--link", "12e9", "--link-in", "2e9"});
  const json alike = Answer({"--offload", "all", "--memory", "2GiB", "--link", "12e9"});
  const json unbounded = Answer({"--offload", "all", "--memory", "2GiB", "--link", "inf"});
  const json one_way = Answer({"--offload", "all", "--memory", "2GiB", "--one-way"});
  const json late = Answer({"--offload", "all", "--memory", "2GiB", "--latency", "0.01"});
  EXPECT_GT(slow_in["seconds"], alike["seconds"]);
  EXPECT_GT(late["seconds"], alike["seconds"]);
  EXPECT_GE(one_way["seconds"], alike["seconds"]);
  EXPECT_EQ(unbounded["seconds"], unbounded["compute_seconds"]);
}

TEST_F(SimulateCommand, ANarrowHostKeepsDataOnTheDevice) {
  const json answer = Answer({"--offload", "all", "--memory", "4GiB", "--host-memory", "100MiB"});
  EXPECT_GT(answer["stayed"], 0);
  EXPECT_LE(answer["peak_host_bytes"], 100 << 20);
}

TEST_F(SimulateCommand, PlannedMemoryIsThatOfThePeak) {
  const json answer = Answer({"--offload", "conv", "--algorithms", "m", "--memory", "720MiB"});
  EXPECT_EQ(answer["pool_bytes"], answer["smallest_pools"]["peak_live_bytes"]);
  // Memory counts from its first use on, so the peak over time is below that of the requests.
  EXPECT_LT(answer["fragmentation"], 0.05);
  EXPECT_EQ(Run({"simulate", path_, "--offload", "conv", "--algorithms", "m", "--memory", "720MiB",
                 "--placement", "best-fit"})
                .status,
            2)
      << "best-fit needs more";
}

TEST_F(SimulateCommand, CompressesByDensity) {
  const json raw = Answer({"--offload", "all", "--memory", "2GiB", "--link", "1e9"});
  const json answer =
      Answer({"--offload", "all", "--memory", "2GiB", "--link", "1e9", "--density", "0.3"});
  EXPECT_GT(answer["compressed"], 0);
  EXPECT_LT(answer["peak_host_bytes"], raw["peak_host_bytes"]);
  EXPECT_LE(answer["seconds"], 1.01 * double{raw["seconds"]});
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--density", "1.2"}), HasSubstr("expected 0 to 1"));
}

// Policies that copy nothing take no choice of copies, unless another one of a sweep does.
TEST_F(SimulateCommand, RefusesASetOfLayersThatDoesNothing) {
  for (const char* policy : {"none", "base", "none,base"}) {
    EXPECT_THAT(Refusal({"--memory", "2GiB", "--policy", policy, "--offload", "all"}),
                HasSubstr("has no such option, expected it with vdnn or vdnn++"));
  }
  EXPECT_EQ(
      Run({"simulate", path_, "--memory", "2GiB,4GiB", "--policy", "none,vdnn", "--offload", "all"})
          .status,
      0);
}

TEST_F(SimulateCommand, UnknownNamesAreAnsweredWithTheKnownOnes) {
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--policy", "bane"}), HasSubstr("expected one of "));
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--offload", "some"}),
              HasSubstr("expected one of all, conv, aconv, dynamic"));
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--algorithms", "x"}), HasSubstr("one of m, p"));
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--order", "x"}), HasSubstr("prefetch-first"));
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--placement", "x"}), HasSubstr("best-fit"));
}

TEST_F(SimulateCommand, MachinesThatCannotBeAreRefused) {
  for (const char* link : {"0", "-1", "nan", "x"}) {
    EXPECT_THAT(Refusal({"--memory", "2GiB", "--link", link}), HasSubstr("expected")) << link;
  }
  EXPECT_THAT(Refusal({"--memory", "-1"}), HasSubstr("expected"));
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--latency", "-1"}), HasSubstr("expected"));
  EXPECT_THAT(Refusal({"--memory", "4611686018427387904"}), HasSubstr("expected"));
  EXPECT_THAT(Refusal({}), HasSubstr("--memory"));
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--compression-profile", path_}), HasSubstr("expected"));
}

TEST_F(SimulateCommand, NamesAreShownOnOneLineEach) {
  graph_.name = "a\n\x1b[31m";
  for (GraphTask& task : graph_.tasks) task.name = "\x1b\n" + task.name;
  for (GraphData& data : graph_.data) data.name = "\x1b\n" + data.name;
  ASSERT_EQ(WriteGraph(graph_, path_), absl::OkStatus());
  const Outcome outcome = Run({"simulate", path_, "--offload", "all", "--memory", "2GiB"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("a\\n\\x1b[31m\n"), HasSubstr("longest stalls"),
                                 ::testing::Not(HasSubstr("\x1b"))));
  EXPECT_THAT(Run({"simulate", path_, "--memory", "1KiB"}).out, ::testing::Not(HasSubstr("\x1b")));
}

TEST_F(SimulateCommand, TheGraphIsNotOverwritten) {
  const std::string before = testing::Contents(path_);
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--timeline", path_}),
              AllOf(HasSubstr(path_), HasSubstr("expected another file")));
  std::filesystem::create_hard_link(path_, folder_ / "link.json");
  EXPECT_THAT(Refusal({"--memory", "2GiB", "--timeline", folder_ / "link.json"}),
              HasSubstr("expected another file"));
  EXPECT_EQ(testing::Contents(path_), before);
}

TEST_F(SimulateCommand, GraphsThatAreNoneAreRefused) {
  const std::string text = testing::Contents(path_);
  for (std::size_t bytes = 0; bytes < text.size(); bytes += 1 + text.size() / 50) {
    std::ofstream(path_, std::ios::trunc) << text.substr(0, bytes);
    EXPECT_THAT(Refusal({"--memory", "2GiB"}), HasSubstr(path_ + ":")) << bytes;
  }
  EXPECT_THAT(ErrorOf({"simulate", folder_ / "none.json", "--memory", "2GiB"}),
              HasSubstr("none.json: "));
}

}  // namespace
}  // namespace tidepool
