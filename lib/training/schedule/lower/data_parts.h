// SPDX-License-Identifier: Apache-2.0
// The bytes of a datum that are on a device, or on the host, with the operations that write and use
// them. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_DATA_PARTS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_DATA_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "lib/training/schedule/lower/stream_ends.h"

namespace tidepool::schedule {

// Bytes with one history.
struct DataPart {
  static constexpr std::uint32_t kNoSpan = UINT32_MAX;

  enum class State : std::uint8_t {
    kUntouched,  // `users` are those of its memory before; no operation has used it since
    kThere,      // it was there before the first operation
    kWritten,    // by `writer`
  };

  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t offset = -1;  // fixed addresses: of the datum's first byte
  std::uint32_t span = kNoSpan;
  State state = State::kUntouched;
  double density = -1;  // of a compressed copy on the host; -1: it is raw
  StreamEnd writer = {};
  StreamEnds users = {};
};

class DataParts {
 public:
  using Parts = absl::InlinedVector<DataPart, 1>;

  // Ranges of one datum beyond this number are refused: each use of the datum visits all of them.
  static constexpr std::size_t kMost = 4096;

  bool empty() const { return parts_.empty(); }
  std::size_t size() const { return parts_.size(); }
  Parts::iterator begin() { return parts_.begin(); }
  Parts::iterator end() { return parts_.end(); }
  Parts::const_iterator begin() const { return parts_.begin(); }
  Parts::const_iterator end() const { return parts_.end(); }

  // Adds a part that overlaps no other. O(parts).
  void Add(DataPart part) {
    const auto at =
        std::lower_bound(parts_.begin(), parts_.end(), part.begin,
                         [](const DataPart& own, std::int64_t begin) { return own.begin < begin; });
    parts_.insert(at, std::move(part));
  }

  // Calls `visit` for each part of [begin, end), after cutting parts at these two. O(parts).
  template <typename Visit>
  void Within(std::int64_t begin, std::int64_t end, const Visit& visit) {
    CutAt(begin);
    CutAt(end);
    for (DataPart& part : parts_) {
      if (part.begin >= begin && part.end <= end) visit(part);
    }
  }

  // Calls `visit(begin, end)` for each range in [begin, end) without a part. O(parts).
  template <typename Visit>
  void Missing(std::int64_t begin, std::int64_t end, const Visit& visit) const {
    for (const DataPart& part : parts_) {
      if (part.end <= begin || part.begin >= end) continue;
      if (part.begin > begin) visit(begin, part.begin);
      begin = part.end;
    }
    if (begin < end) visit(begin, end);
  }

  // Removes the parts of [begin, end), which are cut at these two.
  void Remove(std::int64_t begin, std::int64_t end) {
    const auto is_within = [&](const DataPart& part) {
      return part.begin >= begin && part.end <= end;
    };
    parts_.erase(std::remove_if(parts_.begin(), parts_.end(), is_within), parts_.end());
  }

 private:
  void CutAt(std::int64_t position) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].begin >= position || parts_[i].end <= position) continue;
      DataPart rest = parts_[i];
      rest.begin = parts_[i].end = position;
      parts_.insert(parts_.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(rest));
      return;
    }
  }

  Parts parts_;  // ascending, without overlap
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_DATA_PARTS_H_
