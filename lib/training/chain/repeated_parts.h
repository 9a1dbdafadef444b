// SPDX-License-Identifier: Apache-2.0
// The parts of a graph as recomputation sees them: their outputs, the data that stays because it is
// made once, and the memory of a run that keeps nothing else.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_REPEATED_PARTS_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_REPEATED_PARTS_H_

#include <vector>

#include "lib/training/chain/chain_cuts.h"
#include "lib/training/chain/graph_walk.h"
#include "tidepool/training/chain.h"

namespace tidepool::chain {

// Returns the cuts at data that backward tasks need: other data is gone when a part runs again.
std::vector<Cut> CutsForRecomputation(const TaskGraph& graph, const GraphWalk& walk,
                                      const std::vector<Cut>& cuts);

// Makes the inputs outside x_0 resident to the end of the iteration: the last forward task that
// runs again may need them. `made` has the activations of `seen`. Returns whether there are any.
// O(data).
bool KeepInputs(const GraphChain& made, TaskGraph& seen);

// Lets data last that only forward tasks read, where a cut at it pays: a backward task of the part
// before the cut reads it then too, so that the part after it may run again. Such is the sum of a
// residual branch in bfloat16, of which backward tasks read a copy in float alone. A cut pays if
// backward tasks need several times the bytes of the datum from each side, up to the next cut.
// `seen` is a valid graph. O(tasks + data + uses).
void LetInputsOfPartsLast(const std::vector<std::size_t>& algorithms, TaskGraph& seen);

// Makes gradients of weights that the iteration makes gradients like others, which take memory from
// the task that writes them on. `seen` is a valid graph. O(data).
void LetGradientsCome(TaskGraph& seen);

// Makes the data resident that tasks write that may not run again, as random masks and new values
// of buffers: where it is at most half of the activation of a part, so that the other tasks of the
// part may run again. `made` has the parts and activations of `seen`. Returns whether there is such
// data. O(tasks + uses).
bool KeepResultsOfOneRun(const GraphChain& made, TaskGraph& seen);

// Fills in the outputs, and the chain's lists for recomputation. `made` has its parts, of these
// cuts, its activations and its other lists. O(tasks + data + uses).
void AddRecomputation(const TaskGraph& graph, const GraphWalk& walk, const std::vector<Cut>& cuts,
                      GraphChain& made);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_REPEATED_PARTS_H_
