// SPDX-License-Identifier: Apache-2.0
// Equation (8): the memory of consecutive tasks.
#ifndef TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_WINDOW_BYTES_H_
#define TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_WINDOW_BYTES_H_

#include <cstdint>
#include <vector>

#include "policies/training/sub_batch/task_memory.h"
#include "tidepool/training/graph.h"

namespace tidepool::sub_batch {

// Returns the workspace of the fastest algorithm of each task.
std::vector<std::int64_t> FastestWorkspaces(const TaskGraph& graph);

// Returns the most memory of consecutive tasks that are no updates, and of the data that stays.
// `graph` needs no algorithms. O(uses log tasks).
std::int64_t WindowBytes(const TaskGraph& graph, const DataSizes& sizes,
                         const std::vector<std::int64_t>& workspaces, double share);

}  // namespace tidepool::sub_batch

#endif  // TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_WINDOW_BYTES_H_
