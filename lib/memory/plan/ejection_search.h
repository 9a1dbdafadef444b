// SPDX-License-Identifier: Apache-2.0
// Ejection search for a plan within a capacity. It places an unplaced buffer where the buffers in
// its way weigh least, removes those, and raises the weight of the placed buffer.
//
// The search proves nothing, and is strong where a plan has some room to spare. Its counterpart,
// the exact search, is strong where a plan has no room to spare. The weights are those of breakout
// local search (Morris 1993); a recently placed buffer weighs more (tabu).
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_EJECTION_SEARCH_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_EJECTION_SEARCH_H_

#include <cstdint>
#include <optional>

#include "lib/base/budget/budget.h"
#include "lib/memory/plan/instance.h"

namespace tidepool::plan {

struct EjectionOptions {
  std::int64_t tenure = 10;  // a buffer is recent for this many to twice as many steps
  std::uint64_t seed = 1;
};

// Returns a plan of at most `capacity` units, made from `start`, a valid plan of any height.
// Returns no value when the budget is spent, or when a buffer fits nowhere between the obstacles.
// `capacity` is at least the largest size and the top of any obstacle. A step places one buffer:
// O(buffers placed around it).
std::optional<Offsets> SearchByEjection(const Instance& instance, std::int64_t capacity,
                                        const Offsets& start, const EjectionOptions& options,
                                        budget::Budget& budget);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_EJECTION_SEARCH_H_
