// SPDX-License-Identifier: Apache-2.0
// Replays of a trace after its load was measured, for searches that replay it many times.
#ifndef TIDEPOOL_LIB_TRACE_SIZING_REPLAY_H_
#define TIDEPOOL_LIB_TRACE_SIZING_REPLAY_H_

#include <stop_token>

#include "absl/status/status.h"
#include "tidepool/trace/sizing.h"

namespace tidepool::sizing {

// Returns Cancelled once the stop was requested.
absl::Status CheckNotStopped(const std::stop_token& stop);

// Serves `trace` as Replay does. `load` is the trace's load at options.alignment.
absl::StatusOr<ReplayResult> ReplayWithLoad(const Trace& trace, const TraceLoad& load,
                                            PlacementPolicy& policy, const ReplayOptions& options);

}  // namespace tidepool::sizing

#endif  // TIDEPOOL_LIB_TRACE_SIZING_REPLAY_H_
