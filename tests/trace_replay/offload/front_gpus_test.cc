// SPDX-License-Identifier: Apache-2.0
// Tests the GPUs that `tidepool front --gpus` tries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trace_replay/command_line.h"
#include "tidepool/training/graph.h"
#include "trace_replay/offload/gpu_cards.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kActivation = std::int64_t{8} << 30;

// Three activations of 8 GiB. All of them are live at the peak, two of them in the largest task.
// Each task takes `seconds` on an H100: half of them are products.
TaskGraph GraphOf(double seconds) {
  TaskGraph graph;
  graph.name = "net";
  graph.gpu = "NVIDIA H100 80GB HBM3";
  graph.link_bytes_per_second = 48e9;
  for (const char* name : {"a", "b", "c"}) {
    graph.data.push_back({.name = name, .bytes = kActivation, .kind = DataKind::kActivation});
  }
  graph.data.push_back({.name = "e", .bytes = 1, .kind = DataKind::kGradient});
  graph.data.push_back({.name = "f", .bytes = 1, .kind = DataKind::kGradient});
  graph.data.push_back({.name = "g", .bytes = 1, .kind = DataKind::kGradient});
  const auto add = [&](const char* name, TaskPhase phase, std::vector<std::size_t> reads,
                       std::size_t writes) {
    graph.tasks.push_back({.name = name,
                           .operation = phase == TaskPhase::kForward ? "addmm" : "add",
                           .phase = phase,
                           .reads = std::move(reads),
                           .writes = {writes},
                           .algorithms = {{.name = "default", .seconds = seconds}}});
  };
  add("1", TaskPhase::kForward, {}, 0);
  add("2", TaskPhase::kForward, {0}, 1);
  add("3", TaskPhase::kForward, {1}, 2);
  add("4", TaskPhase::kBackward, {2}, 3);
  add("5", TaskPhase::kBackward, {1, 3}, 4);
  add("6", TaskPhase::kBackward, {0, 4}, 5);
  return graph;
}

class FrontGpus : public CommandLine {
 protected:
  std::string GraphFile(const TaskGraph& graph) {
    const std::string path = folder_ / "net.json";
    EXPECT_EQ(WriteGraph(graph, path), absl::OkStatus());
    return path;
  }
  json Answer(const TaskGraph& graph, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"front", GraphFile(graph), "--points", "2", "--time-limit", "1s",
                               "--gpus", "--json"});
    const Outcome outcome = Run(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  static std::map<std::string, json> ByName(const json& answer) {
    std::map<std::string, json> cards;
    for (const json& card : answer["gpus"]) cards[card["name"]] = card;
    return cards;
  }
};

TEST_F(FrontGpus, TellsWhichTrainAStep) {
  const json answer = Answer(GraphOf(10));
  const std::map<std::string, json> cards = ByName(answer);
  EXPECT_EQ(cards.size(), 22);
  EXPECT_EQ(cards.at("h100")["fits"], true);
  EXPECT_DOUBLE_EQ(cards.at("h100")["seconds"], 60);
  EXPECT_DOUBLE_EQ(cards.at("a100-80")["seconds"], 30 * 989.4 / 312 + 30 * 3350.0 / 2039);
  EXPECT_EQ(cards.at("rtx-4090")["fits"], false);
  EXPECT_GE(cards.at("rtx-4090")["slowdown"], 1);
  EXPECT_LE(cards.at("rtx-4090")["slowdown"], 1.1);
  EXPECT_EQ(cards.at("t4")["seconds"], nullptr);
  EXPECT_EQ(cards.at("t4")["cost"], nullptr);
  EXPECT_EQ(answer["smallest_gpu"], "l4");
  EXPECT_EQ(answer["cheapest_gpu"], nullptr);
  const json& lines = answer["gpu_lines"];
  EXPECT_THAT(lines[0], StartsWith("as it is: gb200 "));
  EXPECT_THAT(std::string(lines[1]), AllOf(StartsWith("with a schedule at 1.1 x or less: "),
                                           HasSubstr(" x)"), HasSubstr("l4 ")));
  EXPECT_THAT(std::string(lines[2]), AllOf(StartsWith("no schedule fits: "), HasSubstr("t4"),
                                           HasSubstr("v100"), Not(HasSubstr("l4"))));
  EXPECT_EQ(lines[3], "l4 is the smallest at 1.1 x or less of its time with enough memory");
  EXPECT_EQ(lines.size(), 4) << "all that share the memory of the host have room";
}

TEST_F(FrontGpus, ASlowScheduleIsNoGoodAnswer) {
  const json answer = Answer(GraphOf(0.001));
  EXPECT_GT(ByName(answer).at("rtx-4090")["slowdown"], 1.1);
  EXPECT_THAT(std::string(answer["gpu_lines"][1]), StartsWith("with a schedule, slower: "));
  EXPECT_EQ(answer["smallest_gpu"], "rtx-5090");
}

