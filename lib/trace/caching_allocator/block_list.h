// SPDX-License-Identifier: Apache-2.0
// Blocks of all segments. Neighbours in a segment are linked, in the order of addresses.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_BLOCK_LIST_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_BLOCK_LIST_H_

#include <cstdint>
#include <vector>

#include "tidepool/placement.h"

namespace tidepool::caching_allocator {

struct Block {
  enum class State : std::uint8_t {
    kFree,
    kAllocated,
    kUnmapped,  // addresses of an expandable segment without memory
  };

  std::int64_t address = 0;  // each expandable segment has an address space of its own
  std::int64_t bytes = 0;
  std::int64_t searches_before = 0;  // Pool::searches when the block became free
  BlockId previous = kNoBlock;
  BlockId next = kNoBlock;
  std::uint32_t stream = 0;
  bool is_small = false;  // in the pool of small blocks
  bool is_expandable = false;
  State state = State::kFree;

  bool IsWholeSegment() const { return previous == kNoBlock && next == kNoBlock; }
};

// Blocks by name. A copy has the same names.
class BlockList {
 public:
  const Block& operator[](BlockId id) const { return blocks_[id]; }
  Block& operator[](BlockId id) { return blocks_[id]; }

  // Adds a segment of one block.
  BlockId Add(const Block& block) {
    if (unused_.empty()) {
      blocks_.push_back(block);
      return static_cast<BlockId>(blocks_.size() - 1);
    }
    const BlockId id = unused_.back();
    unused_.pop_back();
    blocks_[id] = block;
    return id;
  }

  // Removes a block that is linked to no other.
  void Remove(BlockId id) { unused_.push_back(id); }

  // Cuts a block after `bytes`, and returns the block of the rest, which is equal otherwise.
  BlockId Split(BlockId id, std::int64_t bytes) {
    const Block& whole = blocks_[id];
    const Block rest = {.address = whole.address + bytes,
                        .bytes = whole.bytes - bytes,
                        .searches_before = whole.searches_before,
                        .previous = id,
                        .next = whole.next,
                        .stream = whole.stream,
                        .is_small = whole.is_small,
                        .is_expandable = whole.is_expandable,
                        .state = whole.state};
    const BlockId added = Add(rest);
    if (rest.next != kNoBlock) blocks_[rest.next].previous = added;
    blocks_[id].bytes = bytes;
    blocks_[id].next = added;
    return added;
  }

  // Joins a block with the next one, which is removed.
  void JoinNext(BlockId id) {
    const BlockId joined = blocks_[id].next;
    blocks_[id].bytes += blocks_[joined].bytes;
    blocks_[id].next = blocks_[joined].next;
    if (blocks_[id].next != kNoBlock) blocks_[blocks_[id].next].previous = id;
    Remove(joined);
  }

  // Upper bound of all names.
  std::size_t size() const { return blocks_.size(); }

 private:
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;
};

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_BLOCK_LIST_H_
