// A plan for a trace, computed and told.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_PLAN_ANSWER_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_PLAN_ANSWER_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/trace/plan.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

// `--time-limit`, in seconds.
CLI::Option* AddTimeLimitOption(CLI::App& app, double& seconds);

// Plans a trace on so many threads; an interrupt ends the search.
absl::StatusOr<Plan> PlanTrace(const MeasuredTrace& measured, std::optional<std::int64_t> capacity,
                               double time_limit_seconds, int threads = 1);

nlohmann::ordered_json PlanJson(const Plan& plan, const TraceLoad& load);
// "smallest", or why the search ended and how near the plan is.
std::string PlanText(const Plan& plan);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_PLAN_ANSWER_H_
