// What repeats: training steps that allocate the same again are planned once.
//
// Buffers that live through most of the problem (weights, optimizer states) are its background.
// Between times at which nothing else is live lie episodes. Episodes that are equal, with the same
// background throughout, can be given the same offsets.
#ifndef TIDEPOOL_LIB_PLAN_TWINS_H_
#define TIDEPOOL_LIB_PLAN_TWINS_H_

#include <cstdint>
#include <vector>

#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// Of each buffer the one whose offset it can take: itself, unless its episode is equal to one
// before. Whatever plan there is for the buffers that are their own twins, is one for all, and of
// the same height. The problem's buffers are valid. O(n log n).
std::vector<std::uint32_t> FindTwins(const PlanProblem& problem);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_TWINS_H_
