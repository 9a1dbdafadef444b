// SPDX-License-Identifier: Apache-2.0
// A range of offsets: [begin, end).
#ifndef TIDEPOOL_LIB_MEMORY_POOL_RANGE_H_
#define TIDEPOOL_LIB_MEMORY_POOL_RANGE_H_

#include <algorithm>
#include <cstdint>

namespace tidepool::pool {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t bytes() const { return end - begin; }

  friend bool operator==(const Range& a, const Range& b) = default;
};

inline bool Overlap(const Range& a, const Range& b) {
  return std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_RANGE_H_
