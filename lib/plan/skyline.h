// SPDX-License-Identifier: Apache-2.0
// The skyline heuristic: the lowest stretch of the skyline gets the first buffer in an order that
// lives inside it. Without such a buffer the stretch is raised to its lower neighbour.
//
// This is best-fit of strip packing (Burke et al. 2004) as Sekiyama et al. (2018) use it for
// memory, longest lifetime first. A tree over the lifetimes makes it fast enough for whole traces.
#ifndef TIDEPOOL_LIB_PLAN_SKYLINE_H_
#define TIDEPOOL_LIB_PLAN_SKYLINE_H_

#include <cstdint>
#include <vector>

#include "lib/plan/instance.h"

namespace tidepool::plan {

// Returns the plan for `order`, which has every buffer once. Obstacles stay where they are. O(n log
// n) as a rule.
Offsets PlanBySkyline(const Instance& instance, const std::vector<std::int32_t>& order);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_SKYLINE_H_
