// SPDX-License-Identifier: Apache-2.0
// Tasks without work, which take the time of the graph.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tidepool/training/executor.h"

namespace tidepool {

LaunchTask SleepingTasks(Device* device, const TaskGraph& graph, double scale) {
  std::vector<std::vector<std::int64_t>> nanoseconds;
  nanoseconds.reserve(graph.tasks.size());
  for (const GraphTask& task : graph.tasks) {
    auto& of_task = nanoseconds.emplace_back();
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      of_task.push_back(std::llround(algorithm.seconds * scale * 1e9));
    }
  }
  return [device, nanoseconds = std::move(nanoseconds)](const TaskLaunch& launch) {
    return device->SpendTime(launch.stream, nanoseconds[launch.task][launch.algorithm]);
  };
}

}  // namespace tidepool
