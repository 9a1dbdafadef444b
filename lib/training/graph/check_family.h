// SPDX-License-Identifier: Apache-2.0
// Finds faults of a family, and the part that has each fault.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_CHECK_FAMILY_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_CHECK_FAMILY_H_

#include <optional>

#include "lib/training/graph/check_graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::graph {

// Checks all rules of ValidateFamily except the order of the tasks. Indices of data in the graph
// need not be valid.
std::optional<GraphFault> FindFamilyFault(const GraphFamily& family);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_CHECK_FAMILY_H_
