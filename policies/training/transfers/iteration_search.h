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
  GraphProblem made;
  std::vector<bool> is_away;  // by absence
  std::vector<TransferAction> actions;
  double seconds = std::numeric_limits<double>::infinity();  // infinite: none fits
};

// Searches for the fastest iteration with the given algorithms, one for each task. First tasks that
// run again are chosen in the first part of the graph, without tensors at which it can be cut. They
// are segments of equal size. A search from the start also chooses those with the least seconds for
// a byte of results. These seconds are those of a task alone, or with the tasks that run again with
// it. Then these choices are changed at random (hill climbing) as long as `go_on`. Data is whole so
// far. Then the data, or its parts, that is sent is chosen (ImproveSet) as long as `go_on_sending`.
// Tasks have the given algorithms, or faster ones where the memory has room
// (MakeRoomForAlgorithms). Each iteration that is tried takes O(runs + uses + absences).
Iteration SearchIteration(const TaskGraph& graph, const std::vector<std::size_t>& algorithms,
                          const IterationOptions& options, const GoOn& go_on,
                          const GoOn& go_on_sending);

// Improves the data that is sent in an iteration (ImproveSet), with its runs.
void SendOtherData(std::uint64_t seed, const GoOn& go_on, Iteration& iteration);

// Finds the transfers and the time of an iteration in which other data is away than before.
void FindTimes(Iteration& iteration);

// Makes an iteration with times one of other options, such as less memory. Its runs stay, and so
// does the data that is away, as far as the options let it. More leaves until all operations fit,
// and then less while they do where that is faster. It takes infinitely long where they cannot.
void Refit(const TaskGraph& graph, const GraphProblemOptions& options, Iteration& iteration);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_ITERATION_SEARCH_H_
