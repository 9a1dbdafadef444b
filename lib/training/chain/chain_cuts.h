// SPDX-License-Identifier: Apache-2.0
// Finds the places at which a graph can be cut into the parts of a chain.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_CHAIN_CUTS_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_CHAIN_CUTS_H_

#include <cstddef>
#include <vector>

#include "lib/training/chain/graph_walk.h"
#include "tidepool/training/graph.h"

namespace tidepool::chain {

// A cut before the forward task `forward` and before the later task `backward`, which could be any
// from `earliest` to `latest`.
struct Cut {
  std::size_t forward = 0;
  std::size_t backward = 0;
  std::size_t earliest = 0;
  std::size_t latest = 0;
  std::size_t separator = kNoTask;  // the datum that crosses it; kNoTask: none does
};

// Returns all cuts, with ascending forward and descending backward tasks. O(tasks + data + uses).
std::vector<Cut> FindCuts(const TaskGraph& graph, const GraphWalk& walk);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_CHAIN_CUTS_H_
