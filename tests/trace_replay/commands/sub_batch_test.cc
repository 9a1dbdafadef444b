// SPDX-License-Identifier: Apache-2.0
// Tests --batch, --sub-batch and --devices of `schedule`, `simulate` and `run`.
#include "tidepool/training/sub_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/trace_replay/command_line.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SubBatchOptions : public CommandLine {
 protected:
  SubBatchOptions() {
    path_ = folder_ / "family.json";
    schedule_ = folder_ / "schedule.json";
    family_ = MakeModelFamily("alexnet", {}, std::vector<std::int64_t>{1, 2, 4, 8, 16}).value();
    family_.cost_model = nullptr;  // a file has the table alone
    EXPECT_EQ(WriteFamily(family_, path_), absl::OkStatus());
  }

  json Answer(const std::vector<std::string>& arguments, int status = 0) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    return json::parse(outcome.out);
  }
  json Schedule(const std::vector<std::string>& more, int status = 0) {
    std::vector<std::string> arguments = {"schedule", path_, "--policy", "none", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Answer(arguments, status);
  }
  std::string Refusal(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"schedule", path_, "--memory", "4GiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  }

  GraphFamily family_;
  std::string path_;
  std::string schedule_;
};

TEST_F(SubBatchOptions, AreTrueInTheAnswer) {
  const json made = Schedule({"--memory", "4GiB", "--batch", "14", "--sub-batch", "4"});
  EXPECT_EQ(made["sub_batch"], 4);
  EXPECT_EQ(made["rounds"], 4);
  EXPECT_EQ(made["batch"], 14);
  EXPECT_EQ(made["devices"], 1);
  EXPECT_EQ(made["recomputed_seconds"], 0);
  const double ideal = TotalsOf(GraphAt(family_, 14).value()).least_seconds;
  EXPECT_NEAR(made["ideal_seconds"], ideal, 1e-12 * ideal);
  EXPECT_GT(made["lower_bound_seconds"], ideal);
  EXPECT_GE(made["seconds"], made["lower_bound_seconds"]);
  ScheduleRequest request = {.batch = 14, .sub_batch = 4};
  request.machine.devices.front().memory_bytes = std::int64_t{4} << 30;
  request.machine.links.front().out_bytes_per_second = made["link"]["out_bytes_per_second"];
  request.machine.links.front().in_bytes_per_second = made["link"]["in_bytes_per_second"];
  const Timeline timeline = Simulate(MakeSchedule("none", family_, request).value()).value();
  EXPECT_DOUBLE_EQ(made["seconds"], timeline.seconds);
  EXPECT_EQ(made["pool_bytes"], timeline.pool_bytes);
}

TEST_F(SubBatchOptions, FilesOfRoundsAreSimulatedAndRun) {
  const json made =
      Schedule({"--memory", "4GiB", "--batch", "6", "--sub-batch", "4", "-o", schedule_});
  const absl::StatusOr<ScheduleFile> file = ReadSchedule(schedule_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->schedule.memory, ScheduleMemory::kFixed);
  const json simulated = Answer({"simulate", path_, "--schedule", schedule_, "--json"});
  for (const char* key : {"seconds", "bytes_in", "pool_bytes", "sub_batch", "rounds", "batch"}) {
    EXPECT_EQ(simulated[key], made[key]) << key;
  }
  EXPECT_EQ(
      Answer({"simulate", path_, "--schedule", schedule_, "--batch", "6", "--json"})["rounds"], 2);
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_, "--paper"}),
              HasSubstr("--paper: a choice of the policy"));
  const json run = Answer({"run", path_, "--schedule", schedule_, "--scale", "0", "--iterations",
                           "1", "--link", "1e12", "--json"});
  EXPECT_EQ(run["rounds"], 2);
  EXPECT_EQ(run["ideal_seconds"], 0);
  EXPECT_EQ(run["bytes_in"], made["bytes_in"]);
  EXPECT_THAT(ErrorOf({"simulate", path_, "--schedule", schedule_, "--batch", "7"}),
              HasSubstr("an iteration of 6 samples: give it as --batch, or leave --batch out"));
}

