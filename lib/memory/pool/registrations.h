// SPDX-License-Identifier: Apache-2.0
// Registrations: the ranges of a pool's memory that others registered, so that it must stay in
// place.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_REGISTRATIONS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_REGISTRATIONS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "lib/memory/pool/range.h"

namespace tidepool::pool {

// Not thread-safe: the books' mutex guards it.
class Registrations {
 public:
  bool empty() const { return bytes_.empty(); }
  // Begins a registration, also of bytes that were begun before.
  void Begin(std::int64_t offset, std::int64_t bytes) { bytes_.emplace(offset, bytes); }
  // Ends one of them. Returns false for bytes that were not begun.
  bool End(std::int64_t offset, std::int64_t bytes) {
    const auto [first, last] = bytes_.equal_range(offset);
    for (auto each = first; each != last; ++each) {
      if (each->second != bytes) continue;
      bytes_.erase(each);
      return true;
    }
    return false;
  }
  // Returns the first range that begins in another one.
  std::optional<Range> FirstIn(const Range& range) const {
    const auto found = bytes_.lower_bound(range.begin);
    if (found == bytes_.end() || found->first >= range.end) return std::nullopt;
    return Range{found->first, found->first + found->second};
  }

 private:
  std::multimap<std::int64_t, std::int64_t> bytes_;  // by their offsets
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_REGISTRATIONS_H_
