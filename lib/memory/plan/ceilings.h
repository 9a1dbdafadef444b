// SPDX-License-Identifier: Apache-2.0
// The obstacles above a skyline that rises.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_CEILINGS_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_CEILINGS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/range_tree.h"

namespace tidepool::plan {

// Not thread-safe.
class Ceilings {
 public:
  static constexpr std::int32_t kOpen = -1;

  // `instance` must outlive the ceilings, which are empty until Reset. O(obstacles log obstacles).
  explicit Ceilings(const Instance& instance);

  // Begins at height 0 with all obstacles. O(obstacles).
  void Reset();
  // Drops the obstacles that end at `height` or below.
  void Rise(std::int64_t height);
  // Returns the lowest obstacle over the sections [first, end), or kOpen.
  std::int32_t Over(std::int32_t first, std::int32_t end) const;

  std::int64_t Offset(std::int32_t obstacle) const {
    return instance_.obstacle_offset[obstacle - instance_.count()];
  }
  std::int64_t Top(std::int32_t obstacle) const {
    return Offset(obstacle) + instance_.size[obstacle];
  }

 private:
  const Instance& instance_;
  std::vector<std::int32_t> by_offset_;  // the obstacles
  std::vector<std::int32_t> by_top_;     // their ranks in the order of offsets
  std::size_t next_ = 0;                 // the first in by_top_ that may still be above
  RangeTree above_;
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_CEILINGS_H_
