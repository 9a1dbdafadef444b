// SPDX-License-Identifier: Apache-2.0
// Finds faults of a task graph and the part that has each fault: readers know the lines of parts.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_CHECK_GRAPH_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_CHECK_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::graph {

struct GraphFault {
  enum class About : std::uint8_t { kGraph, kData, kTask };
  About about = About::kGraph;
  std::size_t index = 0;  // of the datum or the task
  std::string what;       // the fault and the expectation
};

// Returns the first invalid index of a task.
std::optional<GraphFault> FindIndexFault(const TaskGraph& graph);
// Checks all rules of ValidateGraph except the order of the tasks.
std::optional<GraphFault> FindFault(const TaskGraph& graph);
// Finds a task that comes before a task that it needs. The graph has no other faults.
std::optional<GraphFault> FindOrderFault(const TaskGraph& graph);

// Checks all rules of ValidateFamily except the order of the tasks. Indices of data in the graph
// need not be valid.
std::optional<GraphFault> FindFamilyFault(const GraphFamily& family);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_CHECK_GRAPH_H_
