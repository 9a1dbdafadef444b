// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool schedule`, and schedules from files in `simulate` and `run`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/trace_replay/command_line.h"
#include "tests/training/schedule/small_schedule.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ScheduleCommand : public CommandLine {
 protected:
  ScheduleCommand() : graph_(*MakeModel("alexnet", {.batch = 32})) {
    path_ = folder_ / "graph.json";
    schedule_ = folder_ / "schedule.json";
    EXPECT_EQ(WriteGraph(graph_, path_), absl::OkStatus());
  }

  json Answer(const std::vector<std::string>& arguments) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  json Make() {
    return Answer({"schedule", path_, "--memory", "1GiB", "--offload", "all", "--link", "5e9",
                   "--latency", "1us", "--one-way", "-o", schedule_, "--json"});
  }

  TaskGraph graph_;
  std::string path_;
  std::string schedule_;
};

TEST_F(ScheduleCommand, APolicyFromAFileReachesNoTerminalAsItIs) {
  Make();
  ScheduleFile file = ReadSchedule(schedule_).value();
  file.schedule.policy = "P\x1b]0;title\x07\n\xc2\x9b";
  ASSERT_EQ(WriteSchedule(file, schedule_), absl::OkStatus());
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"simulate", path_, "--schedule", schedule_},
           {"run", path_, "--schedule", schedule_, "--scale", "0"},
           {"simulate", path_, "--schedule", schedule_, "--json"}}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("0;title"));
    EXPECT_THAT(outcome.out, Not(::testing::ContainsRegex("[\x1b\x07]|\xc2\x9b")));
  }
}

// A search takes longer than a microsecond on any machine. A proof needs no more time.
TEST_F(ScheduleCommand, TellsThatTheTimeLimitEndedTheSearch) {
  const auto printed = [&](const std::string& policy, const std::string& memory) {
    const Outcome outcome =
        Run({"schedule", path_, "--memory", memory, "--policy", policy, "--time-limit", "1us"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(printed("best", "700MiB"), HasSubstr("\n  the best within the time limit\n\n"));
  for (const auto& [policy, memory] : {std::pair{"best", "8GiB"}, {"greedy", "700MiB"}}) {
    EXPECT_THAT(printed(policy, memory), Not(HasSubstr("time limit"))) << policy;
  }
}

TEST_F(ScheduleCommand, WritesWhatSimulateAndRunTake) {
  const json made = Make();
  for (const char* key :
       {"graph", "policy", "memory_bytes", "fits", "seconds", "ideal_seconds",
        "lower_bound_seconds", "overhead", "bytes_out", "bytes_in", "recomputed_seconds",
        "peak_device_bytes", "pool_bytes", "sub_batch", "rounds", "steps", "output"}) {
    EXPECT_TRUE(made.contains(key)) << key;
  }
  EXPECT_EQ(made["sub_batch"], 32);
  EXPECT_EQ(made["rounds"], 1);
  EXPECT_EQ(made["recomputed_seconds"], 0);
  EXPECT_GT(made["bytes_out"], 0);
  EXPECT_GE(made["lower_bound_seconds"], made["ideal_seconds"]);
  EXPECT_LE(made["lower_bound_seconds"], made["seconds"]);
  const absl::StatusOr<ScheduleFile> file = ReadSchedule(schedule_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ValidateScheduleFile({&graph_, 1}, *file), absl::OkStatus());
  EXPECT_EQ(file->schedule.steps.size(), made["steps"]);
  EXPECT_EQ(file->machine->devices[0].memory_bytes, std::int64_t{1} << 30);
  // The file has the machine, so that no option is needed.
  const json simulated = Answer({"simulate", path_, "--schedule", schedule_, "--json"});
  for (const char* key : {"seconds", "bytes_out", "pool_bytes", "memory_bytes", "stalls"}) {
    EXPECT_EQ(simulated[key], made[key]) << key;
  }
  EXPECT_EQ(simulated["policy"], file->schedule.policy);
  const json other =
      Answer({"simulate", path_, "--schedule", schedule_, "--link", "inf", "--json"});
  EXPECT_LT(other["seconds"], made["seconds"]);
  const json run = Answer({"run", path_, "--schedule", schedule_, "--scale", "0", "--link", "inf",
                           "--iterations", "1", "--json"});
  EXPECT_EQ(run["bytes_out"], made["bytes_out"]);
}

// An option replaces a value of the file's machine, also by the value that machines have without
// it.
TEST_F(ScheduleCommand, OptionsOverrideTheMachineOfTheFile) {
  Answer({"schedule", path_, "--memory", "900MiB", "--policy", "vdnn", "--memory-kind", "pool",
          "--offload", "all", "--latency", "1ms", "--host-memory", "100MiB", "-o", schedule_,
          "--json"});
  const json file = Answer({"simulate", path_, "--schedule", schedule_, "--json"});
  EXPECT_GT(file["stayed"], 0);
  const json with_room =
      Answer({"simulate", path_, "--schedule", schedule_, "--host-memory", "1TiB", "--json"});
  EXPECT_EQ(with_room["stayed"], 0);
  const json at_once =
      Answer({"simulate", path_, "--schedule", schedule_, "--latency", "0s", "--json"});
  EXPECT_LT(at_once["seconds"], file["seconds"]);
}

TEST_F(ScheduleCommand, WritesAProgram) {
  const std::string program = folder_ / "train.cc";
  const auto first_line = [&] {
    std::ifstream in(program);
    std::string line;
    std::getline(in, line);
    return line;
  };
  const std::vector<std::string> choices = {path_,   "--memory", "1GiB", "--policy",
                                            "modnn", "-o",       program};
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"emit"}, {"schedule", "--emit", "cpp"}}) {
    std::vector<std::string> make = command;
    make.insert(make.end(), choices.begin(), choices.end());
    EXPECT_EQ(Run(make).status, 0);
    EXPECT_THAT(first_line(), HasSubstr("Trains alexnet by a schedule of the policy modnn: 32"));
    std::filesystem::remove(program);
  }
  // Without a policy, one that gives fixed addresses.
  EXPECT_EQ(Run({"emit", path_, "--memory", "1GiB", "-o", program}).status, 0);
  EXPECT_THAT(first_line(), HasSubstr("policy best"));
  // A file's schedule, with the user's functions.
  Answer({"schedule", path_, "--memory", "1GiB", "--policy", "none", "--memory-kind", "fixed", "-o",
          schedule_, "--json"});
  const Outcome outcome =
      Run({"emit", path_, "--schedule", schedule_, "--callbacks", "-o", program});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(first_line(), HasSubstr("policy none"));
}

