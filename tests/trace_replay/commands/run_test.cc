// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool run`: iterations on the host device, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/shared_files.h"
#include "tests/trace_replay/command_line.h"
#include "tidepool/copies/compression_profile.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class RunCommand : public CommandLine {
 protected:
  RunCommand() : graph_(*MakeModel("googlenet", {.batch = 4})) {
    path_ = folder_ / "graph.json";
    EXPECT_EQ(WriteGraph(graph_, path_), absl::OkStatus());
  }

  json Answer(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", path_, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  std::string Refusal(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", path_, "--memory", "1GiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  }

  TaskGraph graph_;
  std::string path_;
};

TEST_F(RunCommand, MovesWhatTheSimulatorSays) {
  for (const char* policy : {"none", "vdnn", "vdnn++"}) {
    for (const char* placement : {"best-fit", "planned"}) {
      std::vector<std::string> options = {"--policy",    policy,    "--memory", "1GiB",
                                          "--placement", placement, "--link",   "inf"};
      if (std::string_view(policy) != "none") {
        options.insert(options.end(), {"--offload", "all"});
      }
      std::vector<std::string> simulate = {"simulate", path_, "--json"};
      simulate.insert(simulate.end(), options.begin(), options.end());
      const Outcome outcome = Run(simulate);
      ASSERT_EQ(outcome.status, 0) << policy << placement << outcome.err;
      const json predicted = json::parse(outcome.out);
      const json answer = Answer(options);
      EXPECT_EQ(answer["device"], "host");
      EXPECT_EQ(answer["predicted_seconds"], predicted["seconds"]);
      EXPECT_EQ(answer["predicted_compute_seconds"], predicted["compute_seconds"]);
      double stalled = 0;
      for (const json& seconds : predicted["stall_seconds"]) stalled += seconds.get<double>();
      EXPECT_DOUBLE_EQ(answer["predicted_stalled_seconds"].get<double>(), stalled);
      EXPECT_EQ(answer["iteration_seconds"].size(), 3);
      EXPECT_EQ(answer["bytes_out"], predicted["bytes_out"]);
      EXPECT_EQ(answer["bytes_in"], predicted["bytes_in"]);
      EXPECT_EQ(answer["pool_bytes"], predicted["pool_bytes"]);
      EXPECT_EQ(answer["stayed"], 0);
      EXPECT_GE(answer["seconds"], answer["compute_seconds"]);
    }
  }
}

TEST_F(RunCommand, PrintsATableAndWritesATimeline) {
  const std::filesystem::path timeline = folder_ / "timeline.json";
  const Outcome outcome = Run({"run", path_, "--memory", "1GiB", "--iterations", "1", "--scale",
                               "0.1", "--timeline", timeline});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("on host +measured +predicted\n"));
  for (const char* row : {"last of 1 iterations", "computing", "stalled"}) {
    EXPECT_THAT(outcome.out, ContainsRegex(absl::StrCat(row, " +[0-9.]+ ms +[0-9.]+ ms\n")));
  }
  EXPECT_GT(json::parse(testing::Contents(timeline))["traceEvents"].size(), graph_.tasks.size());
}

#ifdef TIDEPOOL_CUDART_HOST

TEST_F(RunCommand, TasksTakeTheirTimeOnAGpu) {
  const std::string schedule = folder_ / "schedule.json";
  ASSERT_EQ(Run({"schedule", path_, "--policy", "best", "--memory", "1GiB", "-o", schedule}).status,
            0);
  setenv("LD_LIBRARY_PATH", TIDEPOOL_CUDART_HOST, 1);
  setenv("CUDART_HOST_MEMORY", "2147483648", 1);
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--memory", "1GiB"}, {"--schedule", schedule}}) {
    std::vector<std::string> run = {"--device", "cuda", "--iterations", "1"};
    run.insert(run.end(), options.begin(), options.end());
    const json answer = Answer(run);
    EXPECT_EQ(answer["device"], "cuda:0");
    EXPECT_GE(answer["compute_seconds"].get<double>(),
              0.99 * answer["predicted_compute_seconds"].get<double>());
  }
  unsetenv("CUDART_HOST_MEMORY");
  unsetenv("LD_LIBRARY_PATH");
}

