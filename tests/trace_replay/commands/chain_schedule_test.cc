// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool chain`: its answers and its refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/shared_files.h"
#include "tests/trace_replay/command_line.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain_policy.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// x_0 has to leave before F_1 fits.
constexpr char kChain[] = R"({"L": 1, "beta": 2, "M_gpu": 6,
"uF": [1, 1],
"uB": [1, 1],
"exF": [0, 0],
"exB": [0, 0],
"x": [4, 2, 2],
"y": [0, 0, 0]}
)";

class ChainScheduleCommand : public CommandLine {
 protected:
  ChainScheduleCommand() : path_(File("chain.json", kChain)) {}

  json Answer(const std::vector<std::string>& more, int status = 0) {
    std::vector<std::string> arguments = {"chain", path_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Json(arguments, status);
  }
  std::string Changed(const std::string& from, const std::string& to) {
    std::string text = kChain;
    text.replace(text.find(from), from.size(), to);
    return File("changed.json", text);
  }
  std::string Refusal(const std::string& from, const std::string& to) {
    return ErrorOf({"chain", Changed(from, to), "--policy", "greedy"});
  }

  std::string path_;
};

TEST_F(ChainScheduleCommand, PrintsTheScheduleOfAChain) {
  const json answer = Answer({"--policy", "greedy"});
  EXPECT_EQ(answer["policy"], "greedy");
  EXPECT_EQ(answer["offloaded"], json({0}));
  EXPECT_EQ(answer["recomputed"], json::array());
  EXPECT_EQ(answer["makespan"], 7);
  EXPECT_EQ(answer["lower_bound"], 4);
  EXPECT_EQ(answer["ratio"], 1.75);
  EXPECT_EQ(answer["proved"], false);
  EXPECT_GE(answer["seconds"], 0);
  EXPECT_EQ(answer["F_start"], json({0, 2}));
  EXPECT_EQ(answer["B_start"], json({6, 3}));
  EXPECT_EQ(answer["offload_start"], json({0}));
  EXPECT_EQ(answer["prefetch_start"], json({4}));
  EXPECT_EQ(answer["steps"].size(), 6);
  EXPECT_EQ(answer["steps"][0], json({"offload", 0, 0}));
  EXPECT_EQ(answer["paper_lower_bound"], 4);
  EXPECT_EQ(answer["M_peak"], 8);
  EXPECT_EQ(answer["min_memory"], 6);
  EXPECT_THAT(Text({"chain", path_, "--policy", "greedy"}), HasSubstr("offloaded: 0\n"));
}

TEST_F(ChainScheduleCommand, ScheduleWritesTheAnswer) {
  const std::string file = File("answer.json", "");
  json printed = Json({"schedule", path_, "--policy", "greedy", "-o", file, "--json"});
  json written = json::parse(std::ifstream(file));
  for (json* answer : {&printed, &written}) {
    EXPECT_EQ((*answer)["makespan"], 7);
    answer->erase("seconds");
  }
  EXPECT_EQ(printed, written);
  EXPECT_THAT(ErrorOf({"schedule", path_, "-o", path_}), HasSubstr("is the graph itself"));
}

TEST_F(ChainScheduleCommand, HasTheSameKeysWhereItDoesNotFit) {
  const json fits = Answer({"--policy", "greedy"});
  const json none = Answer({"--policy", "greedy", "--memory", "5"}, 2);
  for (const auto& [key, value] : fits.items()) EXPECT_TRUE(none.contains(key)) << key;
  EXPECT_EQ(none["makespan"], nullptr);
  EXPECT_EQ(none["ended_by"], nullptr);
}

TEST_F(ChainScheduleCommand, CopiesInBothDirectionsAndWithLatency) {
  const json one = Answer({"--policy", "best", "--latency", "500ms"});
  EXPECT_EQ(one["makespan"], 8);
  EXPECT_EQ(one["latency_seconds"], 0.5);
  EXPECT_EQ(one["duplex"], false);
  EXPECT_EQ(Answer({"--policy", "best", "--duplex"})["makespan"], 7);
  const json compressed =
      Answer({"--policy", "best", "--density", "0.1", "--compressor", "infinity"});
  EXPECT_EQ(compressed["compressed"], true);
  EXPECT_EQ(one["compressed"], false);
  EXPECT_LT(compressed["makespan"], 7);
  EXPECT_THAT(ErrorOf({"chain", path_, "--policy", "best", "--compressor", "1e9"}),
              HasSubstr("--compressor and --density: each compresses nothing without the other"));
  const json parts = Answer({"--policy", "best", "--part", "1"});
  EXPECT_EQ(parts["part_bytes"], 1);
  EXPECT_EQ(one["part_bytes"], 0);
  EXPECT_LT(parts["makespan"], Answer({"--policy", "best"})["makespan"]);
  EXPECT_THAT(Text({"chain", path_, "--policy", "best", "--part", "1"}),
              HasSubstr("one transfer at a time, parts of 1 B"));
  EXPECT_THAT(ErrorOf({"chain", path_, "--policy", "greedy", "--part", "1"}),
              HasSubstr("policy 'greedy' knows one transfer at a time, whole activations"));
  EXPECT_THAT(
      ErrorOf({"schedule", path_, "--policy", "best", "--compute-streams", "2"}),
      HasSubstr("--compute-streams: an option for graphs, and " + path_ + " is a chain, expected"));
  EXPECT_THAT(Text({"chain", path_, "--policy", "best", "--duplex", "--latency", "500ms"}),
              HasSubstr("both directions at once, latency 500.000 ms"));
  for (const std::vector<std::string>& copies :
       {std::vector<std::string>{"--duplex"}, {"--latency", "1us"}}) {
    std::vector<std::string> arguments = {"chain", path_, "--policy", "dynprog"};
    arguments.insert(arguments.end(), copies.begin(), copies.end());
    EXPECT_THAT(ErrorOf(arguments), HasSubstr("policy 'dynprog' knows one transfer at a time"));
  }
}

// A chain of rotor, of which F_0 runs once for its output and once for all.
TEST_F(ChainScheduleCommand, RunsChainsOfRotor) {
  path_ = File("rotor.json",
               R"({"length": 2, "fweight": [1, 0.5], "bweight": [2, 1, 0.25],
 "cweight": [10, 20, 30], "cbweight": [10, 50, 30], "fwd_mem_tmp": [3, 4], "bwd_mem_tmp": [5, 6, 7]}
)");
  const json answer = Answer({"--policy", "recompute", "--memory", "120"});
  EXPECT_EQ(answer["recomputed"], json({0}));
  EXPECT_EQ(answer["makespan"], 5.75);
  EXPECT_EQ(answer["lower_bound"], 5.75);
  EXPECT_EQ(answer["proved"], true);
  EXPECT_EQ(answer["steps"][0], json({"Fo", 0, 0}));
  EXPECT_EQ(answer["steps"][6], json({"F", 0, 2.75}));
}