TEST_F(ScheduleCommand, WritesNoProgramThatCannotTrain) {
  const std::string program = folder_ / "train.cc";
  const auto error = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"emit", path_, "-o", program};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_FALSE(std::filesystem::exists(program));
    return outcome.err;
  };
  EXPECT_THAT(ErrorOf({"schedule", path_, "--memory", "1GiB", "--emit", "cpp"}),
              HasSubstr("expected -o FILE"));
  EXPECT_THAT(ErrorOf({"emit", path_, "--memory", "1GiB"}), HasSubstr("expected -o FILE"));
  EXPECT_THAT(ErrorOf({"emit", File("list.json", "[]"), "--memory", "1GiB", "-o", program}),
              HasSubstr("an array, expected a task graph: an object"));
  Make();
  EXPECT_THAT(error({"--schedule", schedule_, "--policy", "none"}),
              HasSubstr("--policy: a choice of the policy, but --schedule gives a schedule"));
  EXPECT_THAT(error({"--schedule", schedule_}),
              HasSubstr("memory of the kind pool, expected fixed addresses"));
  graph_.tasks.front().parameters = {};
  ASSERT_EQ(WriteGraph(graph_, path_), absl::OkStatus());
  EXPECT_THAT(error({"--memory", "1GiB", "--policy", "none"}),
              HasSubstr("task 'conv1.forward' has no layer parameters"));
  graph_.data.front().bytes *= 2;
  ASSERT_EQ(WriteGraph(graph_, path_), absl::OkStatus());
  EXPECT_THAT(error({"--schedule", schedule_}),
              HasSubstr("the schedule is one of a graph with the fingerprint"));
}

