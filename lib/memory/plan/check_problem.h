// SPDX-License-Identifier: Apache-2.0
// Checks problems and options before planning.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_CHECK_PROBLEM_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_CHECK_PROBLEM_H_

#include "absl/status/status.h"
#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// Returns the errors of MakePlan. O(n log n).
absl::Status CheckProblem(const PlanProblem& problem);
absl::Status CheckOptions(const PlanProblem& problem, const PlanOptions& options);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_CHECK_PROBLEM_H_
