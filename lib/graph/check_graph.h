// What can be wrong with a task graph, and with which part of it: readers know the lines of parts.
#ifndef TIDEPOOL_LIB_GRAPH_CHECK_GRAPH_H_
#define TIDEPOOL_LIB_GRAPH_CHECK_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tidepool/schedule/graph.h"

namespace tidepool::graph {

struct GraphFault {
  enum class About : std::uint8_t { kGraph, kData, kTask };
  About about = About::kGraph;
  std::size_t index = 0;  // of the datum or the task
  std::string what;       // what is wrong, and what was expected
};

// The first index of a task that is none.
std::optional<GraphFault> FindIndexFault(const TaskGraph& graph);
// All that ValidateGraph asks, but for the order of the tasks.
std::optional<GraphFault> FindFault(const TaskGraph& graph);
// A task that comes before one that it needs. Of a graph without other faults.
std::optional<GraphFault> FindOrderFault(const TaskGraph& graph);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_GRAPH_CHECK_GRAPH_H_
