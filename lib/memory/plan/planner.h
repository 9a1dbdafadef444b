// SPDX-License-Identifier: Apache-2.0
// Plans a checked problem.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_PLANNER_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_PLANNER_H_

#include <cstdint>

#include "lib/base/budget/budget.h"
#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// Returns the best plan that `most_rounds` rounds of the search find before the end of the budget.
// The first plan is always made. The time limit and the stop token of the options are the budget's.
Plan MakePlanIn(const PlanProblem& problem, const PlanOptions& options, std::uint64_t most_rounds,
                budget::Budget& whole);

// Returns a proved lower bound of every plan's height, in bytes.
std::int64_t LowerBoundOf(const PlanProblem& problem);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_PLANNER_H_
