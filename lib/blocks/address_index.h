// Free blocks by address, with the largest size in each subtree: the lowest and the highest block
// that fits, and the block that covers a range, in O(log n).
#ifndef TIDEPOOL_LIB_BLOCKS_ADDRESS_INDEX_H_
#define TIDEPOOL_LIB_BLOCKS_ADDRESS_INDEX_H_

#include <cstdint>

#include "lib/blocks/entry_tree.h"
#include "lib/blocks/geometry.h"

namespace tidepool::blocks {

class AddressIndex {
 public:
  explicit AddressIndex(const Geometry& geometry) : geometry_(geometry) {}

  void Insert(std::int64_t offset, std::int64_t bytes, BlockId block) {
    tree_.Insert(Entry(offset, block), bytes, nodes_);
  }
  void Erase(std::int64_t offset, BlockId block) { tree_.Erase(Entry(offset, block), nodes_); }
  // Moves, resizes or renames a block that stays between the same two neighbours.
  void Replace(std::int64_t old_offset, BlockId old_block, std::int64_t offset, std::int64_t bytes,
               BlockId block) {
    tree_.Replace(Entry(old_offset, old_block), Entry(offset, block), bytes, nodes_);
  }

  BlockId LowestFit(std::int64_t bytes) const { return BlockOf(tree_.FirstWithValue(bytes)); }
  BlockId HighestFit(std::int64_t bytes) const { return BlockOf(tree_.LastWithValue(bytes)); }
  // The last block that begins at or before `offset`.
  BlockId AtOrBelow(std::int64_t offset) const {
    return BlockOf(
        tree_.AtOrBelow(Entry(offset, static_cast<BlockId>(geometry_.max_blocks() - 1))));
  }

  bool Contains(std::int64_t offset, BlockId block) const {
    return tree_.AtOrAbove(Entry(offset, block)) == Entry(offset, block);
  }
  // Whether the tree is well-formed and holds `entries` entries. O(n).
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

  Geometry geometry_;
  EntryTree<MapLeaf> tree_;
  EntryNodePool<MapLeaf> nodes_;
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_BLOCKS_ADDRESS_INDEX_H_
