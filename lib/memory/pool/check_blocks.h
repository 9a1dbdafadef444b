// SPDX-License-Identifier: Apache-2.0
// CheckBlocks: whether the blocks of a pool agree with its memory and its counts.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_CHECK_BLOCKS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_CHECK_BLOCKS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "lib/memory/blocks/block_map.h"
#include "lib/memory/pool/range.h"

namespace tidepool::pool {

// The limit and the count that the blocks must agree with.
struct BlockCounts {
  std::int64_t max_bytes = 0;
  std::int64_t live_count = 0;
};

// Returns the first contradiction as an Internal error. `bytes_in(range)` returns how much of a
// range of offsets has memory; `check_live(block)` checks a live block further. O(blocks log
// blocks).
absl::Status CheckBlocks(const blocks::BlockMap& blocks, const BlockCounts& counts,
                         const std::function<std::int64_t(const Range&)>& bytes_in,
                         const std::function<absl::Status(BlockId)>& check_live);

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_CHECK_BLOCKS_H_
