// SPDX-License-Identifier: Apache-2.0
// The placed buffers around a range of sections, sorted by offset and by top.
//
// Windows that overlap by half cover the time, so that a short range lies in one window. Each
// window has two sorted lists of the obstacles and placed buffers that it meets. A range that fits
// in no window uses the lists of all buffers.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_PLACED_LISTS_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_PLACED_LISTS_H_

#include <cstdint>
#include <vector>

#include "lib/memory/plan/instance.h"

namespace tidepool::plan {

class PlacedLists {
 public:
  struct Entry {
    std::int64_t at;
    std::int32_t buffer;

    bool operator<(const Entry& other) const {
      return at != other.at ? at < other.at : buffer < other.buffer;
    }
  };
  struct Lists {
    std::vector<Entry> by_offset;
    std::vector<Entry> by_top;
  };

  enum class Sorted : std::uint8_t { kByOffset, kByOffsetAndTop };

  // Lists all obstacles, and all buffers with a nonnegative offset. Lists by top stay empty unless
  // `sorted` asks for them. O(n log n).
  PlacedLists(const Instance& instance, const Offsets& offsets,
              Sorted sorted = Sorted::kByOffsetAndTop);

  // O(windows that it meets x buffers placed there).
  void Insert(std::int32_t buffer, std::int64_t offset);
  void Remove(std::int32_t buffer, std::int64_t offset);
  // Returns lists that contain every placed buffer that overlaps `buffer` in time, and possibly
  // more.
  const Lists& Around(std::int32_t buffer) const;

 private:
  // Calls `change` with each list that the buffer is in.
  template <typename Change>
  void ForEachLists(std::int32_t buffer, const Change& change);
  // Return the windows that a buffer meets: [FirstWindow, EndWindow).
  std::int32_t FirstWindow(std::int32_t buffer) const;
  std::int32_t EndWindow(std::int32_t buffer) const;

  const Instance& instance_;
  const bool has_tops_;
  std::int32_t stride_;  // window i is the sections [i x stride, (i + 2) x stride)
  std::vector<Lists> windows_;
  Lists all_;
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_PLACED_LISTS_H_
