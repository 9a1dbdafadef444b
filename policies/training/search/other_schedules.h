// SPDX-License-Identifier: Apache-2.0
// Schedules of the policies in the table that `best` compares with its own.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_

#include <cstddef>
#include <functional>

#include "policies/training/requests/policy_table.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// Receives a schedule. Returns false to end the calls.
using TakeSchedule = std::function<bool(const Schedule&)>;

// Calls `take` with schedules of the policies that only transfer data, for a valid graph and a
// checked request: of pools, of fixed addresses, and of chains. Together they take hundredths of a
// second for a thousand tasks. Schedules of a pool get late drops (PagedFromPool).
void ForEachQuickSchedule(requests::PolicyTable policies, const TaskGraph& graph,
                          const ScheduleRequest& request, const TakeSchedule& take);

// Calls `take` with schedules of the policies that give addresses of their own to rounds.
void ForEachAddressedSchedule(requests::PolicyTable policies, const TaskGraph& graph,
                              const ScheduleRequest& request, const TakeSchedule& take);

// Calls `take` with schedules of the policies that run tasks again, each found in at most
// `most_seconds`. Does nothing for chains longer than this: they would need more.
inline constexpr std::size_t kMostOperationsRunningAgain = 32;
void ForEachRecomputeSchedule(requests::PolicyTable policies, const TaskGraph& graph,
                              const ScheduleRequest& request, double most_seconds,
                              const TakeSchedule& take);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_
