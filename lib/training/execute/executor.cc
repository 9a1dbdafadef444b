// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of the executor and makes it.
#include "tidepool/training/executor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/execute/lower_checked.h"
#include "lib/training/execute/program_executor.h"

namespace tidepool {
namespace execute {
namespace {

absl::Status CheckProbes(const ExecutorOptions& options) {
  if (options.probe_every < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("probes every ", options.probe_every, " iterations, expected 0 or more"));
  }
  if (options.probe_every == 0 || options.on_density != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError("probes without a function on_density that takes densities");
}

absl::Status CheckArguments(absl::Span<Device* const> devices, const Schedule& schedule,
                            const LaunchTask& launch) {
  const bool has_null = std::find(devices.begin(), devices.end(), nullptr) != devices.end();
  if (has_null || launch == nullptr) {
    return absl::InvalidArgumentError(
        "a null pointer, expected devices and a function that launches tasks");
  }
  if (devices.size() >= schedule.devices) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the executor got ", devices.size(), " devices, and the schedule has ", schedule.devices));
}

}  // namespace
}  // namespace execute

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    absl::Span<Device* const> devices, absl::Span<const TaskGraph> graphs, const Schedule& schedule,
    const Machine& machine, LaunchTask launch, FillHome fill, const ExecutorOptions& options) {
  absl::Status status = execute::CheckArguments(devices, schedule, launch);
  if (!status.ok()) return status;
  if (status = execute::CheckProbes(options); !status.ok()) return status;
  if (options.pipeline != nullptr && options.copy_compressed != nullptr) {
    return absl::InvalidArgumentError(
        "a pipeline and a function `copy_compressed`, expected one of them");
  }
  absl::StatusOr<Program> program = execute::LowerChecked(graphs, schedule, machine, options);
  if (!program.ok()) return program.status();
  auto executor =
      std::make_unique<execute::ProgramExecutor>(devices.first(schedule.devices), graphs, machine,
                                                 std::move(launch), std::move(fill), options);
  if (status = executor->Start(schedule, *std::move(program)); !status.ok()) return status;
  return executor;
}

// Tasks without work, which take the time of the graph.
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
