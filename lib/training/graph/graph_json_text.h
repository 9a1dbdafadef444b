// SPDX-License-Identifier: Apache-2.0
// The JSON of graphs and families.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_GRAPH_JSON_TEXT_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_GRAPH_JSON_TEXT_H_

#include <string>

#include "tidepool/training/graph_family.h"

namespace tidepool::graph {

// Returns the text of `graph`. With a family, which has that graph, it has the family's sizes per
// sample and its table.
std::string JsonOf(const TaskGraph& graph, const GraphFamily* family);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_GRAPH_JSON_TEXT_H_
