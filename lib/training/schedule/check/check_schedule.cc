// SPDX-License-Identifier: Apache-2.0
// Checks schedules: that they are of the graph, and then their steps.
#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/schedule/check/check_steps.h"
#include "lib/training/schedule/check/device_check.h"
#include "lib/training/schedule/steps/check_numbers.h"
#include "lib/training/schedule/steps/rounds.h"
#include "tidepool/training/schedule.h"

namespace tidepool {
namespace {

absl::Status CheckGraph(const TaskGraph& graph, const Schedule& schedule) {
  const std::uint64_t own = GraphFingerprint(graph);
  if (schedule.fingerprint == own) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the schedule is one of a graph with the fingerprint ", absl::Hex(schedule.fingerprint),
      ", expected one of ", text::Quoted(graph.name), ", ", absl::Hex(own)));
}

absl::Status CheckPoolHeader(const Schedule& schedule) {
  if (schedule.devices == 1 && schedule.rounds.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the schedule of a pool has ", schedule.devices,
                                                 " devices and ", schedule.rounds.size(),
                                                 " rounds, expected one device and no rounds"));
}

absl::Status CheckDeviceHeader(const Schedule& schedule) {
  if (schedule.devices < 1 || schedule.devices > kMostScheduleDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat(schedule.devices, " devices, expected 1 to ", kMostScheduleDevices));
  }
  const bool is_power =
      schedule.alignment > 0 && std::has_single_bit(static_cast<std::uint64_t>(schedule.alignment));
  if (is_power && schedule.alignment <= kMostAlignment) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("alignment ", schedule.alignment, ", expected a power of two up to 1 GiB"));
}

absl::Status CheckSteps(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                        std::size_t* at) {
  absl::Status status = schedule::CheckRounds(graphs, schedule);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    status = schedule::CheckDeviceNumber(graphs.front(), schedule, i);
    if (status.ok()) continue;
    *at = i;
    return status;
  }
  schedule::DeviceCheck check(graphs, schedule);
  status = check.Check();
  *at = check.at();
  return status;
}

}  // namespace

absl::Status schedule::CheckSchedule(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                     std::size_t* at) {
  *at = schedule.steps.size();
  if (graphs.empty()) return absl::InvalidArgumentError("no graph, expected at least one");
  absl::Status status = CheckGraph(graphs.front(), schedule);
  if (!status.ok()) return status;
  if (schedule.memory > ScheduleMemory::kPaged) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory of kind ", static_cast<int>(schedule.memory), ", expected pool, fixed or paged"));
  }
  const bool is_pool = schedule.memory == ScheduleMemory::kPool;
  status = is_pool ? CheckPoolHeader(schedule) : CheckDeviceHeader(schedule);
  return status.ok() ? CheckSteps(graphs, schedule, at) : status;
}

absl::Status ValidateSchedule(const TaskGraph& graph, const Schedule& schedule) {
  return ValidateSchedule(absl::MakeConstSpan(&graph, 1), schedule);
}

absl::Status ValidateSchedule(absl::Span<const TaskGraph> graphs, const Schedule& schedule) {
  std::size_t at = 0;
  return schedule::CheckSchedule(graphs, schedule, &at);
}

}  // namespace tidepool
