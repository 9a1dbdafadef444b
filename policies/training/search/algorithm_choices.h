// SPDX-License-Identifier: Apache-2.0
// Choices of algorithms, one for each task, that a search tries.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_ALGORITHM_CHOICES_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_ALGORITHM_CHOICES_H_

#include <cstddef>
#include <vector>

#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/graph.h"

namespace tidepool::search {

using Algorithms = std::vector<std::size_t>;  // by task

// Returns two choices, or fewer where there are no more. Each choice gets a schedule without a
// search. The first is the choice with the fastest of these. The second has the fastest algorithms,
// because tasks that run again make room for them, or is the next best if the first has them. Each
// has the fastest algorithms up to a limit of workspaces, from no limit to no workspace.
std::vector<Algorithms> PromisingAlgorithms(const TaskGraph& graph,
                                            const transfers::IterationOptions& options);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_ALGORITHM_CHOICES_H_
