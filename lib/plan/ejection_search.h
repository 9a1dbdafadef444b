// Ejection search for a plan within a capacity: an unplaced buffer goes where what it overlaps
// weighs least, which is taken out, and its own weight grows.
//
// It never proves anything, and finds plans where there is some room to spare: the counterpart of
// the exact search, which is strong where there is none. The weights are those of breakout local
// search (Morris 1993); a buffer that was placed just now counts for more (tabu).
#ifndef TIDEPOOL_LIB_PLAN_EJECTION_SEARCH_H_
#define TIDEPOOL_LIB_PLAN_EJECTION_SEARCH_H_

#include <cstdint>
#include <optional>

#include "lib/plan/budget.h"
#include "lib/plan/instance.h"

namespace tidepool::plan {

struct EjectionOptions {
  std::int64_t tenure =
      10;  // for so many to twice as many steps a buffer counts as placed just now
  std::uint64_t seed = 1;
};

// A plan of at most `capacity` units, which is no less than the largest size and the top of any
// obstacle, made from `start`, a valid plan of any height; or nothing when the budget is spent, or
// a buffer has no place between the obstacles. A step places one buffer: O(what
// is placed around it).
std::optional<Offsets> SearchByEjection(const Instance& instance, std::int64_t capacity,
                                        const Offsets& start, const EjectionOptions& options,
                                        Budget& budget);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_EJECTION_SEARCH_H_
