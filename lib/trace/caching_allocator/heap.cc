// SPDX-License-Identifier: Apache-2.0
// Heap: splits and joins blocks, and keeps the indexes.
#include "lib/trace/caching_allocator/heap.h"

#include "lib/base/arithmetic.h"
#include "lib/trace/caching_allocator/rounding.h"

namespace tidepool::caching_allocator {

namespace {

BlockKey BySize(const Block& block, BlockId id) {
  return {block.stream, block.bytes, block.address, id};
}

BlockKey ByAddress(const Block& block, BlockId id) { return {block.stream, 0, block.address, id}; }

}  // namespace

std::int64_t Heap::GranuleOf(const Block& block) const {
  return block.is_small ? kSmallSegment : large_granule_;
}

// Returns the offset of the first granule that begins in a block. Segments begin at address 0.
std::int64_t Heap::FirstGranule(const Block& block) const {
  return RoundUp(block.address, GranuleOf(block)) - block.address;
}

std::int64_t Heap::WholeGranules(const Block& block) const {
  if (block.bytes < GranuleOf(block)) return 0;
  const std::int64_t rest = block.bytes - FirstGranule(block);
  return rest <= 0 ? 0 : rest / GranuleOf(block) * GranuleOf(block);
}

bool Heap::IsReleasable(const Block& block) const {
  return block.is_expandable ? WholeGranules(block) > 0 : block.IsWholeSegment();
}

void Heap::Enter(BlockId id) {
  const Block& block = blocks_[id];
  Pool& pool = PoolOf(id);
  if (block.state == Block::State::kUnmapped) {
    pool.unmapped.insert(ByAddress(block, id));
    return;
  }
  blocks_[id].searches_before = pool.searches;
  pool.free.insert(BySize(block, id));
  if (IsReleasable(block)) ++pool.releasable;
}

void Heap::Leave(BlockId id) {
  const Block& block = blocks_[id];
  Pool& pool = PoolOf(id);
  if (block.state == Block::State::kUnmapped) {
    pool.unmapped.erase(ByAddress(block, id));
    return;
  }
  pool.free.erase(BySize(block, id));
  if (IsReleasable(block)) --pool.releasable;
}

BlockId Heap::Settle(BlockId id, Block::State state) {
  blocks_[id].state = state;
  if (const BlockId next = blocks_[id].next; IsIn(next, state)) {
    Leave(next);
    blocks_.JoinNext(id);
  }
  if (const BlockId previous = blocks_[id].previous; IsIn(previous, state)) {
    Leave(previous);
    blocks_.JoinNext(previous);
    id = previous;
  }
  Enter(id);
  return id;
}

BlockId Heap::AddSegment(const Block& block) {
  const BlockId id = blocks_.Add(block);
  Enter(id);
  return id;
}

void Heap::RemoveSegment(BlockId id) {
  Leave(id);
  blocks_.Remove(id);
}

void Heap::Allocate(BlockId id, std::int64_t bytes) {
  Leave(id);
  if (bytes < blocks_[id].bytes) Enter(blocks_.Split(id, bytes));
  blocks_[id].state = Block::State::kAllocated;
}

void Heap::Free(BlockId id) { Settle(id, Block::State::kFree); }

BlockId Heap::Map(BlockId id, std::int64_t bytes) {
  Leave(id);
  if (bytes < blocks_[id].bytes) Enter(blocks_.Split(id, bytes));
  return Settle(id, Block::State::kFree);
}

BlockId Heap::Unmap(BlockId id) {
  const std::int64_t before = FirstGranule(blocks_[id]);
  const std::int64_t bytes = WholeGranules(blocks_[id]);
  Leave(id);
  BlockId unmapped = id;
  if (before > 0) {
    unmapped = blocks_.Split(id, before);
    Enter(id);
  }
  if (bytes < blocks_[unmapped].bytes) Enter(blocks_.Split(unmapped, bytes));
  return Settle(unmapped, Block::State::kUnmapped);
}

}  // namespace tidepool::caching_allocator
