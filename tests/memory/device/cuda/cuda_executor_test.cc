// SPDX-License-Identifier: Apache-2.0
// Iterations on a CUDA device: tasks spend their time on the device, and events measure it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/memory/device/cuda/stand_in.h"
#include "tests/training/execute/offload_everything.h"
#include "tidepool/cuda_device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

constexpr std::int64_t kDataBytes = 64 << 10;
constexpr double kTaskSeconds = 1e-3;

// A chain of tasks. Each reads the output of the one before it, and the last one the input too.
TaskGraph ChainOfTasks(std::size_t tasks) {
  TaskGraph graph;
  graph.name = "chain";
  graph.data.push_back({"x0", kDataBytes, DataKind::kInput});
  for (std::size_t i = 0; i < tasks; ++i) {
    graph.data.push_back({"x" + std::to_string(i + 1), kDataBytes, DataKind::kActivation});
    graph.tasks.push_back(
        {.name = "task" + std::to_string(i),
         .layer = "layer" + std::to_string(i),
         .operation = "conv",
         .reads = i + 1 < tasks ? std::vector<std::size_t>{i} : std::vector<std::size_t>{i, 0},
         .writes = {i + 1},
         .algorithms = {{"spin", kTaskSeconds, 0}}});
  }
  return graph;
}

TEST(CudaExecutor, IsMeasuredByEvents) {
  constexpr std::size_t kTasks = 4;
  ConfigureStandIn({});
  {
    const auto device = *CudaDevice::Create({});
    const TaskGraph graph = ChainOfTasks(kTasks);
    const Schedule schedule = testing::OffloadEverything(graph, {}).Make();
    Machine machine;
    machine.devices.front().memory_bytes = 16 * kDataBytes;
    const PlacedSchedule placed = *PlaceInPool(graph, schedule, machine);
    const auto executor =
        *Executor::Create({device.get()}, {graph}, placed.schedule, machine,
                          SleepingTasks(device.get(), graph, 1), nullptr, {.measures = true});
    for (int i = 0; i < 2; ++i) {
      const absl::StatusOr<Timeline> timeline = executor->Run();
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      const auto is_task = [](const TimelineEvent& event) {
        return event.kind == TimelineEvent::Kind::kTask;
      };
      EXPECT_EQ(std::count_if(timeline->events.begin(), timeline->events.end(), is_task), kTasks);
      EXPECT_GT(timeline->events.size(), kTasks) << "copies are measured too";
      for (const TimelineEvent& event : timeline->events) {
        EXPECT_GE(event.start, 0);
        EXPECT_GE(event.end - event.start, is_task(event) ? 0.9 * kTaskSeconds : 0);
      }
      EXPECT_GE(timeline->compute_seconds, 0.9 * kTasks * kTaskSeconds);
    }
    EXPECT_EQ(cudartHostCountCalls("cudaLaunchHostFunc"), 0);
    EXPECT_EQ(cudartHostCountCalls("cuLaunchKernel"), 2 * kTasks);
  }
  EXPECT_EQ(CountLive(), 0);
  ConfigureStandIn({});
}

}  // namespace
}  // namespace tidepool
