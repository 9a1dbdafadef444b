// SPDX-License-Identifier: Apache-2.0
// Divides the waits of a problem among parts of its buffers, which are planned alone.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_WAITS_OF_PARTS_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_WAITS_OF_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// Returns, for each part, the waits that tell a stream of a free of the part. With these alone each
// stream learns of the part's frees at the same times. Buffer i is in part `part_of[i]`; the waits
// are in the order of time. O((waits + buffers) streams + buffers log buffers).
std::vector<std::vector<PlanWait>> WaitsOfParts(const PlanProblem& problem,
                                                std::span<const std::uint32_t> part_of,
                                                std::size_t parts);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_WAITS_OF_PARTS_H_
