// The memory behind a pinned pool: regions, each registered with the device by one call. Each has a
// range of offsets of its own, and behind it a *fence*, a unit of offsets without memory, so that
// no buffer reaches from one into another: the device could not copy it.
#ifndef TIDEPOOL_LIB_PINNED_REGIONS_H_
#define TIDEPOOL_LIB_PINNED_REGIONS_H_

#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/pool/address_map.h"
#include "lib/pool/range.h"
#include "tidepool/device.h"
#include "tidepool/host_pages.h"

namespace tidepool::pinned {

// Not thread-safe.
class Regions {
 public:
  // Puts its regions into `addresses`.
  Regions(Device& device, pool::AddressMap& addresses, const HostPageOptions& pages,
          std::int64_t fence_bytes)
      : device_(device), addresses_(addresses), pages_(pages), fence_bytes_(fence_bytes) {}
  // Gives back all memory; nothing may use it any more. What the device does not take back, not
  // even when it is asked twice, stays mapped and is reported on stderr.
  ~Regions();
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  // Pins a new region, at the lowest offsets where there is none. `bytes` is a positive multiple of
  // the page. After an error nothing has changed.
  absl::StatusOr<pool::Range> Take(std::int64_t bytes);
  // After an error the region is there as before.
  absl::Status GiveBack(const pool::Range& region);

  std::int64_t held_bytes() const { return held_bytes_; }
  std::int64_t fence_bytes() const { return fence_bytes_; }
  std::int64_t count() const { return static_cast<std::int64_t>(regions_.size()); }
  std::int64_t pins() const { return pins_; }      // so far
  std::int64_t pin_ns() const { return pin_ns_; }  // the time these took
  bool Contain(const pool::Range& region) const {
    const auto found = regions_.find(region.begin);
    return found != regions_.end() && found->second.end == region.end;
  }
  // Whether all of a range is in one region.
  bool Cover(const pool::Range& range) const;

 private:
  struct Region {
    std::int64_t end = 0;
    void* address = nullptr;
  };

  absl::StatusOr<void*> Pin(std::int64_t bytes);
  std::int64_t LowestPlace(std::int64_t bytes) const;

  Device& device_;
  pool::AddressMap& addresses_;
  const HostPageOptions pages_;
  const std::int64_t fence_bytes_;
  std::int64_t held_bytes_ = 0;
  std::int64_t pins_ = 0;
  std::int64_t pin_ns_ = 0;
  absl::btree_map<std::int64_t, Region> regions_;  // by where they begin
};

}  // namespace tidepool::pinned

#endif  // TIDEPOOL_LIB_PINNED_REGIONS_H_
