// SPDX-License-Identifier: Apache-2.0
// A chain as blocks: schedules that offload the inputs of blocks, and run blocks again.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_BLOCKS_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_BLOCKS_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "policies/training/chain/recompute_table.h"

namespace tidepool::chain_policies {

// F_first, ..., F_(end-1) and their backward operations. In the forward half a block keeps its
// input x_first, which may leave, and makes the input of the next block. Its backward half is a
// segment of the table. The last block runs as a segment only.
struct Block {
  std::size_t first = 0;
  std::size_t end = 0;
  bool keeps_all = false;  // of x_end, for the backward half; otherwise its output
  bool offloads = false;   // x_first
  std::size_t slots = 0;   // of the table, for the segment

  friend bool operator==(const Block&, const Block&) = default;
};

inline Segment SegmentOf(const Block& block, std::size_t operations) {
  return {block.first, block.end - 1, block.keeps_all && block.end < operations};
}

// Returns the schedule of blocks, which are in their order and make up the chain. Both halves and
// the gap between them are placed by PlaceTransfers, operation by operation: offloads before
// prefetches, in the order of the paper. There are no bounds in the schedule. ResourceExhausted
// where the blocks do not fit. O(n log n) for n actions.
absl::StatusOr<ChainSchedule> ScheduleBlocks(const RecomputeTable& table,
                                             const std::vector<Block>& blocks);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_BLOCKS_H_