TEST_F(ScheduleCommand, CompressesCopiesOnTheDevice) {
  graph_ = MakeModel("resnet-18", {.batch = 32, .gpu = "v100"}).value();
  ASSERT_EQ(WriteGraph(graph_, path_), absl::OkStatus());
  std::vector<std::string> arguments = {
      "schedule", path_,           "--memory", "400MiB",      "--policy", "best",  "--time-limit",
      "200ms",    "--memory-kind", "paged",    "--recompute", "off",      "--json"};
  const json raw = Answer(arguments);
  const std::vector<std::string> more = {
      "--compressor", "200e9", "--decompressor", "inf", "--density", "0.4", "-o", schedule_};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const json made = Answer(arguments);
  EXPECT_LT(made["seconds"], raw["seconds"]);
  const ScheduleFile file = ReadSchedule(schedule_).value();
  EXPECT_EQ(file.machine->devices[0].compressor.out_bytes_per_second, 200e9);
  const std::vector<std::string> again = {"simulate", path_, "--schedule", schedule_, "--json"};
  EXPECT_EQ(Answer(again)["seconds"], made["seconds"]);
  std::vector<std::string> slower = again;
  slower.insert(slower.end(), {"--compressor", "1e9"});
  EXPECT_GT(Answer(slower)["seconds"], made["seconds"]);
}

TEST_F(ScheduleCommand, IsNoSlowerThanAKnownSchedule) {
  graph_ = MakeModel("alexnet", {.batch = 128}).value();
  ASSERT_EQ(WriteGraph(graph_, path_), absl::OkStatus());
  const auto seconds = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "schedule", path_,          "--memory", "880MB",    "--memory-kind", "paged", "--recompute",
        "off",      "--time-limit", "1s",       "--policy", "best",          "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Answer(arguments)["seconds"].get<double>();
  };
  const double in_parts = seconds({"--part", "4MiB", "-o", schedule_});
  EXPECT_GT(seconds({}), in_parts);
  EXPECT_LE(seconds({"--known", schedule_}), in_parts);
  const std::vector<std::string> wrong = {"schedule", path_, "--memory", "880MB", "--known", path_};
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("--known: policy vdnn++ has no such option"));
  std::vector<std::string> of_best = wrong;
  of_best.insert(of_best.end(), {"--policy", "best"});
  EXPECT_THAT(ErrorOf(of_best), HasSubstr("graph.json:"));
}

TEST_F(ScheduleCommand, UsesSeveralComputeStreams) {
  const json made = Answer({"schedule", path_, "--memory", "4GiB", "--policy", "best",
                            "--compute-streams", "2", "-o", schedule_, "--json"});
  EXPECT_EQ(ReadSchedule(schedule_)->machine->devices[0].compute_streams, 2);
  EXPECT_EQ(Answer({"simulate", path_, "--schedule", schedule_, "--json"})["seconds"],
            made["seconds"]);
}

TEST_F(ScheduleCommand, RefusesMachineOptionsWithoutEffect) {
  const auto error = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"schedule", path_, "--memory", "4GiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  };
  EXPECT_THAT(error({"--policy", "best", "--compressor", "1e9"}),
              HasSubstr("--compressor: no copy is compressed without a density"));
  EXPECT_THAT(error({"--policy", "best", "--density", "0.5"}),
              HasSubstr("or with best and --compressor"));
  EXPECT_THAT(error({"--policy", "best", "--density", "0.5", "--decompressor", "1e9"}),
              HasSubstr("--density"));
  EXPECT_THAT(error({"--policy", "greedy", "--compressor", "1e9", "--density", "0.5"}),
              HasSubstr("--compressor: policy greedy has no such option, expected it with best"));
  EXPECT_THAT(error({"--policy", "vdnn", "--compute-streams", "2"}),
              HasSubstr("--compute-streams: policy vdnn has no such option"));
  EXPECT_THAT(error({"--policy", "best", "--compute-streams", "17"}), HasSubstr("1 to 16"));
}

TEST_F(ScheduleCommand, WritesTheScheduleWithTheSmallestPool) {
  const std::vector<std::string> best = {"--memory", "1GiB",   "--offload",   "all",
                                         "--order",  "best",   "--placement", "best",
                                         "--link",   "50GB/s", "--json"};
  std::vector<std::string> arguments = {"schedule", path_, "-o", schedule_};
  arguments.insert(arguments.end(), best.begin(), best.end());
  const json made = Answer(arguments);
  EXPECT_EQ(made["pools_tried"].size(), 2 * PlacementPolicyNames().size());
  const json simulated = Answer(
      {"simulate", path_, "--schedule", schedule_, "--placement", made["placement"], "--json"});
  EXPECT_EQ(simulated["seconds"], made["seconds"]);
  arguments = {"run", path_, "--scale", "0", "--iterations", "1"};
  arguments.insert(arguments.end(), best.begin(), best.end());
  EXPECT_EQ(Answer(arguments)["pools_tried"], made["pools_tried"]);
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_, "--placement", "best"}),
              HasSubstr("--placement best: a choice for new schedules"));
}

