// SPDX-License-Identifier: Apache-2.0
// Whether the streams of a pool may wait for memory of each other.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_STREAM_WAITS_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_STREAM_WAITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/placement.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

enum class StreamWaits {
  kAllowed,  // as a live pool does: memory that a stream freed is free for all, some have to wait
  kNone,     // memory of another stream is free after a wait that the trace has
};

// Returns the problem of a trace.
absl::StatusOr<PlanProblem> ProblemOf(const MeasuredTrace& measured, StreamWaits waits);

// Returns whether buffers belong to different streams, and the trace has the order of these.
bool HasOrderedStreams(const PlanProblem& problem);
// Returns "2 streams, 0 recorded waits".
std::string StreamsText(const PlanProblem& problem);

// Returns the pool that a policy needs if no stream waits for memory of another: the sum over all
// streams, each with a part of its own.
absl::StatusOr<std::int64_t> PoolWithoutWaits(const MeasuredTrace& measured,
                                              const PlanProblem& problem, PlacementPolicy& policy,
                                              MinimumPoolOptions limits);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_STREAM_WAITS_H_
