// SPDX-License-Identifier: Apache-2.0
// The requests of each stream, for pools in which no stream waits for memory of another.
#ifndef TIDEPOOL_TRACE_STREAMS_APART_H_
#define TIDEPOOL_TRACE_STREAMS_APART_H_

#include <vector>

#include "tidepool/export.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// Returns a trace of allocations and frees for each stream that allocates. A buffer that another
// stream freed is free once its own stream knows of that. `problem` is ToPlanProblem of the trace,
// with any alignment. Thread-safe. O(n log n).
TIDEPOOL_EXPORT std::vector<Trace> StreamsApart(const Trace& trace, const PlanProblem& problem);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_STREAMS_APART_H_
