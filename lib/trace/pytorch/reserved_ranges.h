// SPDX-License-Identifier: Apache-2.0
// Reserved ranges: the ranges of addresses that an allocator has reserved. Adjacent ranges stay
// separate, because each was reserved separately. Every call takes O(log ranges), plus O(1) for
// each range that it touches.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_RESERVED_RANGES_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_RESERVED_RANGES_H_

#include <cstdint>
#include <iterator>
#include <map>

namespace tidepool::pytorch {

// Set of ranges with a `Note` each. A divided range keeps its note in both parts.
template <typename Note>
class ReservedRanges {
 public:
  struct Range {
    std::uint64_t end;
    Note note;
  };

  // Adds a range, and removes everything reserved there before.
  void Add(std::uint64_t begin, std::uint64_t end, const Note& note) {
    if (begin == end) return;
    Remove(begin, end);
    ranges_[begin] = {end, note};
  }

  void Remove(std::uint64_t begin, std::uint64_t end) {
    auto at = FirstBehind(begin);
    while (at != ranges_.end() && at->first < end) {
      const std::uint64_t first = at->first;
      const Range range = at->second;
      at = ranges_.erase(at);
      if (first < begin) ranges_[first] = {begin, range.note};
      if (range.end > end) ranges_[end] = range;
    }
  }

  bool Overlaps(std::uint64_t begin, std::uint64_t end) const {
    const auto at = FirstBehind(begin);
    return at != ranges_.end() && at->first < end;
  }

  // Returns the number of ranges that cover [begin, end), or 0 if a part of it is not reserved.
  std::size_t Covering(std::uint64_t begin, std::uint64_t end) const {
    std::size_t count = 0;
    std::uint64_t covered = begin;
    for (auto at = FirstBehind(begin); covered < end; ++at) {
      if (at == ranges_.end() || at->first > covered) return 0;
      covered = at->second.end;
      ++count;
    }
    return count;
  }

  bool IsOneRange(std::uint64_t begin, std::uint64_t end) const {
    const auto found = ranges_.find(begin);
    return found != ranges_.end() && found->second.end == end;
  }

  // All ranges by address.
  const std::map<std::uint64_t, Range>& all() const { return ranges_; }

 private:
  // Returns the first range that ends after `address`.
  typename std::map<std::uint64_t, Range>::const_iterator FirstBehind(std::uint64_t address) const {
    auto at = ranges_.upper_bound(address);
    if (at != ranges_.begin() && std::prev(at)->second.end > address) --at;
    return at;
  }

  std::map<std::uint64_t, Range> ranges_;
};

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_RESERVED_RANGES_H_
