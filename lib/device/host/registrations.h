// Memory of the host that a device was told of.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_REGISTRATIONS_H_
#define TIDEPOOL_LIB_DEVICE_HOST_REGISTRATIONS_H_

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "lib/device/address_ranges.h"

namespace tidepool::host {

// Thread-safe. In the end nothing is locked any more.
class Registrations {
 public:
  Registrations() = default;
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Locks the memory where the limits of the process allow it. InvalidArgument when there is none
  // at some of the addresses, or when some of it is registered.
  absl::Status Register(void* address, std::int64_t bytes);
  // NotFound when nothing was registered there.
  absl::Status Unregister(void* address);

 private:
  std::mutex mutex_;
  device::AddressRanges ranges_;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_REGISTRATIONS_H_
