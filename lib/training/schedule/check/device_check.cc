// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/check/device_check.h"

#include <algorithm>

#include "lib/training/schedule/steps/check_numbers.h"

namespace tidepool::schedule {
namespace {

// Returns the devices that the steps name, in order; device 0 where only the host runs tasks.
std::vector<std::size_t> DevicesOf(const Schedule& schedule) {
  std::vector<bool> is_named(schedule.devices);
  for (const ScheduleStep& step : schedule.steps) {
    const bool is_of_device = step.device != kHostDevice && step.kind != StepKind::kSynchronize;
    if (is_of_device) is_named[step.device] = true;
  }
  std::vector<std::size_t> devices;
  for (std::size_t device = 0; device < is_named.size(); ++device) {
    if (is_named[device]) devices.push_back(device);
  }
  if (devices.empty()) devices.push_back(0);
  return devices;
}

}  // namespace

DeviceCheck::DeviceCheck(absl::Span<const TaskGraph> graphs, const Schedule& schedule)
    : graphs_(graphs),
      schedule_(schedule),
      rounds_(RoundsOf(schedule)),
      versions_(graphs.front()),
      devices_(DevicesOf(schedule)),
      graph_(GraphOf(graphs, rounds_.front())),
      places_(graphs.front(), schedule.devices),
      gradients_(schedule.devices > 1 ? schedule.devices * graphs.front().data.size() : 0),
      round_uses_(UsesInRound(graphs.front())),
      updates_begun_(graphs.front().data.size()),
      ran_at_(schedule.devices),
      passes_(schedule.devices),
      before_(schedule.devices) {}

absl::Status DeviceCheck::CheckStep(const ScheduleStep& step) {
  switch (step.kind) {
    case StepKind::kAllocate:
      return Allocate(step);
    case StepKind::kFree:
      return Free(step);
    case StepKind::kRun:
      return Run(step);
    case StepKind::kOffload:
      return Offload(step);
    case StepKind::kPrefetch:
      return Prefetch(step);
    case StepKind::kDrop:
      return Drop(step);
    case StepKind::kReceive:
      return Receive(step);
    case StepKind::kAdd:
      return AddFrom(step);
    case StepKind::kSynchronize:
      break;
  }
  return absl::OkStatus();
}

absl::Status DeviceCheck::CheckRound(const ScheduleRound& round) {
  if (absl::Status status = StartRound(round); !status.ok()) return status;
  for (std::size_t i = 0; i < round.steps; ++i) {
    at_ = round.first_step + i;
    absl::Status status = CheckNumbers(*graph_, schedule_, at_);
    if (status.ok()) status = CheckStep(schedule_.steps[at_]);
    if (!status.ok()) return status;
  }
  return EndRound(round);
}

absl::Status DeviceCheck::Check() {
  for (round_ = 0; round_ < rounds_.size(); ++round_) {
    if (absl::Status status = CheckRound(rounds_[round_]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tidepool::schedule
