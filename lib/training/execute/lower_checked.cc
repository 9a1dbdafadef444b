// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/lower_checked.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/training/schedule/steps/step_text.h"

namespace tidepool::execute {
namespace {

absl::Status CheckMemoryKind(const Schedule& schedule) {
  if (schedule.memory != ScheduleMemory::kPool) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the schedule is one of a pool, expected fixed addresses or pages: PlaceInPool gives it "
      "addresses");
}

absl::Status CheckAdditions(const Schedule& schedule, const ExecutorOptions& options) {
  const bool adds = std::any_of(schedule.steps.begin(), schedule.steps.end(),
                                [](const ScheduleStep& one) { return one.kind == StepKind::kAdd; });
  if (!adds || options.add_received != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "devices add gradients up, and no function was given, expected `add_received`");
}

absl::Status CheckAddresses(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                            const Machine& machine) {
  std::vector<std::int64_t> memory_bytes;
  for (const MachineDevice& device : machine.devices) memory_bytes.push_back(device.memory_bytes);
  if (memory_bytes.size() < schedule.devices) {
    return absl::InvalidArgumentError(absl::StrCat("the machine has ", memory_bytes.size(),
                                                   " devices, and the schedule has ",
                                                   schedule.devices));
  }
  if (schedule.memory == ScheduleMemory::kPaged) return ValidateSchedule(graphs, schedule);
  memory_bytes.resize(schedule.devices);
  return ValidateAddresses(graphs, schedule, memory_bytes);
}

// A pipeline belongs to one device, and its copies are of whole data.
absl::Status CheckHostCompression(const TaskGraph& graph, const Schedule& schedule) {
  if (schedule.devices > 1) {
    return absl::InvalidArgumentError(absl::StrCat("the schedule has ", schedule.devices,
                                                   " devices, expected one with a pipeline"));
  }
  std::vector<bool> is_compressed(graph.data.size());
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const ScheduleStep& step = schedule.steps[i];
    if (step.kind == StepKind::kOffload) is_compressed[step.index] = step.density >= 0;
    const bool copies = step.kind == StepKind::kOffload || step.kind == StepKind::kPrefetch;
    if (!copies || !is_compressed[step.index] || (step.begin == 0 && step.end == -1)) continue;
    return schedule::WrongStep(graph, schedule, i, "bytes [", step.begin, ", ", step.end,
                               "), expected [0, -1) of data that the host compresses");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> LowerChecked(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                     const Machine& machine, const ExecutorOptions& options) {
  absl::Status status = CheckMemoryKind(schedule);
  if (status.ok()) status = CheckAdditions(schedule, options);
  if (status.ok()) status = CheckAddresses(graphs, schedule, machine);
  const bool host_compresses = options.pipeline != nullptr;
  if (status.ok() && host_compresses) status = CheckHostCompression(graphs.front(), schedule);
  if (!status.ok()) return status;
  const HostCompression compression;  // no times count here
  return LowerSchedule(graphs, schedule, machine,
                       {.host_compression = host_compresses ? &compression : nullptr,
                        .maps_pages = schedule.memory == ScheduleMemory::kPaged});
}

}  // namespace tidepool::execute
