#include "trace_replay/commands/plan_answer.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tidepool/trace/trace_plan.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

// A range does not refuse what compares with nothing.
std::string IsNumber(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number of seconds" : "";
}

}  // namespace

CLI::Option* AddTimeLimitOption(CLI::App& app, double& seconds) {
  return app
      .add_option("--time-limit", seconds,
                  "Seconds to look for a plan; the best so far counts then, and the first one is "
                  "always made")
      ->check(CLI::Range(0.0, 1e9))
      ->check(IsNumber)
      ->capture_default_str();
}

absl::StatusOr<Plan> PlanTrace(const MeasuredTrace& measured, std::optional<std::int64_t> capacity,
                               double time_limit_seconds, int threads) {
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(measured.trace, measured.alignment);
  if (!problem.ok()) return problem.status();
  return MakePlan(*problem, {.capacity = capacity,
                             .time_limit_seconds = time_limit_seconds,
                             .stop = StopAtInterrupt(),
                             .threads = threads});
}

nlohmann::ordered_json PlanJson(const Plan& plan, const TraceLoad& load) {
  return {{"pool_bytes", plan.height},
          {"overhead", Overhead(plan.height, load)},
          {"lower_bound_bytes", plan.lower_bound},
          {"optimal", plan.optimal},
          {"seconds", plan.seconds},
          {"timed_out", plan.timed_out},
          {"interrupted", plan.stopped}};
}

std::string PlanText(const Plan& plan) {
  if (plan.optimal) return "the smallest there is";
  return absl::StrCat(plan.stopped     ? "the best when it was interrupted"
                      : plan.timed_out ? "the best within the time limit"
                                       : "the best that was found",
                      ", none is below ", SizeText(plan.lower_bound));
}

}  // namespace tidepool::tool
