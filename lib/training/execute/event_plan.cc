// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/event_plan.h"

#include <algorithm>

namespace tidepool::execute {
namespace {

// Returns for each operation the last one that waits for it, or kNone.
std::vector<std::uint32_t> LastWaiters(const std::vector<WaitingOperation>& operations) {
  std::vector<std::uint32_t> last(operations.size(), EventPlan::kNone);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    for (const std::uint32_t awaited : operations[i].waits) {
      last[awaited] = static_cast<std::uint32_t>(i);
    }
  }
  return last;
}

// Events that no later operation waits for, by device.
class IdleEvents {
 public:
  IdleEvents(std::size_t devices, EventPlan& plan) : plan_(plan), idle_(devices) {}

  std::uint32_t Take(std::size_t device) {
    std::vector<std::uint32_t>& idle = idle_[device];
    if (idle.empty()) {
      plan_.devices.push_back(device);
      return static_cast<std::uint32_t>(plan_.devices.size() - 1);
    }
    const std::uint32_t event = idle.back();
    idle.pop_back();
    return event;
  }
  void Return(std::uint32_t event) { idle_[plan_.devices[event]].push_back(event); }

 private:
  EventPlan& plan_;
  std::vector<std::vector<std::uint32_t>> idle_;
};

std::size_t CountDevices(const std::vector<WaitingOperation>& operations) {
  std::size_t devices = 0;
  for (const WaitingOperation& one : operations) devices = std::max(devices, one.device + 1);
  return devices;
}

}  // namespace

EventPlan PlanEvents(const std::vector<WaitingOperation>& operations) {
  const std::vector<std::uint32_t> last_waiters = LastWaiters(operations);
  EventPlan plan;
  plan.recorded.assign(operations.size(), EventPlan::kNone);
  IdleEvents idle(CountDevices(operations), plan);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    for (const std::uint32_t awaited : operations[i].waits) {
      if (last_waiters[awaited] == i) idle.Return(plan.recorded[awaited]);
    }
    if (last_waiters[i] != EventPlan::kNone) plan.recorded[i] = idle.Take(operations[i].device);
  }
  return plan;
}

}  // namespace tidepool::execute
