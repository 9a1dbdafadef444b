// SPDX-License-Identifier: Apache-2.0
// Segments: memory in whole allocations of a device, or in registered regions of host memory.
//
// Each segment has a range of offsets of its own. After it lies a *fence*, a unit of offsets
// without memory, so that no two segments touch.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_SEGMENTS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_SEGMENTS_H_

#include <atomic>
#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "lib/memory/pool/address_map.h"
#include "lib/memory/pool/range.h"

namespace tidepool::pool {

// The alignment of a device's allocations.
inline constexpr std::int64_t kSegmentAlignment = 512;

// Keeps books and calls no device: the owner must not hold its lock while it calls the device. Not
// thread-safe, but for held_bytes.
class Segments {
 public:
  // Puts its segments into `addresses`.
  Segments(AddressMap& addresses, std::int64_t fence_bytes)
      : addresses_(addresses), fence_bytes_(fence_bytes) {}

  // Returns how many bytes of offsets are enough for segments of `bytes` bytes altogether, in any
  // order of coming and going. Each segment is a multiple of `fence_bytes`.
  static std::int64_t OffsetBytes(std::int64_t bytes, std::int64_t fence_bytes);

  // Adds a segment of memory that the owner took, at the lowest free offsets.
  Range Add(void* address, std::int64_t bytes);
  // Takes the addresses of a segment out of the map and returns the first address: as soon as the
  // memory is given back, another thread can get the same addresses. The offsets stay taken.
  void* Hide(const Range& segment);
  // Undoes Hide.
  void Show(const Range& segment);
  // Removes a hidden segment, after its memory was given back.
  void Remove(const Range& segment);
  // Calls `give_back(address, bytes)` for each segment, and once more after an error, and forgets
  // all segments. Returns the first error that stayed.
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
  // Whether the owner is giving a segment back.
  bool HasHidden() const { return hidden_count_ > 0; }
  std::int64_t count() const { return static_cast<std::int64_t>(segments_.size()); }
  // Returns how much of a range is in segments that are not hidden.
  std::int64_t BytesIn(const Range& range) const;
  // Returns the bytes of fences among the offsets before `end`.
  std::int64_t FenceBytesBefore(std::int64_t end) const;

 private:
  struct Segment {
    std::int64_t end = 0;
    void* address = nullptr;
    bool is_hidden = false;
  };

  std::int64_t LowestOffset(std::int64_t bytes) const;

  AddressMap& addresses_;
  const std::int64_t fence_bytes_;
  std::atomic<std::int64_t> held_bytes_ = 0;
  std::int64_t hidden_count_ = 0;
  absl::btree_map<std::int64_t, Segment> segments_;  // by first offset
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_SEGMENTS_H_
