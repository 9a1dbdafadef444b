// SPDX-License-Identifier: Apache-2.0
// Changes the tasks that run again together with the data that is sent.
//
// Each datum is kept, sent or made again, and the cheapest choice depends on those for all others.
// Where the tasks are chosen first, the link may be idle while tasks run again, and the memory full
// where data waits for the link.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_SEARCH_H_

#include <cstdint>

#include "policies/training/transfers/away_set.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/graph.h"

namespace tidepool::transfers {

// Changes the tasks that run again at random, some neighbours at once, as long as `go_on`. Data
// stays away as before where the same run needs it afterwards. More is sent until all operations
// fit, and then less while they do (FitSet). Keeps each change that makes the iteration no slower.
// The iteration is one of whole data with its times, and its tasks keep their algorithms. The same
// seed and answers of `go_on` give the same iteration. A try takes
// O((runs + uses + absences) log runs).
void ChangeReruns(const TaskGraph& graph, const GraphProblemOptions& options, std::uint64_t seed,
                  const GoOn& go_on, Iteration& iteration);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_SEARCH_H_
