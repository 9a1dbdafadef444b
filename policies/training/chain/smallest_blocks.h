// SPDX-License-Identifier: Apache-2.0
// The blocks of one operation each that need the least memory.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_SMALLEST_BLOCKS_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_SMALLEST_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/training/chain/blocks.h"
#include "policies/training/chain/recompute_model.h"

namespace tidepool::chain_policies {

struct SmallestBlocks {
  std::vector<Block> blocks;
  std::int64_t bytes = 0;  // the memory in which ScheduleBlocks places them
};

// Returns blocks of one operation. All inputs leave, so each operation has only its own data
// beside it. A block keeps the rest of its result where making it again needs as much memory.
// `slots` are those of the table. O(L).
SmallestBlocks FindSmallestBlocks(const RecomputeModel& model, std::size_t slots);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_SMALLEST_BLOCKS_H_
