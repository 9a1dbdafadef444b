// SPDX-License-Identifier: Apache-2.0
// Plans of traces for several commands: made, and printed.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_PLAN_ANSWER_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_PLAN_ANSWER_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/trace/plan.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/stream_waits.h"

namespace tidepool::tool {

// `--time-limit`, the seconds that a search for a plan may take.
CLI::Option* AddTimeLimitOption(CLI::App& app, double& seconds, const std::string& description);

// Plans a trace. Ctrl-C ends the search with the best plan so far.
absl::StatusOr<Plan> PlanTrace(const MeasuredTrace& measured, StreamWaits waits,
                               std::optional<std::int64_t> capacity, double time_limit_seconds);

// The overhead, and whether the plan is optimal, are null for a snapshot without history.
nlohmann::ordered_json PlanJson(const Plan& plan, const MeasuredTrace& measured);
// Returns "the smallest possible", or why the search ended and the lower bound. Names the streams
// where smaller pools serve the trace, because streams may wait in them. `plan` has no waits.
std::string PlanText(const Plan& plan, const MeasuredTrace& measured);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_PLAN_ANSWER_H_
