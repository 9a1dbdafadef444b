// SPDX-License-Identifier: Apache-2.0
// Ejection search for offsets of stays within a capacity, as that of
// lib/memory/plan/ejection_search.h for buffers. A stay may be live in several intervals. The
// search may leave some stays unplaced.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_EJECTION_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_EJECTION_H_

#include <cstdint>

#include "lib/base/budget/budget.h"
#include "lib/memory/plan/instance.h"
#include "lib/training/schedule/stay_problem.h"

namespace tidepool::schedule {

struct StayEjectionOptions {
  std::int64_t capacity = 0;  // each stay fits between its floor and the capacity
  std::int64_t tenure = 10;   // a stay is recent for this many to twice as many steps
  std::uint64_t seed = 1;
};

// Offsets that keep to the capacity.
struct FullestStays {
  plan::Offsets offsets;           // by stay; kUnplacedStay where it found none
  std::int64_t unplaced_size = 0;  // of the stays without an offset
};

// Returns the offsets with the least size unplaced. Begins with `start`, a valid plan of any height
// with each stay above its floor. Ends when all stays have offsets, or the budget is spent. The
// same arguments give the same offsets unless the clock ends the budget. A step places one stay:
// O(stays).
FullestStays EjectStays(const StayProblem& problem, const plan::Offsets& start,
                        const StayEjectionOptions& options, budget::Budget& budget);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_EJECTION_H_
