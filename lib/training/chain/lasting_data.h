// SPDX-License-Identifier: Apache-2.0
// Small data that lives through most of an iteration, and would stand in the way of a chain's cuts.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_

#include <cstddef>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::chain {

// Returns the graph as a chain sees it. A datum of a forward task is resident there, from the start
// of the iteration to its end, if it is live at more than half of the places for cuts and has at
// most a 16,384th of the bytes of all data of forward tasks. Such data are tables of positions and
// masks that every block reads, and data that the program holds to the end of the iteration, as the
// gradient of the loss. `graph` is valid, and `algorithms` has one for each task. O((tasks + data)
// log tasks + uses).
TaskGraph WithLastingData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_
