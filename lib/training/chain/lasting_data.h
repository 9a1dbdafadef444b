// SPDX-License-Identifier: Apache-2.0
// Small data that lives through most of an iteration, and would stand in the way of a chain's cuts.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_

#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::chain {

// Returns the graph as a chain sees it. Data that a forward task writes is resident there, from the
// start to the end, if more than half of the cuts would cross it and it has at most a 16,384th
// of the bytes of all such data: tables of positions and masks that every block reads, and data
// that the program holds to the end of the iteration, such as the gradient of the loss. O((tasks +
// data) log tasks + uses).
TaskGraph WithLastingData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_
