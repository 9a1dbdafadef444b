// SPDX-License-Identifier: Apache-2.0
// First-fit: each buffer of an order gets the lowest free offset among the buffers before it, in
// any hole.
//
// Where obstacles leave holes, first-fit fills them better than a skyline, which never looks below
// itself again. Some order of first-fit makes the lowest possible plan.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_FIRST_FIT_PLAN_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_FIRST_FIT_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/budget/budget.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/placed_lists.h"

namespace tidepool::plan {

// Returns the plan for `order`, which has every buffer once. Returns no value when the budget is
// spent. A step of the budget places one buffer: O(buffers placed around it) where there are few,
// or several streams; otherwise O(free ranges between those).
std::optional<Offsets> PlanByFirstFit(const Instance& instance,
                                      const std::vector<std::int32_t>& order,
                                      budget::Budget& budget);

// Gives the buffers without an offset one by first fit, in the order `order`, which has every
// buffer once. The other offsets stay. A buffer takes a step of PlanByFirstFit.
void CompleteByFirstFit(const Instance& instance, const std::vector<std::int32_t>& order,
                        Offsets& offsets);

// Returns whether a buffer is free of the placed ones at an offset.
bool IsFree(const Instance& instance, const PlacedLists& placed, std::int32_t buffer,
            std::int64_t offset);

// Returns a plan of at most `capacity` units. Changes the order of the offsets in `start`, a valid
// plan, again and again: buffers that exceed the capacity move to the front. Each placed buffer
// takes a step of the budget. Returns no value when the budget is spent.
std::optional<Offsets> SearchByOrders(const Instance& instance, std::int64_t capacity,
                                      const Offsets& start, std::uint64_t seed,
                                      budget::Budget& budget);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_FIRST_FIT_PLAN_H_
