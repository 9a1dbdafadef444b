// First-fit: each buffer of an order gets the lowest place that is free beside those before it, in
// whatever hole that is.
//
// Where obstacles leave holes, it fills them better than a skyline, which never looks below itself
// again; and some order of first-fit makes the lowest plan there is.
#ifndef TIDEPOOL_LIB_PLAN_FIRST_FIT_PLAN_H_
#define TIDEPOOL_LIB_PLAN_FIRST_FIT_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/plan/budget.h"
#include "lib/plan/instance.h"

namespace tidepool::plan {

// `order` has every buffer once. A step of the budget places one: O(what is placed around it).
// Nothing when the budget is spent.
std::optional<Offsets> PlanByFirstFit(const Instance& instance,
                                      const std::vector<std::int32_t>& order, Budget& budget);

// A plan of at most `capacity` units, found by changing the order of the offsets in `start`, a
// valid plan, over and over: what sticks out comes sooner. Nothing when the budget is spent, of
// which each buffer that is placed takes a step.
std::optional<Offsets> SearchByOrders(const Instance& instance, std::int64_t capacity,
                                      const Offsets& start, std::uint64_t seed, Budget& budget);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_FIRST_FIT_PLAN_H_
