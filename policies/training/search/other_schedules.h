// SPDX-License-Identifier: Apache-2.0
// Paged schedules of all policies but `best` and `modnn`, which `best` compares with its own.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_

#include <cstddef>
#include <functional>

#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// Receives a schedule. Returns false to end the calls.
using TakeSchedule = std::function<bool(const Schedule&)>;

// Calls `take` with the schedules of the policies that only transfer data, for a valid graph and a
// checked request: none, base, vdnn++ with two sets of layers, and the chain policies without
// recomputation. Together they take hundredths of a second for a thousand tasks. Schedules of a
// pool get late drops (PagedFromPool), with which vdnn and vdnn++ are the same.
void ForEachTransferSchedule(const TaskGraph& graph, const ScheduleRequest& request,
                             const TakeSchedule& take);

// Calls `take` with the schedules of recompute and pofo, each found in at most `most_seconds`. Does
// nothing for chains longer than this: they would need more.
inline constexpr std::size_t kMostOperationsRunningAgain = 32;
void ForEachRecomputeSchedule(const TaskGraph& graph, const ScheduleRequest& request,
                              double most_seconds, const TakeSchedule& take);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_OTHER_SCHEDULES_H_
