// SPDX-License-Identifier: Apache-2.0
// Counts the calls of a device, and decides which of them fail.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_CALL_FAULTS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_CALL_FAULTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tidepool/host_device.h"

namespace tidepool::host {

// Returns the name of a call without its `k`, for messages.
const char* NameOf(HostDevice::Call call);

// The counters of all kinds of calls, and the orders to fail. Thread-safe.
class CallFaults {
 public:
  static constexpr std::size_t kCalls = static_cast<std::size_t>(HostDevice::Call::kUnmap) + 1;

  // Counts a call and returns whether it has to fail.
  bool Enter(HostDevice::Call call);
  std::int64_t Count(HostDevice::Call call) const;
  // Lets the n-th call from now on fail; replaces an earlier order. 0 cancels it.
  void Order(HostDevice::Call call, std::int64_t n);

 private:
  struct Counter {
    std::atomic<std::int64_t> count{0};
    std::atomic<std::int64_t> failing{0};  // the count of the call that fails, 0: no order
  };

  bool CountCall(HostDevice::Call call);

  std::array<Counter, kCalls> counters_;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_CALL_FAULTS_H_
