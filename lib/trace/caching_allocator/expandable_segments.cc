// SPDX-License-Identifier: Apache-2.0
// Expandable segments: finds the addresses to map, maps and unmaps.
#include "lib/trace/caching_allocator/expandable_segments.h"

#include <algorithm>

#include "lib/base/arithmetic.h"
#include "lib/trace/caching_allocator/rounding.h"

namespace tidepool::caching_allocator {
namespace {

// More than 8 PiB of memory, even where gaps divide it.
constexpr std::int64_t kAddressBytes = std::int64_t{1} << 58;

// Whether the blocks from `id` on have `bytes` before the first allocated one.
bool HasRoom(const Heap& heap, BlockId id, std::int64_t bytes) {
  while (bytes > 0 && id != kNoBlock && heap.block(id).state != Block::State::kAllocated) {
    bytes -= heap.block(id).bytes;
    id = heap.block(id).next;
  }
  return bytes <= 0;
}

// Returns the first block of the lowest run of free and unmapped blocks with `bytes`.
BlockId FindRoom(const Heap& heap, const Growth& growth, std::int64_t bytes) {
  const auto& unmapped = heap.pool(growth.is_small).unmapped;
  for (auto at = unmapped.lower_bound({.stream = growth.stream});
       at != unmapped.end() && at->stream == growth.stream; ++at) {
    const BlockId before = heap.block(at->id).previous;
    const bool begins_free = before != kNoBlock && heap.block(before).state == Block::State::kFree;
    const BlockId first = begins_free ? before : at->id;
    if (HasRoom(heap, first, bytes)) return first;
  }
  return kNoBlock;
}

bool HasSegment(const Heap& heap, const Growth& growth) {
  const auto& unmapped = heap.pool(growth.is_small).unmapped;
  const auto at = unmapped.lower_bound({.stream = growth.stream});
  return at != unmapped.end() && at->stream == growth.stream;
}

BlockId AddSegment(Heap& heap, const Growth& growth) {
  Block block;
  block.bytes = kAddressBytes / growth.granule * growth.granule;
  block.stream = growth.stream;
  block.is_small = growth.is_small;
  block.is_expandable = true;
  block.state = Block::State::kUnmapped;
  return heap.AddSegment(block);
}

// Maps at least `bytes` of an unmapped block, or all of it.
BlockId MapSome(Heap& heap, DeviceMemory& memory, BlockId id, const Growth& growth,
                std::int64_t bytes) {
  const std::int64_t mapped = RoundUp(std::min(bytes, heap.block(id).bytes), growth.granule);
  return memory.Take(mapped) ? heap.Map(id, mapped) : kNoBlock;
}

}  // namespace

BlockId Expand(Heap& heap, DeviceMemory& memory, const Growth& growth, std::int64_t bytes) {
  BlockId id = HasSegment(heap, growth) ? FindRoom(heap, growth, bytes) : AddSegment(heap, growth);
  if (id != kNoBlock && heap.block(id).state == Block::State::kUnmapped) {
    id = MapSome(heap, memory, id, growth, bytes);
  }
  // Free blocks are joined, so the next block is unmapped.
  while (id != kNoBlock && heap.block(id).bytes < bytes) {
    id = MapSome(heap, memory, heap.block(id).next, growth, bytes - heap.block(id).bytes);
  }
  return id;
}

std::int64_t ReachOf(const Heap& heap, BlockId id) {
  const Block& block = heap.block(id);
  const bool grows =
      block.next != kNoBlock && heap.block(block.next).state == Block::State::kUnmapped;
  return block.bytes + (grows ? heap.block(block.next).bytes : 0);
}

void UnmapBlock(Heap& heap, DeviceMemory& memory, BlockId id) {
  memory.GiveBack(heap.WholeGranules(heap.block(id)));
  const BlockId unmapped = heap.Unmap(id);
  if (heap.block(unmapped).IsWholeSegment()) heap.RemoveSegment(unmapped);
}

}  // namespace tidepool::caching_allocator
