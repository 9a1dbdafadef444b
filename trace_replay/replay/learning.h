// SPDX-License-Identifier: Apache-2.0
// Words for a pool that plans by itself.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_LEARNING_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_LEARNING_H_

#include <cstdint>
#include <string>

#include "tidepool/pool.h"
#include "tidepool/trace/trace.h"

namespace tidepool::tool {

// Returns the reason why a pool made no plans of the iterations of a trace; empty if it made some.
// `pool` has the counts at the end. O(events).
std::string WhyNoPlans(const PoolStats& pool, const Trace& trace, std::int64_t alignment);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_LEARNING_H_
