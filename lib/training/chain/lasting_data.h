// SPDX-License-Identifier: Apache-2.0
// Data that stays on the device through an iteration, and so in no activation of a chain.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_

#include <cstddef>
#include <cstdint>
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

// Returns the graph with long-lived data resident: forward tasks write at least a `part`-th of all
// bytes that backward tasks need while such a datum waits for its last forward use. It may be
// large: the result of an encoder that each block of a decoder reads, features that a later network
// joins, and what the program holds until the forward tasks end, as autocast its copies of weights.
// Data that forward tasks update is not: a second run of its writer would undo that. `graph` is
// valid, and `algorithms` has one for each task. O(tasks + data + uses).
TaskGraph WithLongLivedData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms,
                            std::int64_t part);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_LASTING_DATA_H_
