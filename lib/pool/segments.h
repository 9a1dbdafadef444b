// Memory in whole pieces, such as allocations of a device or regions of pinned memory. Each has a
// range of offsets of its own, and after it a *fence*, a unit of offsets without memory, so that no
// two segments touch.
#ifndef TIDEPOOL_LIB_POOL_SEGMENTS_H_
#define TIDEPOOL_LIB_POOL_SEGMENTS_H_

#include <atomic>
#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "lib/pool/address_map.h"
#include "lib/pool/range.h"

namespace tidepool::pool {

// What allocations of a device are aligned to.
inline constexpr std::int64_t kSegmentAlignment = 512;

// Books alone: the owner calls the device, because it must not hold its lock then. Not thread-safe,
// but for held_bytes.
class Segments {
 public:
  // Puts its segments into `addresses`.
  Segments(AddressMap& addresses, std::int64_t fence_bytes)
      : addresses_(addresses), fence_bytes_(fence_bytes) {}

  // How many bytes of offsets segments of together `bytes` bytes need at most, whatever comes and
  // goes, each a multiple of `fence_bytes`.
  static std::int64_t OffsetBytes(std::int64_t bytes, std::int64_t fence_bytes);

  // A new segment of memory that the owner has, at the lowest offsets where there is none.
  Range Add(void* address, std::int64_t bytes);
  // Takes the addresses of a segment out of the map and returns the first: another thread can get
  // them as soon as the memory is given back. The offsets stay taken.
  void* Hide(const Range& segment);
  // Undoes that.
  void Show(const Range& segment);
  // The memory of a hidden one was given back.
  void Remove(const Range& segment);
  // Calls `give_back(address, bytes)` for each, and once more after an error, and forgets all.
  // Returns the first error that stayed.
  template <typename GiveBack>
  absl::Status Empty(GiveBack give_back) {
    absl::Status first_error;
    for (const auto& [begin, segment] : segments_) {
      const std::int64_t bytes = segment.end - begin;
      if (give_back(segment.address, bytes).ok()) continue;
      first_error.Update(give_back(segment.address, bytes));
    }
    segments_.clear();
    return first_error;
  }

  // Forgets all segments: the device keeps them.
  void Abandon() { segments_.clear(); }

  std::int64_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }
  std::int64_t fence_bytes() const { return fence_bytes_; }
  bool Contain(const Range& segment) const {
    const auto found = segments_.find(segment.begin);
    return found != segments_.end() && found->second.end == segment.end;
  }
  // Whether the owner gives one back just now.
  bool HasHidden() const { return hidden_count_ > 0; }
  std::int64_t count() const { return static_cast<std::int64_t>(segments_.size()); }
  // How much of a range is in segments that are not hidden.
  std::int64_t BytesIn(const Range& range) const;
  // What fences take of the offsets before `end`.
  std::int64_t FenceBytesBefore(std::int64_t end) const;

 private:
  struct Segment {
    std::int64_t end = 0;
    void* address = nullptr;
    bool is_hidden = false;
  };

  std::int64_t LowestPlace(std::int64_t bytes) const;

  AddressMap& addresses_;
  const std::int64_t fence_bytes_;
  std::atomic<std::int64_t> held_bytes_ = 0;
  std::int64_t hidden_count_ = 0;
  absl::btree_map<std::int64_t, Segment> segments_;  // by where they begin
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_SEGMENTS_H_
