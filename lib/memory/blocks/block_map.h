// SPDX-License-Identifier: Apache-2.0
// The blocks of one arena in address order, split on allocation and merged on free, and the indexes
// that answer a policy's questions.
//
// All state is in the list. An index (by size, by address, by start) exists from the first question
// that needs it, and is kept up to date from then on. So a policy pays only for its own questions,
// and copying a map copies only blocks. An index is dropped when clues answered all questions for
// long. Offsets only: nothing here is dereferenced. Not thread-safe.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_BLOCK_MAP_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_BLOCK_MAP_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "lib/memory/blocks/address_index.h"
#include "lib/memory/blocks/block.h"
#include "lib/memory/blocks/few_blocks.h"
#include "lib/memory/blocks/geometry.h"
#include "lib/memory/blocks/size_index.h"
#include "lib/memory/blocks/start_table.h"
#include "tidepool/placement.h"

namespace tidepool::blocks {

class BlockMap final : public FreeBlocks {
 public:
  // Makes one free block of `capacity` bytes, or no block when it is 0. `capacity` is a multiple of
  // `alignment`, a power of two, and at most MaxArenaBytes(alignment).
  BlockMap(std::int64_t capacity, std::int64_t alignment)
      : BlockMap(capacity, alignment, capacity) {}
  // Makes a map that may be resized up to `max_capacity`, which has the same limits.
  BlockMap(std::int64_t capacity, std::int64_t alignment, std::int64_t max_capacity);

  // A copy has the same blocks with the same names, and no index yet.
  BlockMap(const BlockMap& other);
  BlockMap& operator=(const BlockMap&) = delete;

  // Makes `bytes` (a positive multiple of the alignment) of a free block used, as `placement` says,
  // which must be possible. Returns the used block. The arena must have fewer than max_blocks() - 2
  // blocks before.
  BlockId Allocate(const Placement& placement, std::int64_t bytes);
  // Returns the offset at which `bytes` would begin.
  std::int64_t OffsetOf(const Placement& placement, std::int64_t bytes) const;
  // Frees a used block and merges it with free neighbours. Returns the resulting free block.
  BlockId Free(BlockId block);
  // Cuts a used block to its first `bytes`, a multiple of the alignment, and returns a used block
  // with the rest. Needs a name, which ReserveNames may have kept for it.
  BlockId SplitUsed(BlockId block, std::int64_t bytes);
  // Frees the used block that begins at `offset`. Returns kNoBlock when there is no such block.
  BlockId FreeAt(std::int64_t offset);
  // Removes `bytes` of a free block from the arena, as `placement` says. They are neither free nor
  // used, and answer no question, until they are included again. Excluded neighbours become one
  // block. Returns the excluded block.
  BlockId Exclude(const Placement& placement, std::int64_t bytes);
  // Makes [begin, end) of an excluded block free and merges it with free neighbours; free blocks
  // that are not merged keep their names. Returns the resulting free block.
  BlockId Include(BlockId excluded, std::int64_t begin, std::int64_t end);
  // Moves the end of the arena to `capacity`, a multiple of the alignment up to the maximum. The
  // removed part must be free; the added part is free and merges with a free block before it.
  void Resize(std::int64_t capacity);

  BlockId SmallestFit(std::int64_t bytes) override;
  BlockId ExactFit(std::int64_t bytes) override;
  BlockId LowestFit(std::int64_t bytes) override;
  BlockId HighestFit(std::int64_t bytes) override;
  using FreeBlocks::Covering;
  // Drops indexes that no question used while clues answered for long.
  BlockId Covering(std::int64_t offset, std::int64_t bytes, Clue* clue) override;

  // Returns the next free block after `block`, a free one, in the order of (size, address), or
  // kNoBlock.
  BlockId NextBySize(BlockId block);
  // Returns the largest free block, or kNoBlock.
  BlockId Largest();
  // Returns the size of the largest free block, or 0. O(1) while there is an index of free blocks,
  // O(blocks) otherwise.
  std::int64_t LargestBytes() const;
  // Returns the used block that begins at `offset`, or kNoBlock. O(1).
  BlockId Find(std::int64_t offset);

