// SPDX-License-Identifier: Apache-2.0
// The problem of stay_search.h. All sizes and offsets are counted in units of the alignment.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_PROBLEM_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/training/schedule/stay_search.h"

namespace tidepool::schedule {

inline constexpr std::int64_t kUnplacedStay = -1;  // instead of an offset

// From the first life of a stay to its last.
struct StaySpan {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  bool has_one_life = false;

  bool Meets(const StaySpan& other) const {
    return (static_cast<int>(lower < other.upper) & static_cast<int>(other.lower < upper)) != 0;
  }
};

// The stays, and the offset from which on each is free of stacked ones.
struct StayProblem {
  const std::vector<LivingStay>& stays;
  std::vector<StaySpan> spans;       // by stay
  std::vector<std::int64_t> sizes;   // by stay
  std::vector<std::int64_t> floors;  // by stay
  std::vector<std::size_t> above;    // the stays that are not stacked, the largest first

  bool IsLargerThan(std::size_t a, std::size_t b) const {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
  }
  // Whether two stays need memory at one step. O(lives).
  bool Overlap(std::size_t a, std::size_t b) const {
    if (!spans[a].Meets(spans[b])) return false;
    if (spans[a].has_one_life && spans[b].has_one_life) return true;
    const std::vector<Life>& one = stays[a].lives;
    const std::vector<Life>& other = stays[b].lives;
    for (std::size_t i = 0, j = 0; i < one.size() && j < other.size();) {
      if (one[i].upper <= other[j].lower) {
        ++i;
      } else if (other[j].upper <= one[i].lower) {
        ++j;
      } else {
        return true;
      }
    }
    return false;
  }
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_PROBLEM_H_
