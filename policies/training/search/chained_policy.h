// SPDX-License-Identifier: Apache-2.0
// Policies of chains on graphs: the graph becomes a chain, and the chain's schedule becomes steps.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_CHAINED_POLICY_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_CHAINED_POLICY_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// Return the paged schedule of a chain policy for a valid graph and device 0 of the request: of a
// policy that transfers activations, and of one that also runs tasks again. Sizes are whole
// granules. Without a choice of algorithms, the fastest and those of least workspaces are both
// tried. Each micro-batch of a graph in which gradients add up is a chain of its own. Errors are
// those of ToChain, MakeChainSchedule and ScheduleChain.
absl::StatusOr<Schedule> MakeChained(std::string_view policy, const TaskGraph& graph,
                                     const ScheduleRequest& request);
absl::StatusOr<Schedule> MakeRecomputing(std::string_view policy, const TaskGraph& graph,
                                         const ScheduleRequest& request);

// Returns the chain that these policies see, with the fastest algorithms unless options choose
// those of least workspaces: of several micro-batches the chain of the last one. Errors are those
// of ToChain.
absl::StatusOr<GraphChain> ChainSeenOf(const TaskGraph& graph, const ScheduleRequest& request,
                                       bool recomputes);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_CHAINED_POLICY_H_
