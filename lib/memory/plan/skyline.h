// SPDX-License-Identifier: Apache-2.0
// The skyline heuristic: the lowest stretch of the skyline gets the first buffer in an order that
// lives inside it. Without such a buffer the stretch is raised to its lower neighbour.
//
// This is best-fit of strip packing (Burke et al. 2004) as Sekiyama et al. (2018) use it for
// memory, longest lifetime first. A tree over the lifetimes makes it fast enough for whole traces.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_SKYLINE_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_SKYLINE_H_

#include <cstdint>
#include <vector>

#include "lib/memory/plan/ceilings.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/range_tree.h"

namespace tidepool::plan {

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