TEST_F(ScheduleCommand, GivesTheBestSoFarWhenItIsInterrupted) {
  const json answer = InterruptedJson({"schedule", path_, "--memory", "700MiB", "--policy", "best",
                                       "--time-limit", "1000000", "-o", schedule_});
  EXPECT_EQ(answer["interrupted"], true);
  EXPECT_LE(answer["lower_bound_seconds"], answer["seconds"]);
  const json simulated = Answer({"simulate", path_, "--schedule", schedule_, "--json"});
  EXPECT_EQ(simulated["seconds"], answer["seconds"]);
  EXPECT_EQ(simulated["interrupted"], false);
}

// A sweep over policies needs no special case.
TEST_F(ScheduleCommand, TakesATimeLimitWithEveryPolicy) {
  for (const std::string& policy : OffloadPolicyNames()) {
    const Outcome outcome =
        Run({"schedule", path_, "--memory", "4GiB", "--policy", policy, "--time-limit", "100ms"});
    EXPECT_EQ(outcome.status, 0) << policy << outcome.err;
  }
}

// Schedules that run tasks again may beat the bound of an order without them.
TEST_F(ScheduleCommand, BoundsWhatWasAskedFor) {
  const std::vector<std::string> best = {"schedule", path_, "--memory", "4GiB", "--policy", "best"};
  const json answer = Json(best);
  EXPECT_LE(answer["rerun_lower_bound_seconds"], answer["lower_bound_seconds"]);
  EXPECT_GT(answer["rerun_lower_bound_seconds"], 0);
  EXPECT_THAT(Run(best).out, HasSubstr("lower bound where tasks run again"));
  std::vector<std::string> once = best;
  once.insert(once.end(), {"--recompute", "off"});
  EXPECT_TRUE(Json(once)["rerun_lower_bound_seconds"].is_null());
  EXPECT_THAT(Run(once).out, HasSubstr("proved in this order of tasks"));
}

TEST_F(ScheduleCommand, PrintsTheGapToTheBoundForEveryPolicy) {
  for (const std::string& policy : OffloadPolicyNames()) {
    const std::vector<std::string> arguments = {"schedule", path_,      "--memory",
                                                "4GiB",     "--policy", policy};
    const Outcome outcome = Run(arguments);
    ASSERT_EQ(outcome.status, 0) << policy << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("iteration by bound")) << policy;
    const json answer = Json(arguments);
    EXPECT_GE(answer["ratio"], 1 - 1e-9) << policy;
    EXPECT_DOUBLE_EQ(answer["ratio"].get<double>() * answer["lower_bound_seconds"].get<double>(),
                     answer["seconds"])
        << policy;
    EXPECT_EQ(answer["proved"], answer["ratio"] <= 1 + 1e-9) << policy;
  }
}

TEST_F(ScheduleCommand, SimulatesFixedAddresses) {
  const TaskGraph graph = testing::SmallGraph();
  ASSERT_EQ(WriteGraph(graph, path_), absl::OkStatus());
  Schedule paged = testing::Of(graph, testing::PlainSteps());
  paged.memory = ScheduleMemory::kPaged;
  ScheduleFile file = {FixAddresses({&graph, 1}, paged, 512, {1 << 20}).value(), "small"};
  ASSERT_EQ(WriteSchedule(file, schedule_), absl::OkStatus());
  const json simulated =
      Answer({"simulate", path_, "--schedule", schedule_, "--memory", "1MiB", "--json"});
  EXPECT_EQ(simulated["seconds"], 1 + 2 + 4 + 8);
  const json run =
      Answer({"run", path_, "--schedule", schedule_, "--memory", "1MiB", "--scale", "0", "--json"});
  EXPECT_EQ(run["pool_bytes"], simulated["pool_bytes"]);
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_}),
              HasSubstr("no memory of the device, expected --memory or a machine in the file"));
}

