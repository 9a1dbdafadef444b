// SPDX-License-Identifier: Apache-2.0
// Address space: the addresses that a device gives to segments, the lowest or the highest that are
// free, in units of 2 MiB. Drivers were seen to do both; PyTorch takes the lower of two equal
// blocks.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ADDRESS_SPACE_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ADDRESS_SPACE_H_

#include <cstdint>
#include <iterator>

#include "absl/container/btree_map.h"
#include "lib/base/arithmetic.h"
#include "lib/trace/caching_allocator/rounding.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool::caching_allocator {

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

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_ADDRESS_SPACE_H_