#endif

TEST_F(RunCommand, Compresses) {
  const json answer = Answer({"--offload", "all", "--memory", "1GiB", "--link", "1e9", "--density",
                              "0.3", "--iterations", "1"});
  EXPECT_GT(answer["compressed"], 0);
  std::int64_t bytes_in = answer["bytes_out"];
  for (const GraphData& data : graph_.data) {
    if (data.before == DataHome::kHost) bytes_in += data.bytes;
  }
  EXPECT_EQ(answer["bytes_in"], bytes_in);
}

// Compression costs hardly any time, so density alone decides.
TEST_F(RunCommand, ChoosesCompressionAgainWhenDensitiesChange) {
  CompressionProfile profile;
  profile.words32 = {{0.01, 0.01}, {0.01, 0.01}, 1};
  profile.slot_ns = 0;
  const std::string file = folder_ / "profile.json";
  ASSERT_EQ(WriteCompressionProfile(profile, file), absl::OkStatus());
  const std::vector<std::string> options = {"--memory",
                                            "1GiB",
                                            "--offload",
                                            "conv",
                                            "--link",
                                            "2e9",
                                            "--scale",
                                            "0",
                                            "--density",
                                            "0.99",
                                            "--compression-profile",
                                            file,
                                            "--iterations",
                                            "6",
                                            "--data-density",
                                            "0.99,0.2,0.2,0.2,0.99"};
  std::vector<std::string> probing = options;
  probing.insert(probing.end(), {"--probe-every", "2"});  // iterations 1, 3 and 5
  const json answer = Answer(probing)["densities"];
  EXPECT_EQ(answer["choices"], 2);
  EXPECT_GT(answer["probes"], 0);
  EXPECT_EQ(answer["probes"].get<int>() % 3, 0);
  const auto compressed = answer["compressed_by_iteration"].get<std::vector<int>>();
  ASSERT_EQ(compressed.size(), 6);
  EXPECT_EQ(compressed, (std::vector<int>{0, 0, 0, compressed[3], compressed[3], 0}));
  EXPECT_GT(compressed[3], 0);
  EXPECT_FALSE(Answer(options).contains("densities"));
}

TEST_F(RunCommand, TakesTheBaseManager) {
  const json answer = Answer({"--policy", "base", "--memory", "1GiB", "--scale", "0"});
  EXPECT_EQ(answer["schedule"], "base(p)");
  EXPECT_EQ(answer["bytes_out"], 0);
}

TEST_F(RunCommand, WhatDoesNotFitIsANo) {
  const Outcome outcome = Run({"run", path_, "--memory", "20MiB"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("does not fit in .*: task '.*' alone needs"));
}

TEST_F(RunCommand, RefusesWhatCannotBe) {
  EXPECT_THAT(Refusal({"--device", "tpu"}), HasSubstr("expected host or cuda"));
  EXPECT_THAT(Refusal({"--iterations", "0"}), HasSubstr("expected a whole number from 1 to"));
  EXPECT_THAT(Refusal({"--scale", "-1"}), HasSubstr("--scale"));
  EXPECT_THAT(Refusal({"--scale", "nan"}), HasSubstr("--scale"));
  EXPECT_THAT(Refusal({"--link-in", "1e9"}), HasSubstr("--link-in"));
  EXPECT_THAT(Refusal({"--policy", "bane"}), HasSubstr("base, none, vdnn, "));
  EXPECT_THAT(Refusal({"--link", "0"}), HasSubstr("expected"));
  EXPECT_THAT(Refusal({"--probe-every", "0"}), HasSubstr("--probe-every"));
  EXPECT_THAT(Refusal({"--data-density", "0.5,2"}),
              HasSubstr("--data-density: '2', expected numbers from 0 to 1"));
  EXPECT_THAT(Refusal({"--data-density", "0.5", "--device", "cuda"}),
              HasSubstr("expected --device host"));
  for (const char* option : {"--probe-every", "--data-density"}) {
    EXPECT_THAT(Refusal({option, "1", "--policy", "base"}), HasSubstr("expected one of a pool"));
  }
}

}  // namespace
}  // namespace tidepool
