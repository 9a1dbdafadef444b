// SPDX-License-Identifier: Apache-2.0
// Finds buffers that overlap. Shares no code with the planner.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_FIRST_OVERLAP_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_FIRST_OVERLAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tidepool/trace/plan.h"

namespace tidepool::plan {

struct PlanOverlap {
  std::size_t a = 0;  // smaller than b
  std::size_t b = 0;
  std::int64_t time = 0;  // at which the later of the two begins
};

// Returns an overlap at the earliest time, or no value. There is one offset for each buffer, no
// end overflows, and the problem has at most 1,024 streams. O(n log n) with one stream.
std::optional<PlanOverlap> FirstOverlap(const PlanProblem& problem,
                                        const std::vector<std::int64_t>& offsets);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_FIRST_OVERLAP_H_
