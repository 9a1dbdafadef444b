// An order is a future value of a count. Counts only grow, so each order is met at most once.
#include "lib/device/host/call_faults.h"

namespace tidepool::host {

const char* NameOf(HostDevice::Call call) {
  using Call = HostDevice::Call;
  switch (call) {
    case Call::kAny:
      return "Any";
    case Call::kCreateStream:
      return "CreateStream";
    case Call::kDestroyStream:
      return "DestroyStream";
    case Call::kSynchronizeStream:
      return "SynchronizeStream";
    case Call::kCreateEvent:
      return "CreateEvent";
    case Call::kDestroyEvent:
      return "DestroyEvent";
    case Call::kRecordEvent:
      return "RecordEvent";
    case Call::kWaitEvent:
      return "WaitEvent";
    case Call::kQueryEvent:
      return "QueryEvent";
    case Call::kSynchronizeEvent:
      return "SynchronizeEvent";
    case Call::kCopy:
      return "Copy";
    case Call::kFill:
      return "Fill";
    case Call::kCallHost:
      return "CallHost";
    case Call::kAllocateMemory:
      return "AllocateMemory";
    case Call::kFreeMemory:
      return "FreeMemory";
    case Call::kAllocatePinned:
      return "AllocatePinned";
    case Call::kFreePinned:
      return "FreePinned";
    case Call::kRegisterHostMemory:
      return "RegisterHostMemory";
    case Call::kUnregisterHostMemory:
      return "UnregisterHostMemory";
    case Call::kReserveAddresses:
      return "ReserveAddresses";
    case Call::kReleaseAddresses:
      return "ReleaseAddresses";
    case Call::kCreatePhysical:
      return "CreatePhysical";
    case Call::kReleasePhysical:
      return "ReleasePhysical";
    case Call::kMap:
      return "Map";
    case Call::kUnmap:
      return "Unmap";
  }
  return "Unknown";
}

bool CallFaults::Enter(HostDevice::Call call) {
  const bool any_fails = CountOne(HostDevice::Call::kAny);
  return CountOne(call) || any_fails;
}

std::int64_t CallFaults::Count(HostDevice::Call call) const {
  return counters_[static_cast<std::size_t>(call)].count.load();
}

void CallFaults::Order(HostDevice::Call call, std::int64_t n) {
  Counter& counter = counters_[static_cast<std::size_t>(call)];
  counter.failing.store(n <= 0 ? 0 : counter.count.load() + n);
}

bool CallFaults::CountOne(HostDevice::Call call) {
  Counter& counter = counters_[static_cast<std::size_t>(call)];
  return counter.count.fetch_add(1) + 1 == counter.failing.load();
}

}  // namespace tidepool::host
