// SPDX-License-Identifier: Apache-2.0
// The search for a plan, which Ctrl-C ends, and its answer.
#include "trace_replay/commands/plan_answer.h"

#include "absl/strings/str_cat.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/options.h"
#include "trace_replay/progress.h"
#include "trace_replay/quantity.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
CLI::Option* AddTimeLimitOption(CLI::App& app, double& seconds, const std::string& description) {
  constexpr double kMostSeconds = 1e9;
  return AddSecondsOption(app, "--time-limit", seconds, description)
      ->default_str(absl::StrCat(seconds, "s"))
      ->check([](const std::string& text) {
        return ParseSeconds(text).value_or(0) > kMostSeconds
                   ? absl::StrCat("'", text, "', expected at most ", kMostSeconds, " seconds")
                   : "";
      });
}

namespace {

// Returns "" where streams make no plan higher.
std::string StreamsRemark(const Plan& plan, const MeasuredTrace& measured) {
  if (plan.height <= measured.load.peak_live_bytes) return "";
  const absl::StatusOr<PlanProblem> problem = ProblemOf(measured, StreamWaits::kNone);
  if (!problem.ok() || !HasOrderedStreams(*problem)) return "";
  return absl::StrCat(" unless streams wait for memory (", StreamsText(*problem), ")");
}

}  // namespace

absl::StatusOr<Plan> PlanTrace(const MeasuredTrace& measured, StreamWaits waits,
                               std::optional<std::int64_t> capacity, double time_limit_seconds) {
  const absl::StatusOr<PlanProblem> problem = ProblemOf(measured, waits);
  if (!problem.ok()) return problem.status();
  Progress().Show("planning");
  return MakePlan(
      *problem,
      {.capacity = capacity, .time_limit_seconds = time_limit_seconds, .stop = StopAtInterrupt()});
}

nlohmann::ordered_json PlanJson(const Plan& plan, const MeasuredTrace& measured) {
  nlohmann::ordered_json json = {{"pool_bytes", plan.height},
                                 {"overhead", Overhead(plan.height, measured.load)},
                                 {"lower_bound_bytes", plan.lower_bound},
                                 {"optimal", plan.optimal},
                                 {"seconds", plan.seconds},
                                 {"timed_out", plan.timed_out},
                                 {"interrupted", plan.stopped}};
  if (!measured.trace->has_history) json["overhead"] = json["optimal"] = nullptr;
  return json;
}

std::string PlanText(const Plan& plan, const MeasuredTrace& measured) {
  const std::string streams = StreamsRemark(plan, measured);
  if (plan.optimal) return absl::StrCat("the smallest possible", streams);
  return absl::StrCat(plan.stopped     ? "the best before the interrupt"
                      : plan.timed_out ? "the best within the time limit"
                                       : "the best that the search found",
                      ", no plan is smaller than ", SizeText(plan.lower_bound), streams);
}

}  // namespace tidepool::tool
