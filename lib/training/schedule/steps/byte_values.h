// SPDX-License-Identifier: Apache-2.0
// Ranges of bytes that do not overlap, each with a value. Calls are O(log ranges), and O(1) a range
// that they visit. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BYTE_VALUES_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BYTE_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"
#include "lib/training/schedule/steps/byte_ranges.h"

namespace tidepool::schedule {

template <typename Value>
class ByteValues {
 public:
  bool empty() const { return parts_.empty(); }
  void Clear() { parts_.clear(); }

  // Adds a range without a byte of the others.
  void Add(ByteRange range, Value value) {
    parts_.insert_or_assign(range.begin, Part{range.end, std::move(value)});
  }

  // Calls `visit(range, value)` for each part of a range, cut to it.
  template <typename Visitor>
  void Visit(ByteRange range, const Visitor& visit) const {
    for (auto at = FirstAfter(parts_, range.begin); at != parts_.end() && at->first < range.end;
         ++at) {
      visit(ByteRange{std::max(at->first, range.begin), std::min(at->second.end, range.end)},
            at->second.value);
    }
  }

  // Calls `change(value)` for each part of a range, after cutting parts at its ends.
  template <typename Changer>
  void Change(ByteRange range, const Changer& change) {
    CutAt(range.begin);
    CutAt(range.end);
    for (auto at = parts_.lower_bound(range.begin); at != parts_.end() && at->first < range.end;
         ++at) {
      change(at->second.value);
    }
  }

  // Takes all parts of a range away, and calls `visit(value)` for each.
  template <typename Visitor>
  void Take(ByteRange range, const Visitor& visit) {
    auto at = FirstAfter(parts_, range.begin);
    while (at != parts_.end() && at->first < range.end) {
      const std::int64_t begin = at->first;
      const Part part = std::move(at->second);
      visit(part.value);
      at = parts_.erase(at);
      if (part.end > range.end) at = parts_.emplace(range.end, part).first;
      if (begin < range.begin) {
        at = std::next(parts_.emplace(begin, Part{range.begin, part.value}).first);
      }
    }
  }

  // Returns whether all values satisfy the condition.
  template <typename Condition>
  bool AreAll(const Condition& condition) const {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const auto& part) { return condition(part.second.value); });
  }

 private:
  struct Part {
    std::int64_t end = 0;
    Value value;
  };
  using Parts = absl::btree_map<std::int64_t, Part>;  // by begin

  // Returns the first part that ends after a position.
  template <typename Map>
  static auto FirstAfter(Map& parts, std::int64_t position) {
    auto at = parts.upper_bound(position);
    if (at != parts.begin() && std::prev(at)->second.end > position) --at;
    return at;
  }

  void CutAt(std::int64_t position) {
    const auto at = FirstAfter(parts_, position);
    if (at == parts_.end() || at->first >= position) return;
    Part rest = at->second;
    at->second.end = position;
    parts_.emplace(position, std::move(rest));
  }

  Parts parts_;
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BYTE_VALUES_H_
