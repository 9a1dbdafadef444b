// SPDX-License-Identifier: Apache-2.0
// An index of free blocks by address, with the largest size in each subtree. Finds the lowest and
// the highest block that fits, and the block that covers a range, in O(log n).
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_ADDRESS_INDEX_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_ADDRESS_INDEX_H_

#include <cstdint>
#include <utility>

#include "lib/memory/blocks/entry_tree.h"
#include "lib/memory/blocks/geometry.h"

namespace tidepool::blocks {

class AddressIndex {
 public:
  explicit AddressIndex(const Geometry& geometry) : geometry_(geometry) {}

  void Insert(std::int64_t offset, std::int64_t bytes, BlockId block) {
    answer_ = kNoEntry;
    tree_.Insert(Entry(offset, block), bytes, nodes_);
  }
  void Erase(std::int64_t offset, BlockId block) {
    const FreeEntry entry = Entry(offset, block);
    tree_.Erase(PathTo(entry), entry, nodes_);
  }
  // Moves, resizes or renames a block that stays between the same two neighbours.
  void Replace(std::int64_t old_offset, BlockId old_block, std::int64_t offset, std::int64_t bytes,
               BlockId block) {
    const FreeEntry old_entry = Entry(old_offset, old_block);
    tree_.Replace(PathTo(old_entry), old_entry, Entry(offset, block), bytes, nodes_);
  }

  // Returns the largest size of any block, or 0.
  std::int64_t LargestBytes() const { return tree_.LargestValue(); }
  BlockId LowestFit(std::int64_t bytes) {
    answer_ = tree_.FirstWithValue(bytes, path_);
    return BlockOf(answer_);
  }
  BlockId HighestFit(std::int64_t bytes) {
    answer_ = tree_.LastWithValue(bytes, path_);
    return BlockOf(answer_);
  }
  // Returns the last block that begins at or before `offset`.
  BlockId AtOrBelow(std::int64_t offset) const {
    return BlockOf(
        tree_.AtOrBelow(Entry(offset, static_cast<BlockId>(geometry_.max_blocks() - 1))));
  }

  bool Contains(std::int64_t offset, BlockId block) const {
    return tree_.AtOrAbove(Entry(offset, block)) == Entry(offset, block);
  }
  // Returns whether the tree is well-formed and holds `entries` entries. O(n).
  bool IsValid(std::int64_t entries) const {
    return tree_.IsValid() && tree_.CountEntries() == entries;
  }

 private:
  FreeEntry Entry(std::int64_t offset, BlockId block) const {
    return geometry_.Granules(offset) << geometry_.block_bits | block;
  }
  BlockId BlockOf(FreeEntry entry) const {
    return entry == kNoEntry ? kNoBlock : geometry_.BlockOf(entry);
  }

  using Tree = EntryTree<MapLeaf>;

  // Returns the path to an entry that is about to change. It is often known already: an allocation
  // changes the block that the last question found.
  Tree::Path& PathTo(FreeEntry entry) {
    if (std::exchange(answer_, kNoEntry) != entry) tree_.FindPath(entry, path_);
    return path_;
  }

  Geometry geometry_;
  Tree tree_;
  EntryNodePool<MapLeaf> nodes_;
  FreeEntry answer_ = kNoEntry;  // the entry at the end of path_, unless the tree has changed since
  Tree::Path path_;
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_ADDRESS_INDEX_H_
