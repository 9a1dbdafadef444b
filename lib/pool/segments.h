// The memory behind a pool in whole allocations of the device. Each has a range of offsets of its
// own, and behind it a *fence*, a unit of offsets without memory, so that no two segments touch.
#ifndef TIDEPOOL_LIB_POOL_SEGMENTS_H_
#define TIDEPOOL_LIB_POOL_SEGMENTS_H_

#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/pool/address_map.h"
#include "lib/pool/range.h"
#include "tidepool/device.h"

namespace tidepool::pool {

// What allocations of a device are aligned to.
inline constexpr std::int64_t kSegmentAlignment = 512;

// Not thread-safe.
class Segments {
 public:
  // Puts its segments into `addresses`.
  Segments(Device& device, AddressMap& addresses, std::int64_t fence_bytes)
      : device_(device), addresses_(addresses), fence_bytes_(fence_bytes) {}
  // Gives back all memory; nothing may use it any more. What the device does not take back, not
  // even when it is asked twice, is reported on stderr.
  ~Segments();
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // How many bytes of offsets segments of together `bytes` bytes need at most, whatever comes and
  // goes, each a multiple of `fence_bytes`.
  static std::int64_t OffsetBytes(std::int64_t bytes, std::int64_t fence_bytes);

  // A new segment at the lowest offsets where there is none. After an error nothing has changed.
  absl::StatusOr<Range> Take(std::int64_t bytes);
  // After an error the segment is there as before.
  absl::Status GiveBack(const Range& segment);
  // Leaves everything to the device for ever: something may still use it.
  void Abandon() { segments_.clear(); }

  std::int64_t held_bytes() const { return held_bytes_; }
  std::int64_t fence_bytes() const { return fence_bytes_; }
  bool Contain(const Range& segment) const {
    const auto found = segments_.find(segment.begin);
    return found != segments_.end() && found->second.end == segment.end;
  }
  // How much of a range is in segments.
  std::int64_t BytesIn(const Range& range) const;
  // What fences take of the offsets before `end`.
  std::int64_t FenceBytesBefore(std::int64_t end) const;

 private:
  struct Segment {
    std::int64_t end = 0;
    void* address = nullptr;
  };

  std::int64_t LowestPlace(std::int64_t bytes) const;

  Device& device_;
  AddressMap& addresses_;
  const std::int64_t fence_bytes_;
  std::int64_t held_bytes_ = 0;
  absl::btree_map<std::int64_t, Segment> segments_;  // by where they begin
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_SEGMENTS_H_
