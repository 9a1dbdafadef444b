// SPDX-License-Identifier: Apache-2.0
// The free ranges of a space of offsets, of which the first that is large enough serves.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_FREE_RANGES_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_FREE_RANGES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace tidepool::host {

// Not thread-safe. All calls are O(free ranges) at most.
class FreeRanges {
 public:
  // All offsets from 0 to `bytes` are free.
  explicit FreeRanges(std::int64_t bytes) : sizes_{{0, bytes}} {}

  // Takes the first free range of `bytes` bytes and returns its offset, or nothing if all are
  // shorter.
  std::optional<std::int64_t> Take(std::int64_t bytes) {
    const auto found = std::find_if(sizes_.begin(), sizes_.end(),
                                    [&](const auto& range) { return range.second >= bytes; });
    if (found == sizes_.end()) return std::nullopt;
    const auto [offset, free_bytes] = *found;
    sizes_.erase(found);
    if (free_bytes > bytes) sizes_.emplace(offset + bytes, free_bytes - bytes);
    return offset;
  }

  // Gives a range back, and merges it with its neighbours.
  void GiveBack(std::int64_t offset, std::int64_t bytes) {
    auto range = sizes_.emplace(offset, bytes).first;
    if (const auto next = std::next(range); next != sizes_.end() && next->first == offset + bytes) {
      range->second += next->second;
      sizes_.erase(next);
    }
    if (range == sizes_.begin()) return;
    const auto previous = std::prev(range);
    if (previous->first + previous->second == offset) {
      previous->second += range->second;
      sizes_.erase(range);
    }
  }

 private:
  std::map<std::int64_t, std::int64_t> sizes_;  // by offset; no two ranges are adjacent
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_FREE_RANGES_H_
