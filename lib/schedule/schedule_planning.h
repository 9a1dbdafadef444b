// SPDX-License-Identifier: Apache-2.0
// The planner's search, as schedules use it.
#ifndef TIDEPOOL_LIB_SCHEDULE_SCHEDULE_PLANNING_H_
#define TIDEPOOL_LIB_SCHEDULE_SCHEDULE_PLANNING_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/schedule/device_stays.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/schedule.h"
#include "tidepool/trace/plan.h"

namespace tidepool::schedule {

// Buffers times steps that an ejection search does in a second on a usual core.
inline constexpr double kWorkOfASecond = 1e8;

// The limits of a search for a plan.
struct PlanEffort {
  double work_seconds = 0.1;  // of the search in layers, as so many seconds of a usual core
  double most_seconds = 1;    // of that search, by the clock
  // Of the planner's whole search after it, by the clock; 0: that search is left out.
  double whole_seconds = 1;
  std::uint64_t seed = 1;
  std::stop_token stop = {};
  WorkspaceLife workspaces = WorkspaceLife::kOneStep;
};

// Returns the first plan, made at once. Where that exceeds `memory_bytes` and a lower one is not
// ruled out, searches in layers (plan::PlanInLayers), and then for any plan.
absl::StatusOr<Plan> PlanFor(const PlanProblem& problem, std::int64_t memory_bytes,
                             const PlanEffort& effort = {});

// A schedule with fixed addresses.
struct FixedSchedule {
  bool fits = false;
  Schedule schedule = {};   // where it fits
  std::size_t device = 0;   // the first one with a plan that does not fit
  std::int64_t height = 0;  // of its plan, or the most of all
};

// Returns ResourceExhausted with the device and the height of a plan that does not fit.
absl::Status DoesNotFit(const FixedSchedule& fixed, absl::Span<const std::int64_t> memory_bytes);

// FixAddresses, with a limit for each of the up to three searches. A plan that does not fit is no
// error.
absl::StatusOr<FixedSchedule> FixAddressesWithin(const PlanEffort& effort,
                                                 absl::Span<const TaskGraph> graphs,
                                                 const Schedule& schedule, std::int64_t alignment,
                                                 absl::Span<const std::int64_t> memory_bytes);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_SCHEDULE_SCHEDULE_PLANNING_H_
