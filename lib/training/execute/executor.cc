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

// Returns the granule of the pages of both the schedule and the devices.
absl::StatusOr<std::int64_t> GranuleOf(absl::Span<Device* const> devices,
                                       const Schedule& schedule) {
  std::int64_t granule = schedule.alignment;
  for (std::size_t i = 0; i < schedule.devices; ++i) {
    const std::int64_t of_device = devices[i]->granularity();
    if (of_device == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the schedule has pages, and device ", i, ", ", devices[i]->name(),
                       ", has no virtual memory: expected fixed addresses, which FixAddresses and "
                       "`--memory-kind fixed` plan"));
    }
    if (granule % of_device == 0) continue;
    if (granule < 1 || of_device % granule != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the schedule has pages of ", schedule.alignment, " bytes, and those of device ", i,
          " have ", of_device, ", expected one of the two to be a multiple of the other"));
    }
    granule = of_device;
  }
  return granule;
}

// Adds both sizes to an error about a schedule that took the larger pages of the devices.
absl::Status WithBothPages(const absl::Status& error, const Schedule& schedule,
                           const Schedule& own) {
  if (own.alignment == schedule.alignment) return error;
  return absl::Status(
      error.code(),
      absl::StrCat(error.message(), "; the schedule has pages of ", schedule.alignment,
                   " bytes, and those of the device have ", own.alignment, ": make it with these"));
}

}  // namespace
}  // namespace execute

absl::StatusOr<Schedule> WithPagesOf(absl::Span<Device* const> devices, const Schedule& schedule) {
  if (schedule.memory != ScheduleMemory::kPaged) return schedule;
  const bool has_null = std::find(devices.begin(), devices.end(), nullptr) != devices.end();
  if (has_null || devices.size() < schedule.devices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected the ", schedule.devices, " devices of the schedule, and no null pointer"));
  }
  const absl::StatusOr<std::int64_t> granule = execute::GranuleOf(devices, schedule);
  if (!granule.ok()) return granule.status();
  Schedule own = schedule;
  own.alignment = *granule;
  return own;
}

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
  const absl::StatusOr<Schedule> own = WithPagesOf(devices, schedule);
  if (!own.ok()) return own.status();
  absl::StatusOr<Program> program = execute::LowerChecked(graphs, *own, machine, options);
  if (!program.ok()) return execute::WithBothPages(program.status(), schedule, *own);
  auto executor =
      std::make_unique<execute::ProgramExecutor>(devices.first(schedule.devices), graphs, machine,
                                                 std::move(launch), std::move(fill), options);
  if (status = executor->Start(*own, *std::move(program)); !status.ok()) return status;
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
