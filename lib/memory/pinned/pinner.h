// SPDX-License-Identifier: Apache-2.0
// Pinner: pins and unpins regions of host memory.
#ifndef TIDEPOOL_LIB_MEMORY_PINNED_PINNER_H_
#define TIDEPOOL_LIB_MEMORY_PINNED_PINNER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/host_pages.h"

namespace tidepool::pinned {

struct PinnedMemory {
  void* address = nullptr;
  std::int64_t bytes = 0;
  std::int64_t pin_ns = 0;  // the time that pinning took
};

// Thread-safe. Its calls take long, about 0.1 s for a GiB.
class Pinner {
 public:
  // `device` outlives the pinner.
  Pinner(Device& device, const HostPageOptions& pages) : device_(device), pages_(pages) {}

  // Maps, touches and registers memory of `bytes`, a positive multiple of the page. After an error
  // nothing has changed.
  absl::StatusOr<PinnedMemory> Pin(std::int64_t bytes) const;
  // Gives pinned memory back to the host. After an error it is still pinned.
  absl::Status Unpin(void* address, std::int64_t bytes) const;

 private:
  Device& device_;
  const HostPageOptions pages_;
};

}  // namespace tidepool::pinned

#endif  // TIDEPOOL_LIB_MEMORY_PINNED_PINNER_H_
