// SPDX-License-Identifier: Apache-2.0
// Ranges of the physical memory of a device with pages, in whole granules. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_PAGE_RANGES_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_PAGE_RANGES_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "lib/training/schedule/steps/byte_ranges.h"

namespace tidepool::schedule {

// In the order of the bytes that lie in them. Empty where nothing asks for places.
class PageRanges {
 public:
  PageRanges() = default;
  explicit PageRanges(ByteRange range) { Add(range); }

  bool empty() const { return ranges_.empty(); }
  std::vector<ByteRange>::const_iterator begin() const { return ranges_.begin(); }
  std::vector<ByteRange>::const_iterator end() const { return ranges_.end(); }

  void Add(ByteRange range) {
    if (!ranges_.empty() && ranges_.back().end == range.begin) {
      ranges_.back().end = range.end;
    } else if (range.begin < range.end) {
      ranges_.push_back(range);
    }
  }
  void Add(const PageRanges& others) {
    for (const ByteRange& range : others) Add(range);
  }

  // Removes the first `bytes` bytes and returns them. O(ranges).
  PageRanges TakeFirst(std::int64_t bytes) {
    PageRanges taken;
    std::size_t whole = 0;
    while (whole < ranges_.size() && bytes > 0) {
      ByteRange& first = ranges_[whole];
      const std::int64_t end = std::min(first.end, first.begin + bytes);
      bytes -= end - first.begin;
      taken.Add({first.begin, end});
      first.begin = end;
      if (first.begin == first.end) ++whole;
    }
    ranges_.erase(ranges_.begin(), ranges_.begin() + static_cast<std::ptrdiff_t>(whole));
    return taken;
  }

 private:
  std::vector<ByteRange> ranges_;
};

// The pages of a datum on a device, and its addresses there. Pages that come keep these addresses
// unless other pages lay there before: at any address is one page, from the first operation to the
// last.
class DataPages {
 public:
  static constexpr std::int64_t kNowhere = -1;

  std::int64_t offset() const { return offset_; }
  // Whether the pages that come next need other addresses.
  bool NeedsAddresses() const { return offset_ == kNowhere || is_torn_; }
  void SetOffset(std::int64_t offset) {
    offset_ = offset;
    is_torn_ = false;
  }

  // Adds the pages of the bytes from `begin` on, which have none.
  void Add(std::int64_t begin, const PageRanges& pages) {
    for (const ByteRange& range : pages) {
      ranges_.emplace(begin, range);
      begin += range.end - range.begin;
    }
  }

  // Removes the pages of [begin, end), and returns them.
  PageRanges Take(std::int64_t begin, std::int64_t end) {
    CutAt(begin);
    CutAt(end);
    PageRanges taken;
    const auto first = ranges_.lower_bound(begin);
    const auto last = ranges_.lower_bound(end);
    for (auto at = first; at != last; ++at) taken.Add(at->second);
    ranges_.erase(first, last);
    is_torn_ = true;
    if (ranges_.empty()) offset_ = kNowhere;
    return taken;
  }

  // Calls `visit(begin, range)` for each range, with the position of its bytes in the data.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const auto& [begin, range] : ranges_) visit(begin, range);
  }

 private:
  void CutAt(std::int64_t position) {
    auto at = ranges_.lower_bound(position);
    if (at == ranges_.begin()) return;
    --at;
    ByteRange& range = at->second;
    const std::int64_t cut = range.begin + position - at->first;
    if (cut >= range.end) return;
    const ByteRange rest = {cut, range.end};
    range.end = cut;
    ranges_.emplace(position, rest);
  }

  std::int64_t offset_ = kNowhere;
  bool is_torn_ = false;  // pages left, while others stayed
  absl::btree_map<std::int64_t, ByteRange> ranges_;
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_PAGE_RANGES_H_
