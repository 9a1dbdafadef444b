// SPDX-License-Identifier: Apache-2.0
// A trace in the form that the searches use: sizes are aligned, and only events that touch memory
// remain. Every allocation has a slot, a number that is reused after the free, so arrays by slot
// have no gaps.
#ifndef TIDEPOOL_LIB_TRACE_SIZING_STEPS_H_
#define TIDEPOOL_LIB_TRACE_SIZING_STEPS_H_

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

#endif  // TIDEPOOL_LIB_TRACE_SIZING_STEPS_H_
