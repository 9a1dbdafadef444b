// A trace as the searches step through it: sizes aligned, what touches no memory gone, and for
// every allocation a slot, a number that is used again after the free, so that what is kept for the
// live allocations is an array without gaps.
#ifndef TIDEPOOL_LIB_SIZING_STEPS_H_
#define TIDEPOOL_LIB_SIZING_STEPS_H_

#include <cstdint>
#include <vector>

#include "tidepool/placement.h"
#include "tidepool/trace/trace.h"

namespace tidepool::sizing {

struct Step {
  std::int64_t bytes;  // aligned; 0: a free
  std::uint32_t slot;  // below the load's peak_live_count
  Hint hint;
};

std::vector<Step> ToSteps(const Trace& trace, std::int64_t alignment);

}  // namespace tidepool::sizing

#endif  // TIDEPOOL_LIB_SIZING_STEPS_H_
