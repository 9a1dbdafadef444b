// SPDX-License-Identifier: Apache-2.0
// The planner's search, as schedules use it.
#ifndef TIDEPOOL_LIB_SCHEDULE_SCHEDULE_PLANNING_H_
#define TIDEPOOL_LIB_SCHEDULE_SCHEDULE_PLANNING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/schedule.h"
#include "tidepool/trace/plan.h"

namespace tidepool::schedule {

inline constexpr double kPlanSeconds = 1;

// Returns the first plan, made at once. Where that exceeds `memory_bytes` and a lower one is not
// ruled out, searches for so many seconds.
inline absl::StatusOr<Plan> PlanFor(const PlanProblem& problem, std::int64_t memory_bytes,
                                    double seconds = kPlanSeconds) {
  absl::StatusOr<Plan> first = MakePlan(problem, {.time_limit_seconds = 0});
  if (!first.ok() || first->height <= memory_bytes || first->lower_bound > memory_bytes) {
    return first;
  }
  return MakePlan(problem, {.capacity = memory_bytes, .time_limit_seconds = seconds});
}

// FixAddresses, with a limit for each of the up to three searches.
absl::StatusOr<Schedule> FixAddressesWithin(double seconds, absl::Span<const TaskGraph> graphs,
                                            const Schedule& schedule, std::int64_t alignment,
                                            absl::Span<const std::int64_t> memory_bytes);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_SCHEDULE_SCHEDULE_PLANNING_H_
