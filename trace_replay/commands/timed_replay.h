// SPDX-License-Identifier: Apache-2.0
// Replays of the command `replay`: by placement alone, or from a live pool on a device.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_TIMED_REPLAY_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_TIMED_REPLAY_H_

#include <optional>

#include "absl/status/statusor.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/planned.h"
#include "trace_replay/commands/replay_options.h"
#include "trace_replay/replay/live_replay.h"

namespace tidepool::tool {

struct TimedReplay {
  ReplayResult result;
  double seconds = 0;
  std::optional<LiveReplay> live;       // its placement is moved to `result`
  std::optional<PlannedCounts> counts;  // of a policy that needs a plan
};

// Returns the plan of `--plan`, or plans the trace.
absl::StatusOr<PlannedTrace> PlannedOf(const ReplayCommandOptions& options,
                                       const MeasuredTrace& measured);

// Serves the trace on the device of the options. `planned`: null for a policy that needs no plan.
absl::StatusOr<TimedReplay> ReplayTimed(const ReplayCommandOptions& options,
                                        const MeasuredTrace& measured, const PlannedTrace* planned);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_TIMED_REPLAY_H_
