// SPDX-License-Identifier: Apache-2.0
// Data that stays on the device through an iteration, and so in no activation of a chain.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_

#include <cstddef>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::chain {

// Makes a datum resident, from the start of the iteration to its end.
void MakeResident(GraphData& data);

// Returns the graph as a chain sees it. A datum of a forward task is resident there if it has at
// most a 16,384th of the bytes of all data of forward tasks, and stands in the way of a cut that
// the other data allows. Such data are tables of positions and masks that every block reads, new
// values of buffers that the program reads after the forward tasks, and data that it holds to the
// end of the iteration, as the gradient of the loss. `graph` is valid, and `algorithms` has one for
// each task. O((tasks + data) log tasks + uses).
TaskGraph WithLastingData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_
