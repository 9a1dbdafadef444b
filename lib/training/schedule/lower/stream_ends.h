// SPDX-License-Identifier: Apache-2.0
// The latest of some operations on each stream. To wait for their ends is to wait for all of them,
// because a stream runs its operations in order.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_STREAM_ENDS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_STREAM_ENDS_H_

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace tidepool::schedule {

struct StreamEnd {
  std::uint32_t operation = 0;
  std::uint32_t stream = 0;
};

// Not thread-safe.
class StreamEnds {
 public:
  using Ends = absl::InlinedVector<StreamEnd, 2>;

  StreamEnds() = default;
  explicit StreamEnds(StreamEnd end) : ends_(1, end) {}
  // Copies element by element: GCC 12 takes a copy of the whole storage for a use of uninitialized
  // memory.
  StreamEnds(const StreamEnds& other) : ends_(other.begin(), other.end()) {}
  StreamEnds& operator=(const StreamEnds& other) {
    ends_.assign(other.begin(), other.end());
    return *this;
  }
  ~StreamEnds() = default;

  bool empty() const { return ends_.empty(); }
  Ends::const_iterator begin() const { return ends_.begin(); }
  Ends::const_iterator end() const { return ends_.end(); }

  // O(streams).
  void Add(StreamEnd end) {
    for (StreamEnd& own : ends_) {
      if (own.stream == end.stream) {
        own.operation = std::max(own.operation, end.operation);
        return;
      }
    }
    ends_.push_back(end);
  }

  void Add(const StreamEnds& others) {
    for (const StreamEnd& end : others) Add(end);
  }

 private:
  Ends ends_;
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_STREAM_ENDS_H_