  std::int64_t offset(BlockId id) const { return blocks_[id].offset(); }
  std::int64_t bytes(BlockId id) const { return offset(blocks_[id].next) - offset(id); }
  // Returns whether the block is neither free nor excluded.
  bool used(BlockId id) const { return blocks_[id].used(); }
  bool excluded(BlockId id) const { return excluded_.contains(id); }

  // The blocks in address order: `for (id = First(); id != kNoBlock; id = Next(id))`.
  BlockId First() const { return Next(kFront); }
  BlockId Next(BlockId id) const { return blocks_[id].next == kBack ? kNoBlock : blocks_[id].next; }
  BlockId Last() const { return Previous(kBack); }
  BlockId Previous(BlockId id) const {
    return blocks_[id].previous == kFront ? kNoBlock : blocks_[id].previous;
  }

  std::int64_t capacity() const { return offset(kBack); }
  std::int64_t alignment() const { return alignment_; }
  std::int64_t live_bytes() const { return live_bytes_; }
  std::int64_t excluded_bytes() const { return excluded_bytes_; }
  // Returns the number of blocks that the arena's geometry can name: at least 2^20.
  std::int64_t max_blocks() const { return geometry_.max_blocks(); }
  // Returns whether there are enough names for an allocation, a resize, and `more` calls of Exclude
  // or Include, with all their splits, beside those that are reserved. O(1).
  bool HasNames(std::int64_t more = 0) const {
    const std::int64_t taken = static_cast<std::int64_t>(blocks_.size()) - spares_;
    return taken + 4 + 2 * more + reserved_names_ < geometry_.max_blocks();
  }
  // Keeps names for `splits` calls of SplitUsed, in place of those that were kept before.
  void ReserveNames(std::int64_t splits) { reserved_names_ = splits; }

  // Returns whether most names are not in use, so that Shrink may give back much memory of the
  // host.
  bool HasManySpares() const { return spares_ >= shrink_at_; }
  // Returns the number of names that are not in use.
  std::int64_t spares() const { return spares_; }
  // Gives back the memory of all names above the highest in use, and of the indexes until a
  // question needs them. Lower names are used first from then on. Returns the number of names that
  // are left; blocks keep theirs. O(names).
  std::size_t Shrink();

  // Checks that blocks tile the arena, no two neighbours are free, each index equals the list, and
  // live bytes are the sum of used blocks. Returns an Internal error that names the first
  // violation. O(n log n).
  absl::Status CheckInvariants() const;

 private:
  // Two used blocks of no bytes bound the list, so that every other block has two neighbours.
  static constexpr BlockId kFront = 0;
  static constexpr BlockId kBack = 1;

  BlockId AllocateOfFew(BlockId id, std::int64_t wanted);
  BlockId MergeOfFew(BlockId id);
  bool IndexesFewAlone() const { return is_few_ && by_address_ == nullptr; }
  BlockId Cut(const Placement& placement, std::int64_t bytes);
  BlockId Merge(BlockId block);
  BlockId Split(BlockId block, std::int64_t bytes);
  void AbsorbNext(BlockId block);

  // Shrinking is worth while from this number of spare names on.
  static constexpr std::int64_t kFewestToShrink = 4096;
  // The map is shrunk when one of this number of names is in use.
  static constexpr std::int64_t kSparse = 8;

  // The reason for a free block's current range.
  enum Change { kFreed, kCut };

  void IndexFree(BlockId id, Change change);
  void UnindexFree(BlockId id);
  void ReindexFree(BlockId old_id, std::int64_t old_offset, std::int64_t old_bytes, BlockId id,
                   Change change);
  void HoldBack(BlockId id, Change change);
  bool RenameHeld(BlockId old_id, BlockId id);
  [[gnu::noinline]] void InsertBySize(BlockId id);
  [[gnu::noinline]] void EraseBySize(std::int64_t offset, std::int64_t bytes, BlockId id);
  [[gnu::noinline]] void InsertByAddress(BlockId id);
  [[gnu::noinline]] void EraseByAddress(BlockId id);
  [[gnu::noinline]] void ReplaceByAddress(std::int64_t old_offset, BlockId old_id, BlockId id);

