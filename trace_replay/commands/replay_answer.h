// SPDX-License-Identifier: Apache-2.0
// The answer of the command `replay`: as JSON, and as tables.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_REPLAY_ANSWER_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_REPLAY_ANSWER_H_

#include <string>

#include "trace_replay/command.h"
#include "trace_replay/commands/planned.h"
#include "trace_replay/commands/replay_options.h"
#include "trace_replay/commands/timed_replay.h"
#include "trace_replay/replay/learning.h"

namespace tidepool::tool {

// Returns the reason why a pool that learns made no plan; empty if it made one.
inline std::string ReasonOf(const MeasuredTrace& measured, const TimedReplay& replay) {
  return WhyNoPlans(replay.live->pool, *measured.trace, measured.alignment);
}

// `planned`: null without a plan.
void PrintReplayJson(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                     const PlannedTrace* planned, const TimedReplay& replay);
void PrintReplayTable(const ReplayCommandOptions& options, const MeasuredTrace& measured,
                      const PlannedTrace* planned, const TimedReplay& replay);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_REPLAY_ANSWER_H_
