// SPDX-License-Identifier: Apache-2.0
// Configurations as algorithms of a graph's tasks, and schedules that choose among them.
#include "tidepool/training/micro_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/expect_valid.h"
#include "tests/training/models/made_model.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kSampleBytes = 1000;

// Two convolutions, one after the other. A product takes 4 ms a sample and no workspace, an FFT 1
// ms a sample, 1 ms more, and 10,000 bytes a sample.
GraphFamily TwoConvolutions() {
  GraphFamily family;
  family.graph.name = "two convolutions";
  family.graph.data = {{"x", 0, DataKind::kInput}, {"y"}, {"z"}};
  family.bytes_per_sample = {kSampleBytes, kSampleBytes, kSampleBytes};
  const ConvolutionParameters shape = {.n = 1, .c = 1, .h = 5, .w = 5, .k = 1, .r = 5, .s = 5};
  for (std::size_t i = 0; i < 2; ++i) {
    GraphTask task;
    task.name = i == 0 ? "first" : "second";
    task.operation = "conv";
    task.reads = {i};
    task.writes = {i + 1};
    task.parameters = shape;
    family.graph.tasks.push_back(task);
  }
  family.cost_model = [](TaskGraph& graph) {
    const auto samples = static_cast<double>(graph.batch);
    for (GraphTask& task : graph.tasks) {
      task.algorithms = {{"gemm", 4e-3 * samples, 0},
                         {"fft", 1e-3 + 1e-3 * samples, 10 * kSampleBytes * graph.batch}};
    }
    return absl::OkStatus();
  };
  return family;
}

TEST(GraphInMicroBatches, HasTheDesirableConfigurations) {
  const TaskGraph graph = GraphInMicroBatches(TwoConvolutions(), 8, "powerOfTwo").value();
  ASSERT_EQ(ValidateGraph(graph), absl::OkStatus());
  const std::vector<TaskAlgorithm>& algorithms = graph.tasks[1].algorithms;
  ASSERT_EQ(algorithms.size(), 5U);
  EXPECT_EQ(algorithms[0].name, "gemm");
  EXPECT_THAT(algorithms[0].micro_batches, ::testing::IsEmpty());
  EXPECT_EQ(algorithms[2].name, "4 x 2 by fft");
  EXPECT_EQ(algorithms[2].workspace_bytes, 20 * kSampleBytes);
  EXPECT_DOUBLE_EQ(algorithms[2].seconds, 4 * 3e-3);
  EXPECT_THAT(algorithms[2].micro_batches, ElementsAre(MicroBatch{"fft", 2}, MicroBatch{"fft", 2},
                                                       MicroBatch{"fft", 2}, MicroBatch{"fft", 2}));
  EXPECT_EQ(algorithms[4], (TaskAlgorithm{"fft", 1e-3 + 1e-3 * 8, 80 * kSampleBytes}));
  // The file of the graph keeps them.
  EXPECT_EQ(ParseGraph(GraphJson(graph), "graph").value(), graph);
  const TaskGraph undivided = GraphInMicroBatches(TwoConvolutions(), 8, "undivided").value();
  EXPECT_EQ(undivided, GraphAt(TwoConvolutions(), 8).value());
}

TEST(GraphInMicroBatches, RefusesWhatNoFamilyHas) {
  EXPECT_THAT(
      std::string(GraphInMicroBatches(TwoConvolutions(), 8, "sometimes").status().message()),
      HasSubstr("unknown policy 'sometimes'"));
  EXPECT_THAT(
      std::string(
          GraphInMicroBatches(TwoConvolutions(), std::int64_t{1} << 20, "all").status().message()),
      HasSubstr("expected up to 65536"));
}

TEST(GraphInMicroBatches, DividesLayersThatTreatSamplesApart) {
  std::map<std::string, bool> is_divided;
  for (const char* const name : {"resnet-18", "gpt2-small"}) {
    const GraphFamily family = MakeModelFamily(name, {}, {8}).value();
    const TaskGraph graph = GraphInMicroBatches(family, 8, "all").value();
    ASSERT_EQ(ValidateGraph(graph), absl::OkStatus());
    const TaskGraph plain = GraphAt(family, 8).value();
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      const GraphTask& task = graph.tasks[i];
      if (!TreatsSamplesApart(task)) {
        EXPECT_EQ(task, plain.tasks[i]);
      }
      is_divided[task.operation] |= TreatsSamplesApart(task) && task.phase != TaskPhase::kUpdate;
      double fastest = task.algorithms.front().seconds;
      for (const TaskAlgorithm& algorithm : task.algorithms) {
        fastest = std::min(fastest, algorithm.seconds);
      }
      for (const TaskAlgorithm& algorithm : plain.tasks[i].algorithms) {
        EXPECT_LE(fastest, algorithm.seconds) << task.name;
      }
    }
  }
  EXPECT_TRUE(is_divided["conv"]);
  EXPECT_TRUE(is_divided["max-pool"]);
  EXPECT_TRUE(is_divided["linear"]);
  EXPECT_TRUE(is_divided["attention"]);
  EXPECT_TRUE(is_divided["layer-norm"]);
  EXPECT_FALSE(is_divided["batch-norm"]);
  EXPECT_FALSE(is_divided["relu"]);
}

// Both workspaces have the same place, and the addresses of all data and workspaces keep to the
// memory.
TEST(GraphInMicroBatches, WorkspacesShareTheMemoryOfASchedule) {
  const TaskGraph divided = GraphInMicroBatches(TwoConvolutions(), 8, "powerOfTwo").value();
  const TaskGraph whole = GraphAt(TwoConvolutions(), 8).value();
  // Room for two tensors in blocks of 512 bytes, and a workspace of two samples.
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = 2 * 8192 + 20480;
  request.memory = ScheduleMemory::kFixed;
  for (const char* const policy : {"best", "modnn"}) {
    const MadeSchedule slow = MakeSchedule(policy, whole, request).value();
    const MadeSchedule fast = MakeSchedule(policy, divided, request).value();
    ExpectValid(slow);
    ExpectValid(fast);
    EXPECT_NEAR(Simulate(slow)->seconds, 2 * 8 * 4e-3, 1e-4) << policy;
    EXPECT_NEAR(Simulate(fast)->seconds, 2 * 4 * 3e-3, 1e-4) << policy;
    EXPECT_LE(Simulate(fast)->peak_device_bytes, request.machine.devices.front().memory_bytes);
  }
}

}  // namespace
}  // namespace tidepool