TEST_F(ScheduleCommand, MakesSchedulesOfTheKindOfMemoryThatIsAskedFor) {
  for (const std::string kind : {"pool", "fixed", "paged"}) {
    const json made = Answer({"schedule", path_, "--policy", "none", "--memory", "4GiB",
                              "--memory-kind", kind, "-o", schedule_, "--json"});
    EXPECT_EQ(made["memory_kind"], kind);
    EXPECT_EQ(ScheduleMemoryName(ReadSchedule(schedule_)->schedule.memory), kind);
    const json simulated = Answer({"simulate", path_, "--schedule", schedule_, "--json"});
    EXPECT_EQ(simulated["memory_kind"], kind);
    EXPECT_EQ(simulated["seconds"], made["seconds"]);
  }
  for (const std::string kind : {"paged", "fixed"}) {
    std::vector<std::string> run = {"run",    path_, "--schedule",   schedule_, "--scale", "0",
                                    "--link", "inf", "--iterations", "1",       "--json"};
    // Addresses of pages are planned where they are asked for.
    if (kind == "fixed") run.insert(run.end(), {"--memory-kind", "fixed"});
    EXPECT_EQ(Answer(run)["memory_kind"], kind);
  }
  EXPECT_THAT(ErrorOf({"run", path_, "--schedule", schedule_, "--memory-kind", "paged"}),
              HasSubstr("--memory-kind: a choice of the policy"));
}

TEST_F(ScheduleCommand, PagesFitWhereFixedAddressesDo) {
  const auto make = [&](const std::string& kind) {
    return Answer({"simulate", path_, "--policy", "greedy", "--memory", "800MiB", "--memory-kind",
                   kind, "--json"});
  };
  EXPECT_LE(make("paged")["seconds"], make("fixed")["seconds"]);
  EXPECT_THAT(
      Run({"schedule", path_, "--policy", "greedy", "--memory", "800MiB", "--memory-kind", "paged"})
          .out,
      HasSubstr("memory 800.0 MiB in pages of 512 B"));
}

TEST_F(ScheduleCommand, CountsMemoryInPagesOfTheSizeThatIsAskedFor) {
  const auto make = [&](const std::string& align) {
    return Answer({"schedule", path_, "--policy", "none", "--memory", "4GiB", "--memory-kind",
                   "paged", "--align", align, "-o", schedule_, "--json"});
  };
  const json small = make("512");
  EXPECT_EQ(ReadSchedule(schedule_)->schedule.alignment, 512);
  const json large = make("2MiB");
  EXPECT_EQ(ReadSchedule(schedule_)->schedule.alignment, 2 << 20);
  EXPECT_GT(large["peak_device_bytes"], small["peak_device_bytes"]);
  EXPECT_EQ(large["peak_device_bytes"].get<std::int64_t>() % (2 << 20), 0);
  EXPECT_THAT(ErrorOf({"schedule", path_, "--memory", "4GiB", "--align", "3"}),
              HasSubstr("--align: 3, expected a power of two up to 1 GiB"));
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_, "--align", "512"}),
              HasSubstr("--align: a choice of the policy"));
}

TEST_F(ScheduleCommand, RefusesKindsOfMemoryThatAPolicyDoesNotHave) {
  const auto error = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"schedule", path_, "--memory", "1GiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  };
  EXPECT_THAT(error({"--memory-kind", "paged"}),
              HasSubstr("policy 'vdnn++' makes no schedules with pages, expected one of none"));
  EXPECT_THAT(error({"--policy", "best", "--memory-kind", "pool"}),
              HasSubstr("makes no schedules with a pool, expected fixed or paged memory"));
  EXPECT_THAT(error({"--policy", "none", "--order", "best", "--memory-kind", "fixed"}),
              HasSubstr("--memory-kind fixed: a schedule without a pool"));
  EXPECT_THAT(error({"--memory-kind", "pages"}), HasSubstr("--memory-kind: pages not in"));
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_, "--memory-kind", "paged"}),
              HasSubstr("--memory-kind: a choice of the policy"));
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_, "--recompute", "off"}),
              HasSubstr("--recompute: a choice of the policy"));
}