TEST_F(SubBatchOptions, DevicesAddGradientsUp) {
  const std::vector<std::string> four = {"--memory",  "4GiB", "--batch", "16",
                                         "--devices", "4",    "-o",      schedule_};
  const auto made = [&](std::vector<std::string> more) {
    more.insert(more.end(), four.begin(), four.end());
    return Schedule(more);
  };
  EXPECT_EQ(made({})["reduction"], "cpu");
  EXPECT_EQ(made({"--peer-bandwidth", "1MB/s"})["reduction"], "cpu");
  EXPECT_EQ(made({"--peer-bandwidth", "1MB/s", "--reduction", "gpu0"})["reduction"], "gpu0");
  const json ring = made({"--peer-bandwidth", "300GB/s"});
  EXPECT_EQ(ring["reduction"], "ring");
  EXPECT_GT(ring["bytes_received"], 0);
  const json simulated = Answer({"simulate", path_, "--schedule", schedule_, "--json"});
  for (const char* key : {"seconds", "bytes_received", "reduction"}) {
    EXPECT_EQ(simulated[key], ring[key]) << key;
  }
  const json slower = Answer({"simulate", path_, "--schedule", schedule_, "--peer-bandwidth",
                              "1MB/s", "--peer-bus", "--json"});
  EXPECT_GT(slower["seconds"], ring["seconds"]);
  const json run = Answer({"run", path_, "--schedule", schedule_, "--scale", "0", "--iterations",
                           "1", "--link", "1e12", "--json"});
  EXPECT_EQ(run["bytes_received"], ring["bytes_received"]);
  EXPECT_THAT(
      Refusal({"--batch", "8", "--devices", "2", "--policy", "none", "--reduction", "ring"}),
      HasSubstr("on a machine without links of peers"));
  EXPECT_THAT(Refusal({"--batch", "8", "--devices", "2", "--policy", "none", "--peer-bus"}),
              HasSubstr("--peer-bus: devices reach each other through the host"));
  EXPECT_THAT(Refusal({"--batch", "8", "--reduction", "tree"}),
              HasSubstr("'tree', expected auto, cpu, gpu0 or ring"));
  EXPECT_THAT(Refusal({"--batch", "8", "--peer-bandwidth", "0"}), HasSubstr("--peer-bandwidth"));
}

TEST_F(SubBatchOptions, AutoTakesTheLargestThatFits) {
  const json all = Schedule({"--memory", "100GiB", "--batch", "16", "--sub-batch", "auto"});
  EXPECT_EQ(all["sub_batch"], 16);
  EXPECT_EQ(all["rounds"], 1);
  const json some = Schedule({"--memory", "500MiB", "--batch", "16", "--sub-batch", "auto"});
  EXPECT_LT(some["sub_batch"], 16);
  EXPECT_LE(some["pool_bytes"], 500 << 20);
  const json none = Schedule({"--memory", "1MiB", "--batch", "16", "--sub-batch", "auto"}, 2);
  EXPECT_EQ(none["fits"], false);
  EXPECT_THAT(none["why"], HasSubstr("no sub-batch fits"));
}

