// SPDX-License-Identifier: Apache-2.0
// To touch memory is what takes long when it is pinned, and threads share it; so the device finds
// every page there when it is told.
#include "lib/pinned/regions.h"

#include <chrono>
#include <cstdio>

#include "lib/pinned/host_memory.h"

namespace tidepool::pinned {

Regions::~Regions() {
  const absl::Status status =
      segments_.Empty([this](void* address, std::int64_t bytes) { return Unpin(address, bytes); });
  if (!status.ok()) {
    std::fprintf(stderr, "tidepool: a pinned pool cannot give its memory back: %s\n",
                 status.ToString().c_str());
  }
}

absl::StatusOr<PinnedMemory> Regions::Pin(std::int64_t bytes) const {
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

absl::Status Regions::Unpin(void* address, std::int64_t bytes) const {
  absl::Status status = device_.UnregisterHostMemory(address);
  if (status.ok()) UnmapMemory(address, bytes);
  return status;
}

pool::Range Regions::Add(const PinnedMemory& memory) {
  ++pins_;
  pin_ns_ += memory.pin_ns;
  return segments_.Add(memory.address, memory.bytes);
}

}  // namespace tidepool::pinned
