// SPDX-License-Identifier: Apache-2.0
// The blocks of an arena with memory in segments: each segment lies between excluded fences.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_SEGMENT_BLOCKS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_SEGMENT_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "lib/memory/blocks/block_map.h"
#include "lib/memory/pool/range.h"
#include "lib/memory/pool/segments.h"

namespace tidepool::pool {

// Returns the block that holds an offset of the arena. O(blocks).
BlockId BlockAt(const blocks::BlockMap& blocks, std::int64_t offset);

// Takes a new segment and its fence into the arena. Returns the free block that the segment is.
// O(blocks).
BlockId IncludeSegment(blocks::BlockMap& blocks, const Segments& segments, const Range& segment);

// Returns the segments in which nothing is live, in the order of offsets. O(blocks).
std::vector<BlockId> FreeSegments(const blocks::BlockMap& blocks, const Segments& segments);

// Returns the smallest free segments that have `missing` bytes together; none when all free
// segments have less. O(blocks log blocks).
std::vector<BlockId> SmallestFreeSegments(const blocks::BlockMap& blocks, const Segments& segments,
                                          std::int64_t missing);

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_SEGMENT_BLOCKS_H_