// Policies differ in the least memory that they need.
TEST_F(ChainScheduleCommand, TellsTheLeastMemoryOfThePolicy) {
  path_ = File("rotor.json",
               R"({"length": 2, "fweight": [1, 0.5], "bweight": [2, 1, 0.25],
 "cweight": [10, 20, 30], "cbweight": [10, 50, 30], "fwd_mem_tmp": [3, 4], "bwd_mem_tmp": [5, 6, 7]}
)");
  std::map<std::string, std::int64_t> least;
  for (const std::string& policy : ChainPolicyNames()) {
    for (const char* recompute : {"off", "on"}) {
      if (policy != "best" && recompute == std::string("on")) continue;
      SCOPED_TRACE(policy + recompute);
      std::vector<std::string> arguments = {"--policy", policy, "--memory", "1"};
      if (policy == "best") arguments.insert(arguments.end(), {"--recompute", recompute});
      const json none = Answer(arguments, 2);
      const std::int64_t bytes = none["min_memory"];
      EXPECT_THAT(none["why"].get<std::string>(),
                  HasSubstr(policy + " runs the chain in " + std::to_string(bytes) + " bytes"));
      arguments[3] = std::to_string(bytes);
      EXPECT_EQ(Answer(arguments)["min_memory"], bytes);
      arguments[3] = std::to_string(bytes - 1);
      EXPECT_EQ(Answer(arguments, 2)["min_memory"], bytes);
      least[policy + recompute] = bytes;
    }
  }
  EXPECT_EQ(least["bestoff"], least["greedyoff"]);
  EXPECT_EQ(least["beston"], least["pofooff"]);
  EXPECT_LT(least["pofooff"], least["recomputeoff"]);
  EXPECT_LT(least["recomputeoff"], least["greedyoff"]);
}

