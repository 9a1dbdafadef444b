// SPDX-License-Identifier: Apache-2.0
// Device memory: the bytes and the addresses that the allocator has taken from the device, and
// every comparison of bytes with the memory that it has.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_DEVICE_MEMORY_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_DEVICE_MEMORY_H_

#include <cstdint>
#include <iterator>

#include "absl/container/btree_map.h"
#include "lib/base/arithmetic.h"
#include "lib/trace/caching_allocator/rounding.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool::caching_allocator {

// The addresses that a device gives to segments, the lowest or the highest that are free, in units
// of 2 MiB. Drivers were seen to do both; PyTorch takes the lower of two equal blocks.
class AddressSpace {
 public:
  explicit AddressSpace(SegmentOrder order) : is_falling_(order == SegmentOrder::kFalling) {}

  // Takes the first free range. O(gaps between segments).
  std::int64_t Take(std::int64_t bytes) {
    bytes = RoundUp(bytes, kUnit);
    return Mirrored(TakeLowest(bytes), bytes);
  }

  // Gives a range back. O(log gaps).
  void GiveBack(std::int64_t address, std::int64_t bytes) {
    bytes = RoundUp(bytes, kUnit);
    GiveBackLow(Mirrored(address, bytes), bytes);
  }

 private:
  static constexpr std::int64_t kUnit = 2 * kMiB;
  static constexpr std::int64_t kTop = std::int64_t{1} << 60;

  // Falling addresses are ascending ones, seen from the top.
  std::int64_t Mirrored(std::int64_t begin, std::int64_t bytes) const {
    return is_falling_ ? kTop - begin - bytes : begin;
  }

  std::int64_t TakeLowest(std::int64_t bytes) {
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second < bytes) continue;
      const auto [begin, size] = *gap;
      gaps_.erase(gap);
      if (size > bytes) gaps_[begin + bytes] = size - bytes;
      return begin;
    }
    top_ += bytes;
    return top_ - bytes;
  }

  void GiveBackLow(std::int64_t begin, std::int64_t bytes) {
    auto next = gaps_.lower_bound(begin);
    if (next != gaps_.end() && next->first == begin + bytes) {
      bytes += next->second;
      next = gaps_.erase(next);
    }
    if (next != gaps_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == begin) {
        begin = previous->first;
        bytes += previous->second;
        gaps_.erase(previous);
      }
    }
    if (begin + bytes == top_) {
      top_ = begin;
    } else {
      gaps_[begin] = bytes;
    }
  }

  bool is_falling_;
  absl::btree_map<std::int64_t, std::int64_t> gaps_;  // sizes by address; no two are adjacent
  std::int64_t top_ = 0;                              // all addresses from here on are free
};

// Compares bytes with the memory of the device, and remembers the smallest memory for which an
// answer would have differed. All limits grow with the memory. So an answer "it fits" holds for any
// larger memory, and an answer "it does not" holds for memory below next().
class MemoryLimit {
 public:
  static constexpr std::int64_t kNever = INT64_MAX;

  MemoryLimit(std::int64_t memory_bytes, const CachingAllocatorSettings& settings)
      : memory_bytes_(memory_bytes),
        fraction_(settings.memory_fraction),
        threshold_(settings.garbage_collection_threshold) {}

  // Whether the device has `bytes`.
  bool DeviceHas(std::int64_t bytes) {
    return Ask(bytes, [](std::int64_t memory) { return memory; });
  }
  // Whether the process may take `bytes`.
  bool IsAllowed(std::int64_t bytes) {
    return fraction_ == 0 || Ask(bytes, [this](std::int64_t memory) { return Allowed(memory); });
  }
  bool CollectsGarbage() const { return fraction_ > 0 && threshold_ > 0; }
  // Whether `bytes` are too few for a garbage collection.
  bool IsBelowThreshold(std::int64_t bytes) {
    return Ask(bytes, [this](std::int64_t memory) { return Threshold(memory); });
  }

  std::int64_t memory_bytes() const { return memory_bytes_; }
  // Changes the memory to a larger one; next() stays.
  void SetMemory(std::int64_t memory_bytes) { memory_bytes_ = memory_bytes; }
  // The smallest memory for which an answer so far would have differed.
  std::int64_t next() const { return next_; }

 private:
  std::int64_t Allowed(std::int64_t memory) const {
    return static_cast<std::int64_t>(fraction_ * static_cast<double>(memory));
  }
  std::int64_t Threshold(std::int64_t memory) const {
    return static_cast<std::int64_t>(threshold_ * static_cast<double>(Allowed(memory)));
  }

  // Whether `limit_of` the memory, which grows with it, is at least `bytes`.
  template <typename LimitOf>
  bool Ask(std::int64_t bytes, const LimitOf& limit_of) {
    if (limit_of(memory_bytes_) >= bytes) return true;
    std::int64_t fails = memory_bytes_;
    std::int64_t holds = next_ == kNever ? kMostCachingMemory : next_;
    if (limit_of(holds) < bytes) return false;
    while (holds - fails > 1) {
      const std::int64_t middle = fails + (holds - fails) / 2;
      (limit_of(middle) >= bytes ? holds : fails) = middle;
    }
    next_ = holds;
    return false;
  }

  std::int64_t memory_bytes_;
  double fraction_;
  double threshold_;
  std::int64_t next_ = kNever;
};

// Counts the bytes that the allocator has taken.
class DeviceMemory {
 public:
  DeviceMemory(const MemoryLimit& limit, SegmentOrder order) : limit_(limit), addresses_(order) {}

  // Takes `bytes`. Returns false, and takes nothing, if the device lacks them.
  bool Take(std::int64_t bytes) {
    if (!limit_.DeviceHas(reserved_ + bytes)) return false;
    reserved_ += bytes;
    return true;
  }
  void GiveBack(std::int64_t bytes) { reserved_ -= bytes; }

  // The addresses of segments that do not grow.
  AddressSpace& addresses() { return addresses_; }

  std::int64_t reserved() const { return reserved_; }
  const MemoryLimit& limit() const { return limit_; }
  MemoryLimit& limit() { return limit_; }

 private:
  MemoryLimit limit_;
  std::int64_t reserved_ = 0;
  AddressSpace addresses_;
};

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_DEVICE_MEMORY_H_
