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

#include "lib/base/budget/budget.h"
#include "lib/memory/plan/instance.h"

namespace tidepool::plan {

struct EjectionOptions {
  // A placed buffer is recent for this many steps, and up to `tenure_spread` more.
  std::int64_t tenure = 10;
  std::int64_t tenure_spread = 10;
  // A buffer weighs its size to this power at first, and as much more each time that it is placed.
  double size_power = 0;
  std::uint64_t seed = 1;
};

// Offsets within a capacity, kUnplaced where the search found none.
struct FullestPlan {
  Offsets offsets;
  std::int64_t unplaced_size = 0;  // of the buffers without an offset

  bool IsComplete() const { return unplaced_size == 0; }
};

// Returns the offsets of at most `capacity` units with the least size unplaced, made from `start`,
// a valid plan of any height. Ends when all buffers have offsets, the budget is spent, or a buffer
// fits nowhere between the obstacles. `capacity` is at least the top of each buffer at its floor,
// and that of any obstacle. A step places one buffer: O(buffers placed around it).
FullestPlan SearchByEjection(const Instance& instance, std::int64_t capacity, const Offsets& start,
                             const EjectionOptions& options, budget::Budget& budget);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_EJECTION_SEARCH_H_
