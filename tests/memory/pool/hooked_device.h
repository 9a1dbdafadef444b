// SPDX-License-Identifier: Apache-2.0
// A device that lets a test do something in the middle of a call of the pool.
#ifndef TIDEPOOL_TESTS_MEMORY_POOL_HOOKED_DEVICE_H_
#define TIDEPOOL_TESTS_MEMORY_POOL_HOOKED_DEVICE_H_

#include <functional>
#include <utility>

#include "tests/support/forwarding_device.h"

namespace tidepool {

// A hook runs before the next call of its kind, once. Hooks are set while no other thread calls the
// device.
class HookedDevice : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) override {
    Run(before_create);
    return ForwardingDevice::CreatePhysical(bytes);
  }
  absl::StatusOr<void*> AllocatePinned(std::int64_t bytes) override {
    Run(before_pin);
    return ForwardingDevice::AllocatePinned(bytes);
  }
  absl::Status FreeMemory(void* address) override {
    Run(before_free);
    return ForwardingDevice::FreeMemory(address);
  }

  std::function<void()> before_create;
  std::function<void()> before_pin;
  std::function<void()> before_free;

 private:
  static void Run(std::function<void()>& hook) {
    if (const std::function<void()> run = std::exchange(hook, nullptr)) run();
  }
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_MEMORY_POOL_HOOKED_DEVICE_H_
