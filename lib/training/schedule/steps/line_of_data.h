// SPDX-License-Identifier: Apache-2.0
// A queue of data in the order in which it was sent out, with removal from any position: a list
// through arrays, by number. Calls are O(1) unless stated otherwise. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_LINE_OF_DATA_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_LINE_OF_DATA_H_

#include <cstddef>
#include <limits>
#include <vector>

namespace tidepool::schedule {

class LineOfData {
 public:
  // `count` is more than any number of data.
  explicit LineOfData(std::size_t count) : links_(count + 1), ends_(count) {
    for (Link& link : links_) link.next = kNowhere;
    links_[ends_] = {ends_, ends_};
  }

  bool empty() const { return links_[ends_].next == ends_; }
  std::size_t first() const { return links_[ends_].next; }
  bool Holds(std::size_t data) const { return links_[data].next != kNowhere; }
  // Returns the first data for which `is_it` holds, or end(). O(length).
  template <typename IsIt>
  std::size_t FirstThat(IsIt is_it) const {
    std::size_t data = first();
    while (data != end() && !is_it(data)) data = links_[data].next;
    return data;
  }
  std::size_t end() const { return ends_; }

  // `data` is not in the queue.
  void Join(std::size_t data) {
    const std::size_t last = links_[ends_].previous;
    links_[data] = {last, ends_};
    links_[last].next = data;
    links_[ends_].previous = data;
  }
  // `data` is in the queue.
  void Leave(std::size_t data) {
    const Link link = links_[data];
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
    links_[data].next = kNowhere;
  }

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

  struct Link {
    std::size_t previous = 0;
    std::size_t next = 0;
  };

  std::vector<Link> links_;
  std::size_t ends_;  // the position before the first and after the last
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_LINE_OF_DATA_H_
