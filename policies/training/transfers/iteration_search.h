// SPDX-License-Identifier: Apache-2.0
// Chooses, for an iteration of a graph, the data that is sent and the data that is made again.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_ITERATION_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_ITERATION_SEARCH_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "policies/training/transfers/away_set.h"
#include "policies/training/transfers/graph_problem.h"
#include "tidepool/training/graph.h"

namespace tidepool::transfers {

struct IterationOptions {
  GraphProblemOptions problem = {};
  bool recomputes = true;
  std::uint64_t seed = 1;
};

struct Iteration {
  std::vector<TaskRun> runs;
  std::vector<bool> runs_again;  // by task
  GraphProblem problem;          // of the runs
  std::vector<bool> is_away;     // by absence
  std::vector<TransferAction> actions;
  double seconds = std::numeric_limits<double>::infinity();  // infinite: none fits
};

// Searches for the fastest iteration with the given algorithms, one for each task.
//
// First it chooses the tasks that run again, with data sent whole, as long as `go_on`:
// - segments of equal size in each forward pass, between tensors at which the graph can be cut and
//   which are kept;
// - the tasks with the least seconds for a byte of results, counting the task alone, or with all
//   tasks that must run again for it;
// - random changes of the best of these (hill climbing).
// Then it chooses the data, or the parts of data, that is sent (ImproveSet) as long as
// `go_on_sending`. Tasks get faster algorithms where the memory has room (MakeRoomForAlgorithms).
// Each iteration that is tried takes O(runs + uses + absences).
Iteration SearchIteration(const TaskGraph& graph, const std::vector<std::size_t>& algorithms,
                          const IterationOptions& options, const GoOn& go_on,
                          const GoOn& go_on_sending);

// Improves the data that is sent in an iteration (ImproveSet), with its runs.
void SendOtherData(std::uint64_t seed, const GoOn& go_on, Iteration& iteration);

// Finds the transfers and the time of an iteration in which other data is away than before.
void FindTimes(Iteration& iteration);

// Adapts an iteration to other options, such as less memory. Keeps its runs, and keeps the same
// data away as far as the options allow. More data leaves until all operations fit. The time is
// infinite if they cannot fit.
void KeepAway(const TaskGraph& graph, const GraphProblemOptions& options, Iteration& iteration);

// Does the same, and then lets less data leave while all operations fit, if that is faster.
void Refit(const TaskGraph& graph, const GraphProblemOptions& options, Iteration& iteration);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_ITERATION_SEARCH_H_