// Written and read again, a chain is the same.
TEST_F(ChainScheduleCommand, WritesTheChain) {
  const std::string copy = File("copy.json", "");
  Answer({"--memory", "7", "-o", copy});
  Chain chain = *ReadChain(path_);
  chain.memory_bytes = 7;
  EXPECT_EQ(*ReadChain(copy), chain);
  path_ = copy;
  const std::string rotor = File("rotor.json", "");
  Answer({"--memory", "100", "-o", rotor, "--format", "rotor"});
  chain.memory_bytes = 100;
  EXPECT_EQ(ChainJson(*ReadChain(rotor)), ChainJson(*ParseChain(RotorChainJson(chain), "rotor")));
  path_ = rotor;
  Answer({"-o", copy, "--format", "rotor"});
  EXPECT_EQ(*ReadChain(copy), *ReadChain(rotor));
  EXPECT_THAT(ErrorOf({"chain", path_, "-o", path_}), HasSubstr("is the input itself"));
  EXPECT_THAT(ErrorOf({"chain", path_, "--format", "rotor"}),
              HasSubstr("--format: no file for a chain"));
}

TEST_F(ChainScheduleCommand, WritesNoChainWhereItFails) {
  const std::string file = folder_ / "written.json";
  EXPECT_THAT(ErrorOf({"chain", path_, "--policy", "pofo", "--duplex", "-o", file}),
              HasSubstr("knows one transfer at a time"));
  EXPECT_FALSE(std::filesystem::exists(file));
  Answer({"--memory", "1", "-o", file}, 2);
  EXPECT_TRUE(std::filesystem::exists(file));
}

// A schedule of the chain has the memory of the graph's activations.
TEST_F(ChainScheduleCommand, TakesTheChainOfAGraph) {
  const TaskGraph graph = *FromChain(*ReadChain(path_));
  const std::string graph_path = File("graph.json", "");
  ASSERT_TRUE(WriteGraph(graph, graph_path).ok());
  const std::string file = File("made.json", "");
  const json made = Json(
      {"chain", "--from", graph_path, "--memory", "8KiB", "--policy", "recompute", "-o", file});
  EXPECT_EQ(made["policy"], "recompute");
  const absl::StatusOr<Chain> chain = ReadChain(file);
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_EQ(chain->forward_seconds, (std::vector<double>{1, 1}));
  EXPECT_EQ(chain->x, (std::vector<std::int64_t>{512, 512, 512}));
  // The file's chain has the same schedule.
  path_ = file;
  EXPECT_EQ(Answer({"--policy", "recompute"})["makespan"], made["makespan"]);
  for (const char* recompute : {"on", "off"}) {
    EXPECT_EQ(Json({"chain", "--from", graph_path, "--memory", "8KiB", "--policy", "best",
                    "--recompute", recompute})["proved"],
              true);
  }
}

TEST_F(ChainScheduleCommand, NeedsOneChain) {
  EXPECT_THAT(ErrorOf({"chain"}), HasSubstr("no chain, expected CHAIN or --from GRAPH"));
  EXPECT_THAT(ErrorOf({"chain", path_, "--from", path_}), HasSubstr("CHAIN is given too"));
  EXPECT_THAT(ErrorOf({"chain", path_, "--batch", "3"}), HasSubstr("expected it with --from"));
  EXPECT_THAT(ErrorOf({"chain", "--from", path_, "--memory", "1GiB"}),
              HasSubstr("is a chain, expected a task graph for --from"));
  const std::string graph = File("graph.json", "");
  ASSERT_TRUE(WriteGraph(*FromChain(*ReadChain(path_)), graph).ok());
  EXPECT_THAT(ErrorOf({"chain", "--from", graph}), HasSubstr("--memory is missing"));
  EXPECT_THAT(ErrorOf({"chain", "--from", graph, "--memory", "1GiB", "--policy", "geedy"}),
              HasSubstr("--policy: no chain policy 'geedy', expected one of greedy, "));
  ASSERT_TRUE(WriteGraph(*MakeModel("alexnet", {.batch = 2}), graph).ok());
  EXPECT_EQ(Json({"chain", "--from", graph, "--memory", "1MiB"}, 2)["fits"], false);
}