  // The quality of a free block for a request.
  struct Fit {
    BlockId block;
    std::uint64_t excess;  // modulo 2^64, so that a block that is too small comes last
    std::int64_t offset;
  };
  Fit FitOf(BlockId id, std::int64_t wanted) const {
    return {id, static_cast<std::uint64_t>(bytes(id) - wanted), offset(id)};
  }
  // The smaller block is better, and the lower one among equals.
  static bool IsBetter(const Fit& a, const Fit& b) {
    return a.excess < b.excess || (a.excess == b.excess && a.offset < b.offset);
  }

  std::pair<std::int64_t, std::int64_t> SizeAndOffset(BlockId id) const {
    return {bytes(id), offset(id)};
  }
  // The answers of the array of few blocks and of the index by size.
  BlockId SmallestOfFew(std::int64_t bytes);
  BlockId LargestOfFew() const;
  BlockId NextOfFew(BlockId block) const;
  BlockId SmallestIndexed(std::int64_t bytes);
  BlockId NextIndexed(BlockId block);
  BlockId LargestBySize() const;

  BlockId CoveringByClue(std::int64_t begin, std::int64_t end, const Clue& clue);
  [[gnu::noinline]] void DropIndexes();

  SizeIndex& by_size() {
    answers_by_clue_ = 0;
    if (by_size_ == nullptr) [[unlikely]]
      MakeSizeIndex();
    return *by_size_;
  }
  StartTable& by_start() {
    if (by_start_ == nullptr) [[unlikely]]
      MakeStartTable();
    return *by_start_;
  }
  AddressIndex& by_address() {
    answers_by_clue_ = 0;
    if (by_address_ == nullptr) [[unlikely]]
      MakeAddressIndex();
    return *by_address_;
  }
  // Not inlined: rare code would cost each call registers.
  [[gnu::noinline]] void MakeSpare();
  [[gnu::noinline]] void MakeSizeIndex();
  [[gnu::noinline]] void MoveToFew();
  [[gnu::noinline]] void MoveToSizeIndex();
  [[gnu::noinline]] void MakeAddressIndex();
  [[gnu::noinline]] void MakeStartTable();

  absl::Status CheckList() const;
  absl::Status CheckIndexes() const;
  std::int64_t Count(bool used_ones) const;

  Geometry geometry_;
  std::int64_t alignment_;
  std::int64_t live_bytes_ = 0;
  std::vector<Block> blocks_;
  absl::flat_hash_set<BlockId> excluded_;
  std::int64_t excluded_bytes_ = 0;
  BlockId spare_ = kNoBlock;  // head of the list, through `next`, of reusable names
  std::int64_t spares_ = 0;   // its length
  std::int64_t shrink_at_ = kFewestToShrink;
  std::int64_t reserved_names_ = 0;
  // The block that was freed last and the block that was cut last. They are held back from the
  // index by size, because the next operations often change them again: a queue frees into the
  // first and allocates from the second. kFront, which has no bytes, stands for no block.
  std::array<BlockId, 2> held_ = {kFront, kFront};
  std::unique_ptr<SizeIndex> by_size_;
  // When a question finds this number of free blocks or fewer in the index by size, they move to
  // the array, where they stay as long as it has room. None do in an arena that is too large for
  // it.
  const std::int64_t few_enough_;
  bool is_few_ = false;
  FewBlocks few_;
  std::unique_ptr<AddressIndex> by_address_;
  std::unique_ptr<StartTable> by_start_;  // used blocks
  std::size_t answers_by_clue_ = 0;       // since the last question to an index of free blocks
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_BLOCK_MAP_H_
