// SPDX-License-Identifier: Apache-2.0
// PlacedStays: stays with offsets, sorted by offset and by top.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_PLACED_STAYS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_PLACED_STAYS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/training/schedule/stay_problem.h"

namespace tidepool::schedule {

// Each call takes O(stays placed), and O(lives) for each that it overlaps. Not thread-safe. The
// problem outlives it.
class PlacedStays {
 public:
  struct Entry {
    std::int64_t offset = 0;
    std::int64_t top = 0;
    std::size_t stay = 0;

    static bool IsLower(const Entry& a, const Entry& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.stay < b.stay;
    }
    static bool EndsLower(const Entry& a, const Entry& b) {
      return a.top != b.top ? a.top < b.top : a.stay < b.stay;
    }
  };
  using Entries = std::vector<Entry>;

  explicit PlacedStays(const StayProblem& problem) : problem_(problem) {}

  void Insert(std::size_t stay, std::int64_t offset) {
    const Entry entry = EntryOf(stay, offset);
    by_offset_.insert(std::upper_bound(by_offset_.begin(), by_offset_.end(), entry, Entry::IsLower),
                      entry);
    by_top_.insert(std::upper_bound(by_top_.begin(), by_top_.end(), entry, Entry::EndsLower),
                   entry);
  }
  void Remove(std::size_t stay, std::int64_t offset) {
    const Entry entry = EntryOf(stay, offset);
    by_offset_.erase(std::lower_bound(by_offset_.begin(), by_offset_.end(), entry, Entry::IsLower));
    by_top_.erase(std::lower_bound(by_top_.begin(), by_top_.end(), entry, Entry::EndsLower));
  }

  bool IsFree(std::size_t stay, std::int64_t offset) const {
    return std::none_of(by_offset_.begin(), by_offset_.end(), [&](const Entry& entry) {
      return entry.offset < offset + problem_.sizes[stay] && entry.top > offset &&
             problem_.Overlap(entry.stay, stay);
    });
  }

  // Returns the lowest offset at which a stay is free.
  std::int64_t FirstFit(std::size_t stay) const {
    std::int64_t offset = problem_.floors[stay];
    for (const Entry& entry : by_offset_) {
      if (entry.offset >= offset + problem_.sizes[stay]) break;
      if (entry.top > offset && problem_.Overlap(entry.stay, stay)) offset = entry.top;
    }
    return offset;
  }

  // Writes the entries above its floor that a stay overlaps in time, by offset and by top.
  void FindAround(std::size_t stay, Entries& by_offset, Entries& by_top) const {
    Find(stay, by_offset_, by_offset);
    Find(stay, by_top_, by_top);
  }

 private:
  Entry EntryOf(std::size_t stay, std::int64_t offset) const {
    return {offset, offset + problem_.sizes[stay], stay};
  }

  // Few entries are left after the first loop, which has no branches that a processor could not
  // predict.
  void Find(std::size_t stay, const Entries& entries, Entries& around) const {
    const StaySpan& span = problem_.spans[stay];
    const std::int64_t floor = problem_.floors[stay];
    std::size_t count = 0;
    around.resize(entries.size());
    for (const Entry& entry : entries) {
      around[count] = entry;
      count += static_cast<std::size_t>(entry.top > floor) &
               static_cast<std::size_t>(problem_.spans[entry.stay].Meets(span));
    }
    around.resize(count);
    std::erase_if(around, [&](const Entry& entry) { return !problem_.Overlap(entry.stay, stay); });
  }

  const StayProblem& problem_;
  Entries by_offset_;
  Entries by_top_;
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_PLACED_STAYS_H_