// `schedule` gives the answer of `chain`.
TEST_F(ChainScheduleCommand, IsAnsweredByScheduleToo) {
  json one = Answer({"--policy", "dynprog"});
  json other = Json({"schedule", path_, "--policy", "dynprog"});
  one.erase("seconds");
  other.erase("seconds");
  EXPECT_EQ(one, other);
}

TEST_F(ChainScheduleCommand, TakesMemoryAndSlots) {
  const json all = Answer({"--memory", "8", "--policy", "dynprog"});
  EXPECT_EQ(all["makespan"], 4);
  EXPECT_EQ(all["proved"], true);
  EXPECT_EQ(all["offloaded"], json::array());
  EXPECT_EQ(Answer({"--policy", "dynprog", "--slots", "3"})["makespan"], 7);
  EXPECT_EQ(Answer({"--policy", "autoswap", "--seed", "7"})["makespan"], 7);
}

TEST_F(ChainScheduleCommand, KnowsEveryPolicy) {
  path_ = testing::ExampleTraces().parent_path() / "chains" / "resnet-18.json";
  for (const std::string& policy : ChainPolicyNames()) {
    const Outcome outcome =
        Run({"chain", path_, "--policy", policy, "--time-limit", "100ms", "--json"});
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 2) << policy << outcome.err;
    const json answer = json::parse(outcome.out);
    EXPECT_EQ(answer["policy"], policy);
    EXPECT_EQ(answer["fits"], outcome.status == 0);
  }
}

// The searches for this chain take many seconds.
TEST_F(ChainScheduleCommand, GivesTheBestSoFarWhenItIsInterrupted) {
  testing::RandomChains random(51);
  Chain chain = random.Next(600);
  chain.link_bytes_per_second = 400;
  chain.memory_bytes = LeastChainMemory(chain);
  path_ = File("long.json", ChainJson(chain));
  for (const int signal : {SIGINT, SIGTERM}) {
    const json answer =
        InterruptedJson({"chain", path_, "--policy", "best", "--time-limit", "1000000"}, signal);
    EXPECT_EQ(answer["interrupted"], true);
    EXPECT_EQ(answer["proved"], false);
    EXPECT_GE(answer["makespan"], answer["lower_bound"]);
  }
  path_ = File("chain.json", kChain);
  EXPECT_EQ(Answer({"--policy", "best"})["interrupted"], false);
}

TEST_F(ChainScheduleCommand, SaysNoWhenTheMemoryIsTooSmall) {
  const json answer = Answer({"--memory", "5"}, 2);
  EXPECT_EQ(answer["fits"], false);
  EXPECT_EQ(answer["makespan"], nullptr);
  EXPECT_EQ(answer["min_memory"], 6);
  EXPECT_THAT(answer["why"], HasSubstr("F_0 alone needs 6 bytes, and the memory has 5 bytes"));
  EXPECT_THAT(Text({"chain", path_, "--memory", "5"}, 2),
              HasSubstr("does not fit in 5 B: F_0 alone needs 6 bytes"));
  EXPECT_EQ(Run({"chain", path_, "--memory", "0"}).status, 2);
}

TEST_F(ChainScheduleCommand, RefusesBrokenChains) {
  EXPECT_THAT(Refusal("[4, 2, 2]", "[4, 2]"),
              HasSubstr("changed.json:6: x has 2 numbers, expected 3: L + 2"));
  EXPECT_THAT(Refusal("\"uB\": [1, 1]", "\"uB\": [1, 1, 1]"),
              HasSubstr("changed.json:3: uB has 3 numbers, expected 2: L + 1"));
  EXPECT_THAT(Refusal("\"beta\": 2", "\"beta\": 0"), HasSubstr("beta is 0 bytes a second"));
  EXPECT_THAT(Refusal("\"beta\": 2", "\"beta\": -1"), HasSubstr("expected more than 0"));
  EXPECT_THAT(Refusal("\"beta\": 2", "\"beta\": NaN"), HasSubstr("changed.json:1: "));
  EXPECT_THAT(Refusal("[1, 1]", "[1, -1]"), HasSubstr("uF[1] is -1 seconds, expected 0 to 10^9"));
  EXPECT_THAT(Refusal("[1, 1]", "[1, NaN]"), HasSubstr("changed.json:2: "));
  EXPECT_THAT(Refusal("[1, 1]", "[1, 1e400]"), HasSubstr("changed.json:2: "));
  EXPECT_THAT(Refusal("[4, 2, 2]", "[4, 2, -2]"), HasSubstr("x[2] is -2 bytes, expected 0 to"));
  EXPECT_THAT(Refusal("[4, 2, 2]", "[4611686018427387904, 2, 2]"), HasSubstr("expected 0 to 2^50"));
  EXPECT_THAT(Refusal("\"L\": 1", "\"L\": 0"), HasSubstr("uF has 2 numbers, expected 1"));
  EXPECT_THAT(Refusal("\"L\": 1", "\"L\": -1"), HasSubstr("L is -1, expected 0 or more"));
  EXPECT_THAT(Refusal("\"uB\": [1, 1],\n", ""), HasSubstr("a chain without uB"));
  EXPECT_THAT(ErrorOf({"chain", path_, "--memory", "4EiB"}), HasSubstr("expected"));
}

