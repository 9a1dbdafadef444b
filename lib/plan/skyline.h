// The skyline heuristic: the lowest stretch of the skyline gets the first buffer in an order that
// lives inside it, and is raised to its lower neighbour when there is none.
//
// This is best-fit of strip packing (Burke et al. 2004) as Sekiyama et al. (2018) use it for
// memory, longest lifetime first. With a tree over the lifetimes it is fast enough for whole
// traces.
#ifndef TIDEPOOL_LIB_PLAN_SKYLINE_H_
#define TIDEPOOL_LIB_PLAN_SKYLINE_H_

#include <cstdint>
#include <vector>

#include "lib/plan/instance.h"

namespace tidepool::plan {

// `order` has every buffer once. Obstacles are built around. O(n log n) as a rule.
Offsets PlanBySkyline(const Instance& instance, const std::vector<std::int32_t>& order);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_SKYLINE_H_
