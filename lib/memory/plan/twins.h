// SPDX-License-Identifier: Apache-2.0
// Finds repetitions, so that training steps that allocate alike are planned once.
//
// Buffers that live through most of the problem (weights, optimizer states) are its background.
// Episodes lie between times at which no other buffer is live. Equal episodes, with the same
// background throughout, can have the same offsets.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_TWINS_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_TWINS_H_

#include <cstdint>
#include <vector>

#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// Returns the twin of each buffer, which can have the same offset: the buffer itself, unless its
// episode equals an earlier one. A plan for the buffers that are their own twins is a plan of the
// same height for all buffers. The problem's buffers are valid. O(n log n).
std::vector<std::uint32_t> FindTwins(const PlanProblem& problem);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_TWINS_H_
