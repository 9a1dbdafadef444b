// SPDX-License-Identifier: Apache-2.0
// Checks problems before they are planned, and plans before they are returned.
#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "lib/base/budget/budget.h"
#include "lib/memory/plan/check_problem.h"
#include "lib/memory/plan/planner.h"
#include "tidepool/trace/plan.h"

namespace tidepool {

absl::StatusOr<std::int64_t> PlanLowerBound(const PlanProblem& problem) {
  if (absl::Status status = plan::CheckProblem(problem); !status.ok()) return status;
  return plan::LowerBoundOf(problem);
}

absl::StatusOr<Plan> MakePlan(const PlanProblem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (absl::Status status = plan::CheckProblem(problem); !status.ok()) return status;
  if (absl::Status status = plan::CheckOptions(problem, options); !status.ok()) return status;
  budget::Budget whole(options.time_limit_seconds, options.stop);
  Plan plan = plan::MakePlanIn(problem, options, UINT64_MAX, whole);
  plan.timed_out = whole.timed_out();
  plan.stopped = whole.is_stopped();
  if (absl::Status valid = ValidatePlan(problem, plan.offsets, plan.height); !valid.ok()) {
    return absl::InternalError(absl::StrCat("the planner made an invalid plan: ", valid.message()));
  }
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace tidepool
