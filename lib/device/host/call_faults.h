// The calls of a device, counted, and which of them are to fail.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_CALL_FAULTS_H_
#define TIDEPOOL_LIB_DEVICE_HOST_CALL_FAULTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tidepool/host_device.h"

namespace tidepool::host {

// As people know the call.
const char* NameOf(HostDevice::Call call);

// Thread-safe.
class CallFaults {
 public:
  // Counts a call and returns whether it is to fail.
  bool Enter(HostDevice::Call call);
  std::int64_t Count(HostDevice::Call call) const;
  // Lets the n-th call from now on fail, instead of what was ordered before; none if n is 0.
  void Order(HostDevice::Call call, std::int64_t n);

 private:
  struct Counter {
    std::atomic<std::int64_t> count{0};
    std::atomic<std::int64_t> failing{0};  // the count of the call that is to fail
  };

  bool CountOne(HostDevice::Call call);

  static constexpr std::size_t kCalls = static_cast<std::size_t>(HostDevice::Call::kUnmap) + 1;
  std::array<Counter, kCalls> counters_;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_CALL_FAULTS_H_
