// SPDX-License-Identifier: Apache-2.0
// Chooses the blocks of a chain: POFO's dynamic program, with few states a position.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_BLOCK_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_BLOCK_SEARCH_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "lib/base/budget/budget.h"
#include "policies/training/chain/blocks.h"

namespace tidepool::chain_policies {

struct BlockSearchOptions {
  std::size_t width = 64;         // states that are kept for each position
  std::size_t longest = 32;       // operations of a block, except for the last one
  std::size_t most_answers = 64;  // that are returned
  double most_lost = std::numeric_limits<double>::infinity();  // seconds of an answer's waits
  budget::Budget* budget = nullptr;  // its end gives the answers so far; null: it has none
};

// Returns choices of blocks that fit by the estimate of the search, the fastest first.
//
// Beaumont, Eyraud-Dubois and Shilova, "Efficient Combination of Rematerialization and Offloading
// for Training DNNs", NeurIPS 2021: blocks are chosen from the first to the last. A state has the
// bytes that stay on the device, the bytes still to be sent at the end of the forward half so far,
// the bytes to be fetched before the backward half of the rest, and the time lost. Bytes leave
// and come while operations run, and operations wait for them. The backward half of a block is
// followed action by action: each has its own memory, and the link works on meanwhile.
std::vector<std::vector<Block>> SearchBlocks(const RecomputeTable& table,
                                             const BlockSearchOptions& options);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_BLOCK_SEARCH_H_
