// SPDX-License-Identifier: Apache-2.0
// Heap: the blocks of all segments, linked with their neighbours, and indexed as PyTorch's pools
// index them.
#ifndef TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_HEAP_H_
#define TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_HEAP_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_set.h"
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

// Place of a block in an index.
struct BlockKey {
  std::uint32_t stream = 0;
  std::int64_t bytes = 0;  // 0 in an index by address
  std::int64_t address = 0;
  BlockId id = 0;

  bool operator<(const BlockKey& other) const {
    if (stream != other.stream) return stream < other.stream;
    if (bytes != other.bytes) return bytes < other.bytes;
    return address != other.address ? address < other.address : id < other.id;
  }
};

// The blocks of one pool, small or large, that are not allocated.
struct Pool {
  absl::btree_set<BlockKey> free;      // by stream, size and address
  absl::btree_set<BlockKey> unmapped;  // by stream and address
  std::int64_t releasable = 0;         // number of free blocks that Heap::IsReleasable names
  std::int64_t searches = 0;           // for a free block; the clock of the garbage collection
};

// Two free neighbours are never left unjoined, nor are two unmapped ones. A copy is independent.
// Not thread-safe.
class Heap {
 public:
  // `granule`: the unit of expandable segments in the pool of large blocks.
  explicit Heap(std::int64_t granule) : large_granule_(granule) {}

  const Block& block(BlockId id) const { return blocks_[id]; }
  Pool& pool(bool is_small) { return is_small ? small_ : large_; }
  const Pool& pool(bool is_small) const { return is_small ? small_ : large_; }
  // Upper bound of the names of blocks.
  std::size_t size() const { return blocks_.size(); }

  // Adds a segment of one block in the state of `block`.
  BlockId AddSegment(const Block& block);
  // Removes a segment that is one block, which is not allocated.
  void RemoveSegment(BlockId id);

  // Marks a free block as allocated. `bytes` of it are used; the rest becomes a free block.
  void Allocate(BlockId id, std::int64_t bytes);
  // Frees an allocated block, and joins it with its neighbours.
  void Free(BlockId id);

  // Gives the first `bytes` of an unmapped block memory, and returns the free block of which they
  // are a part.
  BlockId Map(BlockId id, std::int64_t bytes);
  // Returns the bytes of whole granules in a block.
  std::int64_t WholeGranules(const Block& block) const;
  // Whether the device can get memory of a free block back.
  bool IsReleasable(const Block& block) const;
  // Takes the memory of the whole granules of a free block. Returns the unmapped block of which
  // they are a part. WholeGranules is not 0.
  BlockId Unmap(BlockId id);

 private:
  Pool& PoolOf(BlockId id) { return pool(blocks_[id].is_small); }
  std::int64_t GranuleOf(const Block& block) const;
  std::int64_t FirstGranule(const Block& block) const;
  bool IsIn(BlockId id, Block::State state) const {
    return id != kNoBlock && blocks_[id].state == state;
  }
  // Enters a block that is not allocated into the indexes, or leaves them.
  void Enter(BlockId id);
  void Leave(BlockId id);
  // Sets the state of a block in no index, joins it with neighbours of that state, and enters it.
  BlockId Settle(BlockId id, Block::State state);

  std::int64_t large_granule_;
  BlockList blocks_;
  Pool small_;
  Pool large_;
};

}  // namespace tidepool::caching_allocator

#endif  // TIDEPOOL_LIB_TRACE_CACHING_ALLOCATOR_HEAP_H_