TEST_F(SubBatchOptions, AutoAsksForConsecutiveTasksUnderModnn) {
  const auto made = [&](const std::vector<std::string>& more, int status = 0) {
    std::vector<std::string> arguments = {"schedule", path_,         "--policy", "modnn", "--batch",
                                          "16",       "--sub-batch", "auto",     "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Answer(arguments, status);
  };
  EXPECT_EQ(made({"--memory", "100GiB"})["sub_batch"], 16);
  const json some = made({"--memory", "520MiB"});
  EXPECT_EQ(some["sub_batch"], 4);
  EXPECT_EQ(some["rounds"], 4);
  EXPECT_EQ(some["memory_kind"], "fixed");
  EXPECT_TRUE(some["batch_normalization"].is_null());
  // Fewer tasks need less, so a smaller share allows more samples; the largest task still more.
  EXPECT_EQ(made({"--memory", "520MiB", "--alpha", "0.01"})["sub_batch"], 8);
  EXPECT_EQ(made({"--memory", "520MiB", "--sub-batch-rule", "largest-task"})["sub_batch"], 8);
  const TaskGraph one = GraphAt(family_, 1).value();
  const MemoryBound bound = LeastMemory(one, 512);
  const json least = made({"--memory", std::to_string(bound.bytes)});
  EXPECT_EQ(least["sub_batch"], 1);
  EXPECT_LE(least["pool_bytes"], bound.bytes);
  const json none = made({"--memory", std::to_string(bound.bytes - 1)}, 2);
  EXPECT_EQ(none["fits"], false);
  EXPECT_THAT(none["why"], AllOf(HasSubstr("task \"" + one.tasks[bound.task].name + "\" needs " +
                                           std::to_string(bound.bytes) + " bytes"),
                                 HasSubstr("at a sub-batch of 1")));
  EXPECT_EQ(made({"--memory", "520MiB", "--paper"})["fits"], true);
}

TEST_F(SubBatchOptions, SayThatBatchesAreNormalisedInParts) {
  const std::vector<std::string> arguments = {"simulate", "resnet-18", "--batch",  "4",
                                              "--memory", "4GiB",      "--policy", "modnn"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_EQ(Answer(with({"--json", "--sub-batch", "2"}))["batch_normalization"], "ghost");
  EXPECT_EQ(Answer(with({"--json", "--sub-batch", "4"}))["batch_normalization"], "batch");
  EXPECT_THAT(Run(with({"--sub-batch", "2"})).out,
              HasSubstr("2 rounds of 2 samples, batch normalisation over each of them"));
  EXPECT_THAT(ErrorOf(with({"--sub-batch", "2", "--batch-norm", "refuse"})),
              HasSubstr("normalise over each sub-batch instead of the batch of 4"));
  const std::string family = folder_ / "resnet.json";
  const std::string file = folder_ / "resnet.schedule.json";
  ASSERT_EQ(Run({"model", "resnet-18", "--family", "-o", family}).status, 0);
  ASSERT_EQ(Run({"schedule", family, "--batch", "4", "--sub-batch", "2", "--memory", "4GiB",
                 "--policy", "modnn", "-o", file})
                .status,
            0);
  EXPECT_EQ(ReadSchedule(file)->batch_normalization, BatchNormalization::kGhost);
  const std::vector<std::string> front = {"front",       family, "--batch",      "4",
                                          "--sub-batch", "2",    "--points",     "1",
                                          "-o",          file,   "--time-limit", "0.3s"};
  EXPECT_THAT(Run(front).out, HasSubstr("batch normalisation over the samples of each round"));
  EXPECT_EQ(ReadSchedule(file)->batch_normalization, BatchNormalization::kGhost);
}

TEST_F(SubBatchOptions, NetworksHaveRoundsAndDevicesToo) {
  const json answer = Answer({"simulate", "alexnet", "--batch", "8", "--memory", "4GiB", "--policy",
                              "greedy", "--sub-batch", "2", "--devices", "2", "--json"});
  EXPECT_EQ(answer["devices"], 2);
  EXPECT_EQ(answer["rounds"], 2);
  EXPECT_EQ(answer["batch"], 8);
  EXPECT_THAT(Run({"simulate", "alexnet", "--batch", "8", "--memory", "4GiB", "--policy", "none",
                   "--sub-batch", "2", "--devices", "2"})
                  .out,
              HasSubstr("2 rounds of 2 samples, 2 devices"));
}

TEST_F(SubBatchOptions, SweepsTakeThem) {
  const json answer = Answer({"simulate", "alexnet", "--batch", "8,16", "--memory", "2GiB,4GiB",
                              "--policy", "none", "--sub-batch", "3", "--json"});
  ASSERT_EQ(answer["points"].size(), 4U);
  EXPECT_EQ(answer["points"][3]["rounds"], 6);
}

TEST_F(SubBatchOptions, OptionsOfOtherPoliciesAreRefused) {
  for (const char* policy : {"none", "best"}) {
    EXPECT_THAT(
        Refusal({"--batch", "8", "--policy", policy, "--slots", "5"}),
        HasSubstr(absl::StrCat("--slots: policy ", policy,
                               " has no such option, expected it with a policy of chains")));
  }
  EXPECT_THAT(
      Refusal({"--batch", "8", "--policy", "best", "--algorithms", "m"}),
      HasSubstr("--algorithms: policy best has no such option, expected it with none, base, "
                "vdnn or vdnn++, or a policy of chains"));
  EXPECT_THAT(Refusal({"--batch", "8", "--policy", "greedy", "--offload", "all"}),
              HasSubstr("--offload: policy greedy has no such option"));
  EXPECT_THAT(Refusal({"--batch", "8", "--policy", "none", "--alpha", "0.2"}),
              HasSubstr("--alpha: policy none has no such option, expected it with modnn"));
  EXPECT_THAT(Refusal({"--batch", "8", "--policy", "modnn", "--seed", "2"}),
              HasSubstr("--seed: policy modnn has no such option"));
  EXPECT_THAT(Refusal({"--batch", "8", "--policy", "modnn", "--alpha", "0"}),
              HasSubstr("--alpha: '0', expected more than 0, up to 1"));
  EXPECT_THAT(Refusal({"--batch", "8", "--policy", "none", "--reduction", "ring"}),
              HasSubstr("--reduction: there is one device, expected several with --devices"));
  EXPECT_THAT(Refusal({"--batch", "8", "--policy", "none", "--peer-bandwidth", "50GB/s"}),
              HasSubstr("--peer-bandwidth: there is one device"));
  EXPECT_THAT(
      Refusal({"--batch", "8", "--policy", "none", "--sub-batch", "2", "--host-cores", "3"}),
      HasSubstr("--host-cores: the host updates no weights"));
  const json m = Answer({"simulate", "alexnet", "--batch", "8", "--memory", "4GiB", "--policy",
                         "dynprog", "--slots", "100", "--algorithms", "m", "--json"});
  EXPECT_EQ(m["schedule"], "dynprog(m)");
}

TEST_F(SubBatchOptions, WrongOnesAreRefused) {
  EXPECT_THAT(Refusal({"--batch", "8", "--sub-batch", "0"}),
              HasSubstr("--sub-batch: '0', expected auto, or 1 to"));
  EXPECT_THAT(Refusal({"--batch", "8", "--sub-batch", "x"}), HasSubstr("expected auto"));
  EXPECT_THAT(Refusal({"--batch", "8", "--sub-batch", "9", "--policy", "none"}),
              HasSubstr("a sub-batch of 9 samples, expected 1 to 8"));
  EXPECT_THAT(Refusal({"--batch", "8", "--devices", "0"}), HasSubstr("--devices"));
  EXPECT_THAT(Refusal({"--batch", "8", "--devices", "3", "--policy", "none"}),
              HasSubstr("on 3 devices, expected a multiple of 3"));
  EXPECT_THAT(Refusal({"--sub-batch", "2"}), HasSubstr("a graph at any batch, expected --batch"));
  EXPECT_THAT(Refusal({"--batch", "8", "--sub-batch", "2"}),
              AllOf(HasSubstr("policy 'vdnn++'"), HasSubstr("expected one of none, modnn, best")));
  const std::string graph = folder_ / "graph.json";
  ASSERT_EQ(WriteGraph(GraphAt(family_, 4).value(), graph), absl::OkStatus());
  EXPECT_THAT(ErrorOf({"schedule", graph, "--memory", "4GiB", "--sub-batch", "2"}),
              HasSubstr("a graph of batch 4, expected a graph at any batch"));
}

}  // namespace
}  // namespace tidepool
