// SPDX-License-Identifier: Apache-2.0
// The paged schedule of a graph with given runs and transfers.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_GRAPH_STEPS_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_GRAPH_STEPS_H_

#include <vector>

#include "policies/training/transfers/graph_problem.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::transfers {

// Returns the steps of `actions`, by start, of a schedule of `problem`. Memory is given back in the
// order of time, so each step finds the granules that are free at its start. The caller sets the
// names and the granule. O(steps log steps).
Schedule MakeSteps(const TaskGraph& graph, const std::vector<TaskRun>& runs,
                   const GraphProblem& problem, const std::vector<TransferAction>& actions);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_GRAPH_STEPS_H_