// A forward task runs again on the one, and the other sends its result.
TEST_F(FrontGpus, ScheduleOfAGpuThatSharesTheMemoryOfTheHostMovesNothing) {
  TaskGraph graph = GraphOf(10);
  for (GraphTask& task : graph.tasks) task.may_rerun = task.phase == TaskPhase::kForward;
  const std::vector<tool::GpuCard> cards =
      tool::CardsOf(graph, {.share = 0.39, .time_limit_seconds = 0.05}).value();
  std::map<std::string, double> slowdowns;
  for (const tool::GpuCard& card : cards) slowdowns[card.name] = card.slowdown.value_or(0);
  EXPECT_EQ(slowdowns["gb10"], 1) << "it has room";
  EXPECT_GT(slowdowns["agx-orin-64"], 1.05);
  EXPECT_LT(slowdowns["l40s"], 1.05);
  EXPECT_THAT(
      tool::CardLines(cards),
      Contains("agx-orin-64 shares the memory of the host, so its schedule moves no data there"));
}

TEST_F(FrontGpus, AShareOfTheMemoryIsForTheStep) {
  const std::map<std::string, json> cards = ByName(Answer(GraphOf(10), {"--gpu-share", "0.7"}));
  EXPECT_EQ(cards.at("a100-40")["fits"], true);
  EXPECT_EQ(cards.at("rtx-5090")["fits"], false);
}

TEST_F(FrontGpus, NamesTheCheapestByThePricesOfAFile) {
  const std::string prices = File("prices.csv", "# an hour\nl4, 0.7\n\nh100,3.6\nt4,0.1\n");
  const json answer = Answer(GraphOf(10), {"--prices", prices});
  EXPECT_DOUBLE_EQ(ByName(answer).at("h100")["cost"], 3.6 * 60 / 3600);
  EXPECT_EQ(answer["cheapest_gpu"], "h100");
  EXPECT_EQ(answer["gpu_lines"].back(),
            "h100 is the cheapest of these: 60 for 1,000 steps, by the prices given");
}

TEST_F(FrontGpus, ThePictureHasTheGpus) {
  const std::string drawing = folder_ / "front.svg";
  const Outcome outcome = Run({"front", GraphFile(GraphOf(10)), "--points", "2", "--time-limit",
                               "1s", "--gpus", "--svg", drawing});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\ntrains on\n  as it is: gb200 "));
  std::ostringstream svg;
  svg << std::ifstream(drawing).rdbuf();
  EXPECT_THAT(svg.str(),
              AllOf(HasSubstr(">l4<"), HasSubstr(">rtx-5090<"), Not(HasSubstr(">b200<"))));
  EXPECT_THAT(svg.str(), HasSubstr(">l4 is the smallest at 1.1 x or less"));
}

// Graphs of programs do not tell their batch.
TEST_F(FrontGpus, ABatchThatIsNotKnownIsLeftOut) {
  const std::string graph = GraphFile(GraphOf(10));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"schedule", graph, "--memory", "40GiB"},
        {"simulate", graph, "--memory", "40GiB"},
        {"front", graph, "--points", "2", "--time-limit", "100ms"},
        {"front", graph, "--memory", "1GiB", "--time-limit", "100ms"}}) {
    const std::string text = Run(command).out;
    EXPECT_THAT(text, AllOf(HasSubstr("net\n  "), Not(HasSubstr("batch")), Not(HasSubstr("sample")),
                            Not(HasSubstr("sub-batch"))));
  }
  EXPECT_EQ(Json({"schedule", graph, "--memory", "40GiB"})["batch"], 0);
  EXPECT_THAT(ErrorOf({"schedule", graph, "--memory", "40GiB", "--batch", "2"}),
              HasSubstr("a graph of an unknown batch has one batch"));
}

TEST_F(FrontGpus, BadInputIsRefused) {
  const std::string graph = GraphFile(GraphOf(10));
  const auto error_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"front", graph};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  };
  const auto error_of_prices = [&](const std::string& line) {
    return error_of({"--gpus", "--prices", File("prices.csv", "t4,1\n" + line + "\n")});
  };
  EXPECT_THAT(error_of({"--prices", "p.csv"}), HasSubstr("--prices: about the GPUs of --gpus"));
  EXPECT_THAT(error_of({"--gpu-share", "0.5"}), HasSubstr("--gpu-share: about the GPUs of --gpus"));
  EXPECT_THAT(error_of({"--gpus", "--prices", folder_ / "none.csv"}),
              HasSubstr("none.csv: cannot be opened"));
  EXPECT_THAT(
      ErrorOf({"dryrun", "--front", "f.svg", "--prices", folder_ / "none.csv", "--", "true"}),
      HasSubstr("none.csv: cannot be opened"));
  EXPECT_THAT(error_of_prices("h10,1"),
              HasSubstr("prices.csv:2: no GPU 'h10' is known, expected one of t4, "));
  EXPECT_THAT(error_of_prices("l4"),
              HasSubstr("prices.csv:2: a price of '', expected a line GPU,PRICE"));
  EXPECT_THAT(error_of_prices("l4,-1"), HasSubstr("a price of '-1'"));
  EXPECT_THAT(error_of_prices("l4,nan"), HasSubstr("a price of 'nan'"));
  TaskGraph other = GraphOf(10);
  other.gpu = "voodoo";
  GraphFile(other);
  EXPECT_THAT(
      error_of({"--gpus"}),
      HasSubstr("the times of the graph are those of 'voodoo', expected a known one: t4, "));
  other.gpu.clear();
  GraphFile(other);
  EXPECT_THAT(error_of({"--gpus"}), HasSubstr("the times of the graph are those of no GPU"));
}

}  // namespace
}  // namespace tidepool
