// SPDX-License-Identifier: Apache-2.0
// The memory behind a pinned pool: regions, each registered with the device by one call. No buffer
// reaches from one into another: the device could not copy it.
#ifndef TIDEPOOL_LIB_PINNED_REGIONS_H_
#define TIDEPOOL_LIB_PINNED_REGIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/pool/address_map.h"
#include "lib/pool/range.h"
#include "lib/pool/segments.h"
#include "tidepool/device.h"
#include "tidepool/host/host_pages.h"

namespace tidepool::pinned {

struct PinnedMemory {
  void* address = nullptr;
  std::int64_t bytes = 0;
  std::int64_t pin_ns = 0;  // the time that pinning took
};

// Not thread-safe, unless a function says so.
class Regions {
 public:
  // Puts its regions into `addresses`.
  Regions(Device& device, pool::AddressMap& addresses, const HostPageOptions& pages,
          std::int64_t fence_bytes)
      : device_(device), pages_(pages), segments_(addresses, fence_bytes) {}
  // Gives back all memory; nothing may use it any more. What the device does not take back, not
  // even when it is asked twice, stays mapped and is reported on stderr.
  ~Regions();
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  // Pins and unpins `bytes`, a positive multiple of the page. They take long, and change no books.
  // After an error nothing has changed. Thread-safe.
  absl::StatusOr<PinnedMemory> Pin(std::int64_t bytes) const;
  absl::Status Unpin(void* address, std::int64_t bytes) const;

  // Pinned memory becomes a region.
  pool::Range Add(const PinnedMemory& memory);

  std::int64_t pins() const { return pins_; }      // so far
  std::int64_t pin_ns() const { return pin_ns_; }  // the time these took
  pool::Segments& segments() { return segments_; }
  const pool::Segments& segments() const { return segments_; }

 private:
  Device& device_;
  const HostPageOptions pages_;
  std::int64_t pins_ = 0;
  std::int64_t pin_ns_ = 0;
  pool::Segments segments_;
};

}  // namespace tidepool::pinned

#endif  // TIDEPOOL_LIB_PINNED_REGIONS_H_
