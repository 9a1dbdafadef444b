// SPDX-License-Identifier: Apache-2.0
// The schedules of all policies but `best`, as paged ones.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_

#include <cstddef>
#include <functional>

#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// Takes a schedule. Returns false to end the calls.
using TakeSchedule = std::function<bool(const Schedule&)>;

// Calls `take` with the schedule of each policy that has one for a valid graph and a checked
// request, with the policy's default options: none, base and the policies of chains without tasks
// that run again, with one of the pool's policies for each set of layers. These take hundredths of
// a second together for a thousand tasks. A pool's schedule gets late drops (PagedFromPool), so
// vdnn and vdnn++ are the same.
void MakeSending(const TaskGraph& graph, const ScheduleRequest& request, const TakeSchedule& take);

// Calls `take` with the schedules of recompute and pofo, where tasks run again. Longer chains
// than these would take them seconds, and have no call.
inline constexpr std::size_t kMostOperationsRunningAgain = 32;
void MakeRunningAgain(const TaskGraph& graph, const ScheduleRequest& request,
                      const TakeSchedule& take);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_
