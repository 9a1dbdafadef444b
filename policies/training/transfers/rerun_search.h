// SPDX-License-Identifier: Apache-2.0
// Changes the tasks that run again together with the data that is sent.
//
// A datum is kept, sent or made again, and the cheapest of the three depends on the choices for all
// other data. If the tasks that run again are chosen first, the link may be idle while they run,
// and the memory may be full of data that waits for the link.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_SEARCH_H_

#include <cstdint>

#include "policies/training/transfers/away_set.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/graph.h"

namespace tidepool::transfers {

// Changes at random which tasks run again, some neighbours at once, as long as `go_on`. An absence
// stays chosen if the same run needs its data afterwards. More data is sent until all operations
// fit, then less while they still fit (FitSet). Keeps each change that makes the iteration no
// slower. The iteration is one of whole data with its times, and its tasks keep their algorithms.
// The same seed and answers of `go_on` give the same iteration. A try takes O((runs + uses +
// absences) log runs).
void ChangeReruns(const TaskGraph& graph, const GraphProblemOptions& options, std::uint64_t seed,
                  const GoOn& go_on, Iteration& iteration);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_SEARCH_H_
