// SPDX-License-Identifier: Apache-2.0
// The skyline heuristic: the lowest stretch of the skyline gets the first buffer in an order that
// lives inside it. Without such a buffer the stretch is raised to its lower neighbour.
//
// This is best-fit of strip packing (Burke et al. 2004) as Sekiyama et al. (2018) use it for
// memory, longest lifetime first. A tree over the lifetimes makes it fast enough for whole traces.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_SKYLINE_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_SKYLINE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/range_tree.h"

namespace tidepool::plan {

// The obstacles above a skyline that rises. Not thread-safe.
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

// Makes plans of one instance in several orders. Not thread-safe: it keeps its lists between calls.
class SkylinePlanner {
 public:
  // `instance` must outlive the planner. O(n log n).
  explicit SkylinePlanner(const Instance& instance);

  // Returns the plan for `order`, which has every buffer once. Obstacles stay where they are.
  // O(n log n) as a rule.
  Offsets Plan(const std::vector<std::int32_t>& order);

 private:
  const Instance& instance_;
  const std::int64_t common_;  // all alignments are multiples of it
  RangeTree unplaced_;
  Ceilings ceilings_;
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_SKYLINE_H_