TEST_F(ChainScheduleCommand, TakesTheSmallestChains) {
  const std::string none = File("none.json", R"({"L": -1, "beta": 2, "M_gpu": 6, "uF": [],
    "uB": [], "exF": [], "exB": [], "x": [0], "y": [0]})");
  EXPECT_THAT(ErrorOf({"chain", none}), HasSubstr("L is -1, expected 0 or more"));
  path_ = File("one.json", R"({"L": 0, "beta": 2, "M_gpu": 6, "uF": [1], "uB": [2],
    "exF": [0], "exB": [0], "x": [1, 2], "y": [1, 2]})");
  for (const std::string& policy : ChainPolicyNames()) {
    EXPECT_EQ(Answer({"--policy", policy})["makespan"], 3) << policy;
  }
  path_ = File("zero.json", R"({"L": 1, "beta": 2, "M_gpu": 0, "uF": [0, 0], "uB": [0, 0],
    "exF": [0, 0], "exB": [0, 0], "x": [0, 0, 0], "y": [0, 0, 0]})");
  for (const std::string& policy : ChainPolicyNames()) {
    std::vector<std::string> arguments = {"--policy", policy, "--slots", "5"};
    if (policy == "best") arguments.insert(arguments.end(), {"--recompute", "on"});
    const json answer = Answer(arguments);
    EXPECT_EQ(answer["makespan"], 0) << policy;
    EXPECT_EQ(answer["ratio"], 1) << policy;
  }
}

TEST_F(ChainScheduleCommand, RefusesWrongOptions) {
  EXPECT_THAT(
      ErrorOf({"chain", path_, "--policy", "dynprg"}),
      StartsWith("tidepool: --policy: no chain policy 'dynprg', expected one of dynprog, "));
  EXPECT_THAT(ErrorOf({"chain", path_, "--policy", "bset"}),
              StartsWith("tidepool: --policy: no chain policy 'bset', expected one of best, "));
  EXPECT_THAT(ErrorOf({"chain", path_, "--offload", "all"}), HasSubstr("no option '--offload'"));
  EXPECT_THAT(ErrorOf({"schedule", path_, "--offload", "all"}),
              HasSubstr("--offload: an option for graphs"));
  EXPECT_THAT(ErrorOf({"chain", path_, "--time-limit", "0"}),
              HasSubstr("--time-limit: '0', expected more than 0 seconds"));
  for (const char* seed : {"-1", "abc"}) {
    EXPECT_THAT(ErrorOf({"chain", path_, "--seed", seed}),
                HasSubstr(std::string("--seed: '") + seed + "', expected a whole number from 0"));
  }
  EXPECT_THAT(ErrorOf({"chain", path_, "--policy", "dynprog", "--recompute", "on"}),
              HasSubstr("--recompute: policy dynprog has no such option, expected it with best"));
  EXPECT_THAT(ErrorOf({"schedule", File("list.json", "[]"), "--memory", "1MB"}),
              HasSubstr("expected a task graph or a chain: an object"));
  EXPECT_THAT(Refusal("[4, 2, 2]", "[9223372036854775808, 2, 2]"),
              HasSubstr("expected whole numbers of bytes from 0 to 2^50 in the list"));
  EXPECT_THAT(ErrorOf({"chain", folder_ / "missing.json"}), HasSubstr("missing.json"));
}

}  // namespace
}  // namespace tidepool
