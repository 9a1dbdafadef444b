// SPDX-License-Identifier: Apache-2.0
// A set of bytes of one datum, as ranges [begin, end) that neither overlap nor touch. Calls are
// O(log ranges), and O(1) a range that they take away. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BYTE_RANGES_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BYTE_RANGES_H_

#include <cstdint>
#include <iterator>

#include "absl/container/btree_map.h"

namespace tidepool::schedule {

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class ByteRanges {
 public:
  bool empty() const { return ends_.empty(); }
  void Clear() { ends_.clear(); }

  // Returns whether all bytes of `range`, which is not empty, are in the set.
  bool Covers(ByteRange range) const {
    const auto after = ends_.upper_bound(range.begin);
    return after != ends_.begin() && std::prev(after)->second >= range.end;
  }

  // Returns whether any byte of `range` is in the set.
  bool Meets(ByteRange range) const {
    const auto after = ends_.lower_bound(range.end);
    return after != ends_.begin() && std::prev(after)->second > range.begin;
  }

  void Add(ByteRange range) {
    auto at = ends_.upper_bound(range.begin);
    if (at != ends_.begin() && std::prev(at)->second >= range.begin) {
      --at;
      range.begin = at->first;
    }
    while (at != ends_.end() && at->first <= range.end) {
      if (at->second > range.end) range.end = at->second;
      at = ends_.erase(at);
    }
    ends_.emplace(range.begin, range.end);
  }

  // All bytes of `range` are in the set.
  void Remove(ByteRange range) {
    const auto at = std::prev(ends_.upper_bound(range.begin));
    const ByteRange whole = {at->first, at->second};
    ends_.erase(at);
    if (whole.begin < range.begin) ends_.emplace(whole.begin, range.begin);
    if (range.end < whole.end) ends_.emplace(range.end, whole.end);
  }

  friend bool operator==(const ByteRanges& a, const ByteRanges& b) { return a.ends_ == b.ends_; }

 private:
  absl::btree_map<std::int64_t, std::int64_t> ends_;  // by begin
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BYTE_RANGES_H_
