// SPDX-License-Identifier: Apache-2.0
// An iteration with fixed addresses takes no memory of the program's heap either.
#include <gtest/gtest.h>

#include "tests/support/counted_allocations.h"
#include "tests/training/execute/first_fit_addresses.h"
#include "tests/training/execute/offload_everything.h"
#include "tidepool/host_device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

TEST(ProgramExecutorAllocationsTest, AnIterationAllocatesNothing) {
  if (TIDEPOOL_HAS_SANITIZER) GTEST_SKIP() << "a sanitizer has its own operator new";
  TaskGraph graph = MakeModel("resnet-50", {.batch = 1, .inputs = DataHome::kDevice}).value();
  for (GraphData& data : graph.data) data.bytes = data.bytes / (1 << 16) + 1;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.workspace_bytes /= 1 << 16;
  }
  testing::FirstFitAddresses addresses(graph);
  const Schedule schedule = addresses.Fix(testing::OffloadEverything(graph, {}).Make());
  const auto host = HostDevice::Create({}).value();
  testing::UncountedDevice device(*host);
  Machine machine;
  machine.devices[0].memory_bytes = addresses.top();
  const auto executor =
      Executor::Create({&device}, {graph}, schedule, machine,
                       [](const TaskLaunch& /*launch*/) { return absl::OkStatus(); }, nullptr, {})
          .value();
  for (int iteration = 0; iteration < 3; ++iteration) {
    const std::int64_t before = testing::allocations_of_thread;
    const absl::StatusOr<Timeline> timeline = executor->Run();
    EXPECT_EQ(testing::allocations_of_thread, before);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_GT(timeline->bytes_out, 0);
  }
}

}  // namespace
}  // namespace tidepool
