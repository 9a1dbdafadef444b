// SPDX-License-Identifier: Apache-2.0
// Free memory of a device, with the operations that end its last use. Not thread-safe.
#ifndef TIDEPOOL_LIB_SCHEDULE_MEMORY_USERS_H_
#define TIDEPOOL_LIB_SCHEDULE_MEMORY_USERS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"
#include "lib/schedule/stream_ends.h"

namespace tidepool::schedule {

// Memory with fixed addresses: the free ranges that had users.
class AddressUsers {
 public:
  // Takes [begin, end), and adds the last users of all its bytes. O(log ranges + ranges in it).
  void Take(std::int64_t begin, std::int64_t end, StreamEnds& users) {
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
    while (range != ranges_.end() && range->first < end) {
      users.Add(range->second.users);
      range = Cut(range, begin, end);
    }
  }

  // Gives [begin, end) back; it is not among the free ranges.
  void Give(std::int64_t begin, std::int64_t end, StreamEnds users) {
    ranges_.insert_or_assign(begin, Range{end, std::move(users)});
  }

 private:
  struct Range {
    std::int64_t end = 0;
    StreamEnds users;
  };
  using Ranges = absl::btree_map<std::int64_t, Range>;  // by begin

  // Removes [begin, end) from a range that overlaps it, and returns the next range.
  Ranges::iterator Cut(Ranges::iterator range, std::int64_t begin, std::int64_t end) {
    const std::int64_t first = range->first;
    Range whole = std::move(range->second);
    range = ranges_.erase(range);
    if (whole.end > end) range = ranges_.emplace(end, Range{whole.end, whole.users}).first;
    if (first < begin) {
      range = std::next(ranges_.emplace(first, Range{begin, std::move(whole.users)}).first);
    }
    return range;
  }

  Ranges ranges_;
};

// Memory in pages: granules in the order in which they were given back.
class PageUsers {
 public:
  explicit PageUsers(std::int64_t bytes) : free_bytes_(bytes) {
    free_.push_back({bytes, StreamEnds()});
  }

  std::int64_t free_bytes() const { return free_bytes_; }

  // Takes the bytes that were given back first, at most free_bytes(), and adds their last users.
  // Bytes with `comes_last(users)` are taken when there are no others. O(1) on average, and O(bytes
  // that come last).
  template <typename ComesLast>
  void Take(std::int64_t bytes, const ComesLast& comes_last, StreamEnds& users) {
    free_bytes_ -= bytes;
    absl::InlinedVector<Granules, 2> last;
    while (bytes > 0 && !free_.empty()) {
      if (comes_last(free_.front().users)) {
        last.push_back(std::move(free_.front()));
        free_.pop_front();
      } else {
        bytes -= TakeFirst(bytes, users);
      }
    }
    free_.insert(free_.begin(), last.begin(), last.end());
    while (bytes > 0) bytes -= TakeFirst(bytes, users);
  }

  void Give(std::int64_t bytes, StreamEnds users) {
    free_bytes_ += bytes;
    free_.push_back({bytes, std::move(users)});
  }

 private:
  struct Granules {
    std::int64_t bytes = 0;
    StreamEnds users;
  };

  std::int64_t TakeFirst(std::int64_t bytes, StreamEnds& users) {
    Granules& first = free_.front();
    const std::int64_t taken = std::min(bytes, first.bytes);
    users.Add(first.users);
    first.bytes -= taken;
    if (first.bytes == 0) free_.pop_front();
    return taken;
  }

  std::int64_t free_bytes_;
  std::deque<Granules> free_;
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_SCHEDULE_MEMORY_USERS_H_
