// SPDX-License-Identifier: Apache-2.0
// Schedules and graphs that make no program: the error names the task and the expectation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "tests/training/emit/small_networks.h"
#include "tidepool/training/emit_program.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

MadeSchedule MadeFor(const TaskGraph& graph, const std::string& policy = "none") {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = std::int64_t{1} << 30;
  request.memory = ScheduleMemory::kFixed;
  return MakeSchedule(policy, graph, request).value();  // throws the error: the test ends
}

TaskGraph SmallGraph(const ModelOptions& options = {}) {
  const GraphFamily family =
      ::tidepool::testing::SmallFamily(::tidepool::testing::AddSmallResNet, options);
  return GraphAt(family, 4).value();
}

absl::Status EmitStatus(const TaskGraph& graph) {
  const MadeSchedule made = MadeFor(graph);
  return EmitProgram(made.graphs, made.schedule, made.machine).status();
}

GraphTask& TaskNamed(TaskGraph& graph, const std::string& name) {
  return *std::ranges::find(graph.tasks, name, &GraphTask::name);
}

TEST(RefusedTest, NamesTheTaskWithoutParameters) {
  TaskGraph graph = SmallGraph();
  TaskNamed(graph, "conv3.backward-data").parameters = {};
  const absl::Status status = EmitStatus(graph);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("task 'conv3.backward-data' has no layer parameters"));
}

TEST(RefusedTest, NamesTheTaskWithParametersThatDataDoesNotHave) {
  TaskGraph graph = SmallGraph();
  std::get<ConvolutionParameters>(TaskNamed(graph, "conv3.forward").parameters).k = 7;
  EXPECT_THAT(std::string(EmitStatus(graph).message()),
              HasSubstr("task 'conv3.forward' has 6144 bytes of output, expected 7168"));
}

TEST(RefusedTest, NamesTheTaskOfAnUnknownOperation) {
  TaskGraph graph = SmallGraph();
  TaskNamed(graph, "relu3.forward").operation = "maxout";
  EXPECT_THAT(std::string(EmitStatus(graph).message()),
              HasSubstr("task 'relu3.forward' has the operation 'maxout', expected one of conv,"));
}

TEST(RefusedTest, NamesTheTaskThatNoKernelComputes) {
  EXPECT_THAT(std::string(EmitStatus(SmallGraph({.fused_batch_normalization = true})).message()),
              HasSubstr("task 'bn1.forward' normalises in place"));
  TaskGraph graph = SmallGraph({.optimizer = Optimizer::kMomentum});
  GraphTask& update = TaskNamed(graph, "fc.update");
  std::erase_if(update.updates,
                [&](std::size_t data) { return graph.data[data].name == "fc.bias.momentum"; });
  EXPECT_THAT(std::string(EmitStatus(graph).message()),
              HasSubstr("task 'fc.update' updates 2 weights with 1 states from 2 gradients"));
  EXPECT_THAT(std::string(EmitStatus(SmallGraph({.precision = Precision::kFloat16})).message()),
              HasSubstr("expected float32"));
}

TEST(RefusedTest, TheScheduleIsOfThisGraphOneDeviceAndFixedAddresses) {
  const TaskGraph graph = SmallGraph();
  MadeSchedule made = MadeFor(graph);
  TaskGraph other = graph;
  other.data.front().bytes *= 2;
  EXPECT_TRUE(
      absl::IsFailedPrecondition(EmitProgram({&other, 1}, made.schedule, made.machine).status()));
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = std::int64_t{1} << 30;
  const absl::StatusOr<MadeSchedule> pool = MakeSchedule("vdnn", graph, request);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(
      std::string(EmitProgram(pool->graphs, pool->schedule, pool->machine).status().message()),
      HasSubstr("memory of the kind pool, expected fixed addresses"));
  for (ScheduleStep& step : made.schedule.steps) {
    if (step.kind == StepKind::kAllocate) step.offset = 0;
  }
  EXPECT_THAT(std::string(EmitProgram({&graph, 1}, made.schedule, made.machine).status().message()),
              HasSubstr("expected addresses that are free"));
}

TEST(RefusedTest, NamesTheTaskThatTheHostRuns) {
  ScheduleRequest request = {.batch = 4, .host_updates = true};
  request.machine.devices.front().memory_bytes = std::int64_t{1} << 30;
  request.machine.host.cores = 1;
  const GraphFamily family = ::tidepool::testing::SmallFamily(::tidepool::testing::AddSmallResNet);
  const MadeSchedule made = MakeSchedule("none", family, request).value();
  EXPECT_THAT(std::string(EmitProgram(made.graphs, made.schedule, made.machine).status().message()),
              HasSubstr(".update' runs on the host, expected tasks of the device for a program"));
}

TEST(RefusedTest, ALossComesAfterASoftmax) {
  TaskGraph graph = SmallGraph();
  TaskNamed(graph, "softmax.forward").operation = "tanh";
  EXPECT_THAT(std::string(EmitStatus(graph).message()), HasSubstr("reads no output of a softmax"));
}

}  // namespace
}  // namespace tidepool
