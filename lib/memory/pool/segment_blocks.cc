// SPDX-License-Identifier: Apache-2.0
// A segment in which nothing is live is one free block, because fences keep it from its neighbours.
#include "lib/memory/pool/segment_blocks.h"

#include <algorithm>

namespace tidepool::pool {

BlockId BlockAt(const blocks::BlockMap& blocks, std::int64_t offset) {
  BlockId id = blocks.First();
  while (offset >= blocks.offset(id) + blocks.bytes(id)) id = blocks.Next(id);
  return id;
}

BlockId IncludeSegment(blocks::BlockMap& blocks, const Segments& segments, const Range& segment) {
  const std::int64_t added = blocks.capacity();
  const std::int64_t end = segment.end + segments.fence_bytes();
  if (end > added) {
    blocks.Resize(end);
    blocks.Exclude(Placement::At(blocks.Last(), added), end - added);
  }
  return blocks.Include(BlockAt(blocks, segment.begin), segment.begin, segment.end);
}

std::vector<BlockId> FreeSegments(const blocks::BlockMap& blocks, const Segments& segments) {
  std::vector<BlockId> free_segments;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    const std::int64_t begin = blocks.offset(id);
    if (!blocks.used(id) && segments.Contain({begin, begin + blocks.bytes(id)})) {
      free_segments.push_back(id);
    }
  }
  return free_segments;
}

std::vector<BlockId> SmallestFreeSegments(const blocks::BlockMap& blocks, const Segments& segments,
                                          std::int64_t missing) {
  // Less is often free altogether, and then no search is needed.
  if (blocks.capacity() - blocks.excluded_bytes() - blocks.live_bytes() < missing) return {};
  std::vector<BlockId> smallest = FreeSegments(blocks, segments);
  std::ranges::stable_sort(smallest, {}, [&](BlockId id) { return blocks.bytes(id); });
  const auto end = std::ranges::find_if(smallest, [&](BlockId id) {
    missing -= blocks.bytes(id);
    return missing <= 0;
  });
  if (end == smallest.end()) return {};
  smallest.erase(end + 1, smallest.end());
  return smallest;
}

}  // namespace tidepool::pool
