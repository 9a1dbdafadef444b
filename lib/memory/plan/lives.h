// SPDX-License-Identifier: Apache-2.0
// The lives of a buffer that has the same memory in several intervals of time.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_LIVES_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_LIVES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidepool::plan {

// The buffer needs its memory in [lower, upper), in any unit of time.
struct Life {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

// At least one life, ascending; they neither overlap nor touch.
using Lives = std::vector<Life>;

struct LivingBuffer {
  std::int64_t bytes = 0;
  Lives lives;
};

// Sorts lives, and joins those that overlap or touch.
void Join(Lives& lives);

// Returns whether some lives of two buffers overlap. O(lives).
inline bool Overlap(const Lives& a, const Lives& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].upper <= b[j].lower) {
      ++i;
    } else if (b[j].upper <= a[i].lower) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_LIVES_H_
