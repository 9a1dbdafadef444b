// SPDX-License-Identifier: Apache-2.0
// An order is a future value of a count. Counts only grow, so each order is met at most once.
#include "lib/memory/device/host/call_faults.h"

namespace tidepool::host {
namespace {

// In the order of HostDevice::Call.
constexpr std::array kNames = {"Any",
                               "CreateStream",
                               "DestroyStream",
                               "SynchronizeStream",
                               "CreateEvent",
                               "DestroyEvent",
                               "RecordEvent",
                               "RecordAll",
                               "WaitEvent",
                               "QueryEvent",
                               "SynchronizeEvent",
                               "SecondsBetween",
                               "Copy",
                               "Fill",
                               "SpendTime",
                               "CallHost",
                               "AllocateMemory",
                               "FreeMemory",
                               "AllocatePinned",
                               "FreePinned",
                               "RegisterHostMemory",
                               "UnregisterHostMemory",
                               "ReserveAddresses",
                               "ReleaseAddresses",
                               "CreatePhysical",
                               "ReleasePhysical",
                               "Map",
                               "Unmap"};
static_assert(kNames.size() == CallFaults::kCalls);

}  // namespace

const char* NameOf(HostDevice::Call call) { return kNames[static_cast<std::size_t>(call)]; }

bool CallFaults::Enter(HostDevice::Call call) {
  const bool any_fails = CountCall(HostDevice::Call::kAny);
  return CountCall(call) || any_fails;
}

std::int64_t CallFaults::Count(HostDevice::Call call) const {
  return counters_[static_cast<std::size_t>(call)].count.load();
}

void CallFaults::Order(HostDevice::Call call, std::int64_t n) {
  Counter& counter = counters_[static_cast<std::size_t>(call)];
  counter.failing.store(n <= 0 ? 0 : counter.count.load() + n);
}

bool CallFaults::CountCall(HostDevice::Call call) {
  Counter& counter = counters_[static_cast<std::size_t>(call)];
  return counter.count.fetch_add(1) + 1 == counter.failing.load();
}

}  // namespace tidepool::host
