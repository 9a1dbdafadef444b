// SPDX-License-Identifier: Apache-2.0
// Plans of buffers that leave and come back to the same memory.
//
// Weights leave the device and come back where they were. Other data may have their memory in the
// time between, so one buffer has several lives.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_LIVES_PLAN_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_LIVES_PLAN_H_

#include <cstdint>
#include <vector>

#include "lib/base/budget/budget.h"
#include "lib/memory/plan/lives.h"
#include "tidepool/trace/plan.h"

namespace tidepool::plan {

struct LivesOptions {
  std::int64_t alignment = 1;  // of all offsets, a power of two
  std::int64_t capacity = 0;   // the height that suffices
  double work = 0;             // of the ejection search: buffers times steps
  std::uint64_t seed = 1;
  // By buffer: its offset in a plan of similar buffers, -1 without one. Empty: there is no such
  // plan.
  std::vector<std::int64_t> start_offsets = {};
};

// Returns the lowest plan found. Buffers that are always there lie at the bottom, and with them
// those that are gone before others come and come back once. The others lie above by first fit, the
// largest first. Where that exceeds the capacity, the ejection search goes on from there. With a
// plan near by the search begins with those of its offsets that are free, and returns the plan with
// the fewest bytes that do not fit. The plan has offsets and a height, and no lower bound. Equal
// arguments give equal plans unless the clock or a stop ends `whole`. O(buffers^1.5) as a
// rule, and O(buffers log buffers) a step.
Plan PlanLives(const std::vector<LivingBuffer>& buffers, const LivesOptions& options,
               budget::Budget& whole);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_LIVES_PLAN_H_
