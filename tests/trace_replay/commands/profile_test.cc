// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool profile`: its measurements, the times that it knows already, and its errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <variant>

#include "tests/trace_replay/command_line.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ProfileCommand : public CommandLine {
 protected:
  ProfileCommand()
      : graph_(folder_ / "graph.json"), store_(folder_ / "times"), output_(folder_ / "out.json") {}

  json Measured(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"profile", graph_, "--store", store_,
                                          "--runs",  "1",    "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  }

  std::string graph_;
  std::string store_;
  std::string output_;
};

std::int64_t AlgorithmsOf(const TaskGraph& graph) {
  std::int64_t count = 0;
  for (const GraphTask& task : graph.tasks) {
    count += static_cast<std::int64_t>(task.algorithms.size());
  }
  return count;
}

TEST_F(ProfileCommand, MeasuresEachAlgorithmOnce) {
  const TaskGraph graph = *MakeModel("alexnet", {.batch = 2});
  ASSERT_EQ(WriteGraph(graph, graph_), absl::OkStatus());
  const json first = Measured();
  EXPECT_EQ(first["device"], "host");
  EXPECT_EQ(first["library"], "tasks that sleep for times of h200");
  EXPECT_EQ(first["measured"].get<std::int64_t>() + first["known"].get<std::int64_t>(),
            AlgorithmsOf(graph));
  EXPECT_GT(first["measured"], 0);
  EXPECT_GT(first["link_in"]["bytes_per_second"], 0);
  EXPECT_GE(first["link_out"]["latency_seconds"], 0);
  const json second = Measured();
  EXPECT_EQ(second["measured"], 0);
  EXPECT_EQ(second["known"], AlgorithmsOf(graph));
  EXPECT_EQ(second["link_in"], first["link_in"]);
  EXPECT_EQ(Measured({"--again"})["measured"], AlgorithmsOf(graph));
}

// A sleep takes no less than its time.
TEST_F(ProfileCommand, WritesTheMeasuredGraph) {
  const TaskGraph graph = *MakeModel("alexnet", {.batch = 2});
  ASSERT_EQ(WriteGraph(graph, graph_), absl::OkStatus());
  EXPECT_EQ(Measured({"-o", output_})["output"], output_);
  const TaskGraph measured = *ReadGraph(output_);
  ASSERT_EQ(measured.tasks.size(), graph.tasks.size());
  EXPECT_GE(TotalsOf(measured).least_seconds, TotalsOf(graph).least_seconds);
  EXPECT_EQ(measured.data, graph.data);
}

TEST_F(ProfileCommand, MeasuresBatchesOfAFamily) {
  ASSERT_EQ(WriteFamily(*MakeModelFamily("alexnet", {}, {1, 2, 4}), graph_), absl::OkStatus());
  const json measured = Measured({"--batches", "1,2", "-o", output_});
  EXPECT_GT(measured["measured"], 0);
  const auto family = ReadGraphOrFamily(output_);
  ASSERT_TRUE(family.ok()) << family.status();
  EXPECT_EQ(std::get<GraphFamily>(*family).batches, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(Measured({"--batches", "2"})["measured"], 0);
}

TEST_F(ProfileCommand, PrintsATable) {
  ASSERT_EQ(WriteGraph(*MakeModel("alexnet", {.batch = 1}), graph_), absl::OkStatus());
  const Outcome outcome = Run({"profile", graph_, "--store", store_, "--runs", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("link to the device"));
  EXPECT_THAT(outcome.out, HasSubstr("algorithms measured"));
}

TEST_F(ProfileCommand, RefusesWhatItCannotMeasure) {
  ASSERT_EQ(WriteGraph(*MakeModel("alexnet", {.batch = 1}), graph_), absl::OkStatus());
  EXPECT_THAT(ErrorOf({"profile", folder_ / "none.json"}), HasSubstr("none.json: "));
  EXPECT_THAT(ErrorOf({"profile", graph_, "--device", "tpu"}),
              HasSubstr("--device: 'tpu', expected host or cuda"));
  EXPECT_THAT(ErrorOf({"profile", graph_, "--store", graph_}),
              HasSubstr("graph.json: SQLite: file is not a database"));
  EXPECT_THAT(ErrorOf({"profile", graph_, "--batches", "1", "--store", store_}),
              HasSubstr("has one batch, expected a graph at any batch"));
  EXPECT_THAT(ErrorOf({"profile", graph_, "--runs", "0"}), HasSubstr("--runs: '0'"));
  EXPECT_THAT(ErrorOf({"profile", "--merge", store_, "--output", graph_}),
              HasSubstr("--output: --merge measures nothing"));
  EXPECT_THAT(ErrorOf({"profile", "--merge", store_, "--device", "tpu"}),
              HasSubstr("--device: --merge measures nothing"));
  EXPECT_THAT(ErrorOf({"profile", graph_, "--layout", "NHWC"}),
              HasSubstr("--layout: about the convolutions of --convolutions"));
}

}  // namespace
}  // namespace tidepool
