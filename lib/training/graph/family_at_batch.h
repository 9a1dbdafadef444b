// SPDX-License-Identifier: Apache-2.0
// The parts of a family at one batch.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_FAMILY_AT_BATCH_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_FAMILY_AT_BATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/training/graph/check_graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::graph {

// Puts `batch`, and the sizes and layer parameters at that batch, into `graph`, a copy of the
// family's. Returns the first number that exceeds its limit.
std::optional<GraphFault> SetBatch(const GraphFamily& family, std::int64_t batch, TaskGraph& graph);

// A place in a table: a batch of it, or a place between two.
struct TablePlace {
  std::size_t before = 0;
  std::size_t after = 0;  // equal to `before` at a batch of the table
  double share = 0;       // of the way from the one to the other
};
// Returns no value outside of the table.
std::optional<TablePlace> PlaceOf(const std::vector<std::int64_t>& batches, std::int64_t batch);

// Returns the algorithms of a task at that place, in ascending order of workspaces.
std::vector<TaskAlgorithm> AlgorithmsAt(const std::vector<AlgorithmCosts>& costs,
                                        const TablePlace& place);
void SortByWorkspace(std::vector<TaskAlgorithm>& algorithms);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_FAMILY_AT_BATCH_H_
