// SPDX-License-Identifier: Apache-2.0
// A lower bound for plans of several streams.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_CUT_BOUND_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_CUT_BOUND_H_

#include <cstdint>

#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// Returns the most bytes that are live at a consistent cut: a prefix of each stream's events, such
// that every wait inside has the events that it waits for inside, too. Buffers that are live at a
// cut need disjoint addresses pairwise. If every buffer is freed on its own stream, no set of such
// buffers has more bytes. The best cut is a maximum closure (Picard 1976). Returns 0 where the
// network flow takes too long. O(n log n) without waits.
std::int64_t BoundByCuts(const PlanProblem& problem);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_CUT_BOUND_H_
