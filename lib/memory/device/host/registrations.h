// SPDX-License-Identifier: Apache-2.0
// Host memory that its owner registered with a device.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_REGISTRATIONS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_REGISTRATIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/address_ranges.h"

namespace tidepool::host {

// The registered ranges. Thread-safe. The destructor unlocks all of them.
class Registrations {
 public:
  Registrations() = default;
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Registers the memory, and locks its pages as far as the limits of the process allow.
  // InvalidArgument for addresses without memory, and if a byte is registered already.
  absl::Status Register(void* address, std::int64_t bytes);
  // Unregisters the range that begins at `address`. NotFound if there is no such range.
  absl::Status Unregister(void* address);

 private:
  locks::Mutex mutex_;
  device::AddressRanges ranges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_REGISTRATIONS_H_
