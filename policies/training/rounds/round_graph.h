// SPDX-License-Identifier: Apache-2.0
// The part of an iteration that every round repeats: all tasks but the updates.
#ifndef TIDEPOOL_POLICIES_TRAINING_ROUNDS_ROUND_GRAPH_H_
#define TIDEPOOL_POLICIES_TRAINING_ROUNDS_ROUND_GRAPH_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::rounds {

struct RoundGraph {
  // A graph with the same data. Weights, their gradients and the state of the optimizer are at home
  // on the device: they stay there from round to round.
  TaskGraph graph;
  std::vector<std::size_t> tasks;    // its tasks' numbers in the whole graph
  std::vector<std::size_t> updates;  // the other tasks of the whole graph
};

// Whether data stays from round to round: it does not grow with the batch.
bool StaysAcrossRounds(const GraphData& data);

// Returns the round graph of a valid graph. InvalidArgument, with the task and the data, for an
// update that uses data of one round or writes data, and for other data than weights that stays on
// the device after the iteration.
//
// Where the host runs the updates, data at home there that they alone use takes no memory of
// devices, as the state of an optimizer. O(graph).
absl::StatusOr<RoundGraph> RoundGraphOf(const TaskGraph& graph, bool updates_on_host);

// Returns a family of graphs without updates, which the host runs, and without the data above.
GraphFamily WithoutUpdates(const GraphFamily& family);

}  // namespace tidepool::rounds

#endif  // TIDEPOOL_POLICIES_TRAINING_ROUNDS_ROUND_GRAPH_H_
