// SPDX-License-Identifier: Apache-2.0
// Touching memory is the slow part of pinning, and threads share it. So every page is there when
// the device registers the memory.
#include "lib/memory/pinned/pinner.h"

#include <chrono>

#include "lib/memory/pinned/host_memory.h"

namespace tidepool::pinned {

absl::StatusOr<PinnedMemory> Pinner::Pin(std::int64_t bytes) const {
  const auto begun = std::chrono::steady_clock::now();
  const absl::StatusOr<void*> address = MapMemory(bytes, pages_);
  if (!address.ok()) return address.status();
  absl::Status status = TouchMemory(*address, bytes, pages_);
  if (status.ok()) status = device_.RegisterHostMemory(*address, bytes);
  if (!status.ok()) {
    UnmapMemory(*address, bytes);
    return status;
  }
  return PinnedMemory{*address, bytes,
                      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun).count()};
}

absl::Status Pinner::Unpin(void* address, std::int64_t bytes) const {
  absl::Status status = device_.UnregisterHostMemory(address);
  if (status.ok()) UnmapMemory(address, bytes);
  return status;
}

}  // namespace tidepool::pinned
