// SPDX-License-Identifier: Apache-2.0
// Searches for offsets of stays that go and come back to the same memory.
//
// Weights leave the device and come back where they were. Other data may have their memory in the
// time between, so one stay has several lives. The planner's buffers have one life each.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_SEARCH_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_SEARCH_H_

#include <cstdint>
#include <vector>

#include "lib/base/budget/budget.h"
#include "tidepool/trace/plan.h"

namespace tidepool::schedule {

// A stay needs its memory at the steps [lower, upper).
struct Life {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

struct LivingStay {
  std::int64_t bytes = 0;
  std::vector<Life> lives;  // at least one, ascending; they neither overlap nor touch
};

// Sorts lives, and joins those that overlap or touch.
void Join(std::vector<Life>& lives);

struct StaySearchOptions {
  std::int64_t alignment = 1;     // of all offsets, a power of two
  std::int64_t memory_bytes = 0;  // the height that suffices
  double work = 0;                // of the ejection search: stays times steps
  std::uint64_t seed = 1;
  // By stay: its offset in a plan of similar stays, -1 without one. Empty: there is no such plan.
  std::vector<std::int64_t> near = {};
};

// Returns the lowest plan found. Stays that are always there lie at the bottom, and with them those
// that are gone before others come and come back once. The others lie above by first fit, the
// largest first. Where that exceeds the memory, an ejection search goes on from there, as that of
// lib/memory/plan/ejection_search.h does. With a plan near by the search begins with those of its
// offsets that are free, and returns the plan with the fewest bytes that do not fit. The plan has
// offsets and a height, and no lower bound. Equal arguments give equal plans unless the budget
// passes. O(stays^2), and O(stays log stays) a step.
Plan PlanStays(const std::vector<LivingStay>& stays, const StaySearchOptions& options,
               budget::Budget& whole);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STAY_SEARCH_H_
