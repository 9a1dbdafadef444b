// SPDX-License-Identifier: Apache-2.0
// A device with calls that do not count among the allocations of a thread (own_allocations.h).
#ifndef TIDEPOOL_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_
#define TIDEPOOL_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_

#include <cstdint>

#include "tests/support/forwarding_device.h"
#include "tests/support/own_allocations.h"

namespace tidepool::testing {

// Forwards the calls of a running executor, and takes the device's own allocations off the count.
class UncountedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::Status SynchronizeStream(Stream stream) override {
    const Restore restore;
    return ForwardingDevice::SynchronizeStream(stream);
  }
  absl::Status RecordEvent(Event event, Stream stream) override {
    const Restore restore;
    return ForwardingDevice::RecordEvent(event, stream);
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    const Restore restore;
    return ForwardingDevice::WaitEvent(stream, event);
  }
  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    const Restore restore;
    return ForwardingDevice::Copy(to, from, bytes, direction, stream);
  }

 private:
  struct Restore {
    ~Restore() { allocations_of_thread = before; }
    const std::int64_t before = allocations_of_thread;
  };
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_
