// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/lower_checked.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tidepool::execute {
namespace {

absl::Status CheckMemoryKind(const Schedule& schedule) {
  if (schedule.memory == ScheduleMemory::kFixed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      schedule.memory == ScheduleMemory::kPaged
          ? "the schedule has pages, expected fixed addresses: FixAddresses plans them"
          : "the schedule is one of a pool, expected fixed addresses: PlaceInPool gives it them");
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
  memory_bytes.resize(schedule.devices);
  return ValidateAddresses(graphs, schedule, memory_bytes);
}

}  // namespace

absl::StatusOr<Program> LowerChecked(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                     const Machine& machine, const ExecutorOptions& options) {
  absl::Status status = CheckMemoryKind(schedule);
  if (status.ok()) status = CheckAdditions(schedule, options);
  if (status.ok()) status = CheckAddresses(graphs, schedule, machine);
  if (!status.ok()) return status;
  return LowerSchedule(graphs, schedule, machine);
}

}  // namespace tidepool::execute