TEST_F(ScheduleCommand, RefusesSchedulesOfOtherGraphsAndBrokenFiles) {
  Make();
  const std::string other = folder_ / "other.json";
  ASSERT_EQ(WriteGraph(*MakeModel("alexnet", {.batch = 33}), other), absl::OkStatus());
  EXPECT_THAT(ErrorOf({"simulate", other, "--schedule", schedule_}),
              AllOf(HasSubstr("schedule.json: the schedule is one of a graph with the fingerprint"),
                    HasSubstr("expected one of 'alexnet'")));
  ScheduleFile file = ReadSchedule(schedule_).value();
  file.schedule.steps[3] = file.schedule.steps[2];
  ASSERT_EQ(WriteSchedule(file, schedule_), absl::OkStatus());
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_}),
              HasSubstr("step 3, allocate '"));
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", path_}),
              HasSubstr("graph.json: a task graph, expected a schedule; `tidepool schedule GRAPH"));
}

TEST_F(ScheduleCommand, HasTheSameKeysWhereItDoesNotFit) {
  const json fits = Json({"schedule", path_, "--memory", "8GiB", "--policy", "best"});
  const json none = Json({"schedule", path_, "--memory", "1MiB", "--policy", "best"}, 2);
  for (const auto& [key, value] : fits.items()) {
    if (key == "steps" || key == "output") continue;
    EXPECT_TRUE(none.contains(key)) << key;
  }
  EXPECT_EQ(none["seconds"], nullptr);
  EXPECT_EQ(none["ideal_seconds"], fits["ideal_seconds"]);
  EXPECT_EQ(none["proved"], false);
}

TEST_F(ScheduleCommand, RefusesOptionsThatContradict) {
  EXPECT_THAT(ErrorOf({"simulate", path_}), HasSubstr("--memory is missing, expected"));
  EXPECT_THAT(ErrorOf({"run", path_}), HasSubstr("--memory is missing, expected"));
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_, "--policy", "vdnn"}),
              HasSubstr("--policy: a choice of the policy, but --schedule gives a schedule"));
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_, "--memory", "1GiB,2GiB"}),
              HasSubstr("--schedule: a file for one iteration"));
  EXPECT_THAT(ErrorOf({"schedule", path_, "--memory", "1GiB", "-o", path_}),
              HasSubstr("is the graph itself, expected another file"));
  EXPECT_EQ(Run({"schedule", path_, "--memory", "1MiB", "-o", schedule_}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(schedule_));
}

TEST_F(ScheduleCommand, AFrontIsPrintedDrawnAndItsFastestScheduleWritten) {
  const std::string drawing = folder_ / "front.svg";
  const std::vector<std::string> front = {"front", path_,   "--points", "3",  "--link",
                                          "5e9",   "--svg", drawing,    "-o", schedule_};
  const Outcome text = Run(front);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("run again"), HasSubstr("workspace")));
  std::ifstream file(drawing);
  const std::string svg((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(svg, AllOf(HasSubstr("fastest found"), HasSubstr("none is faster")));
  std::vector<std::string> with_json = front;
  with_json.emplace_back("--json");
  const json made = Answer(with_json);
  EXPECT_EQ(made["memories"].size(), 3);
  ASSERT_FALSE(made["points"].empty());
  EXPECT_EQ(made["points"].back()["sub_batch"], 32);
  const json simulated = Answer({"simulate", path_, "--schedule", schedule_, "--json"});
  EXPECT_EQ(simulated["seconds"], made["points"].back()["seconds"]);
  EXPECT_EQ(simulated["memory_bytes"], made["points"].back()["memory_bytes"]);
}

TEST_F(ScheduleCommand, AFrontRefusesDecisionsAndTooLittleMemory) {
  EXPECT_THAT(ErrorOf({"front", path_, "--policy", "none"}), HasSubstr("no option '--policy'"));
  EXPECT_THAT(ErrorOf({"front", path_, "--json", "--svg", "/dev/stdout"}),
              HasSubstr("--json: the drawing goes to standard output"));
  EXPECT_THAT(ErrorOf({"front", path_, "--svg", "front.png"}),
              HasSubstr("--svg: front.png, expected a name that ends in .svg"));
  EXPECT_THAT(ErrorOf({"front", path_, "-o", path_}), HasSubstr("is the graph itself"));
  const Outcome small = Run({"front", path_, "--memory", "1MiB"});
  EXPECT_EQ(small.status, 2);
  EXPECT_THAT(small.out, HasSubstr("no schedule keeps to a memory of 1.0 MiB"));
}

}  // namespace
}  // namespace tidepool
