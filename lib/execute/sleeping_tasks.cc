// SPDX-License-Identifier: Apache-2.0
// Tasks without work, which take the time of the graph.
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "tidepool/schedule/executor.h"

namespace tidepool {

LaunchTask SleepingTasks(Device* device, const TaskGraph& graph, double scale) {
  std::vector<std::vector<double>> seconds;
  seconds.reserve(graph.tasks.size());
  for (const GraphTask& task : graph.tasks) {
    auto& of_task = seconds.emplace_back();
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      of_task.push_back(algorithm.seconds * scale);
    }
  }
  return [device, seconds = std::move(seconds)](const TaskLaunch& launch) {
    const std::chrono::duration<double> time(seconds[launch.task][launch.algorithm]);
    return device->CallHost(launch.stream, [time] { std::this_thread::sleep_for(time); });
  };
}

}  // namespace tidepool
