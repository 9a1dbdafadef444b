// SPDX-License-Identifier: Apache-2.0
// Gives tasks faster algorithms where the memory has room for their workspaces.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_FASTER_ALGORITHMS_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_FASTER_ALGORITHMS_H_

#include "policies/training/transfers/graph_problem.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/graph.h"

namespace tidepool::transfers {

// Gives each task of an iteration with times the fastest algorithm with a workspace that has room
// beside all its runs. If that makes the iteration no faster, only the half of the tasks that saves
// the most time gets it, and so on. A task that runs again keeps one algorithm, so that it writes
// the same values. Finds the new times. O((runs + uses + absences) log tasks).
void UseFasterAlgorithms(const TaskGraph& graph, const GraphProblemOptions& options,
                         Iteration& iteration);

// Does the same, and also if more data leaves: as much as in 15/16, 7/8 and 3/4 of the memory.
// Keeps the fastest iteration.
void MakeRoomForAlgorithms(const TaskGraph& graph, const GraphProblemOptions& options,
                           Iteration& iteration);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_FASTER_ALGORITHMS_H_
