// SPDX-License-Identifier: Apache-2.0
// Sorts the tasks of a graph into an order in which they can run.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_TASK_ORDER_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_TASK_ORDER_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"

namespace tidepool::graph {

// Returns indices of tasks, in the order that SortTasks documents. Every index in the graph is
// valid.
absl::StatusOr<std::vector<std::size_t>> TaskOrder(const TaskGraph& graph);

// Returns `parts[order[0]], parts[order[1]], ...`
template <typename Part>
std::vector<Part> InOrder(std::vector<Part> parts, const std::vector<std::size_t>& order) {
  std::vector<Part> ordered;
  ordered.reserve(parts.size());
  for (const std::size_t at : order) ordered.push_back(std::move(parts[at]));
  return ordered;
}

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_TASK_ORDER_H_
