// SPDX-License-Identifier: Apache-2.0
// The free blocks of an arena that has few of them, in one unordered array.
//
// Training steps keep 6 to 40 free blocks. One pass over all of them, without a branch that depends
// on their sizes, finds the best fit sooner than the bins of the size index do, and a block that is
// cut or that grows is one store.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_FEW_BLOCKS_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_FEW_BLOCKS_H_

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

#include "lib/memory/blocks/geometry.h"
#include "tidepool/placement.h"

namespace tidepool::blocks {

// Each operation is O(kMost). Not thread-safe.
class FewBlocks {
 public:
  static constexpr int kMost = 64;

  // The array stays empty for an arena that it does not suit.
  explicit FewBlocks(const Geometry& geometry)
      : granule_shift_(geometry.granule_shift), address_bits_(geometry.address_bits) {
    Clear();
  }

  // Whether keys have room for the sizes and addresses of an arena. One of less than 2^29 granules,
  // 256 GiB at 512 bytes, is small enough.
  static bool Suits(const Geometry& geometry) {
    return 2 * geometry.address_bits + kSlotBits <= 64;
  }

  int count() const { return count_; }
  bool full() const { return count_ == kMost; }
  BlockId block(int slot) const { return blocks_[slot]; }  // of a slot below count()

  void Clear() {
    for (count_ = kMost; count_ > 0;) Empty(--count_);
  }
  // The array is not full.
  void Add(std::int64_t offset, std::int64_t bytes, BlockId block) {
    assert(!full());
    Set(count_++, offset, bytes, block);
  }
  // The blocks to remove and to replace are here.
  void Remove(BlockId block) {
    const int slot = SlotOf(block);
    --count_;
    keys_[slot] = (keys_[count_] & ~kSlotMask) | static_cast<unsigned>(slot);
    blocks_[slot] = blocks_[count_];
    Empty(count_);
  }
  void Replace(BlockId old_block, std::int64_t offset, std::int64_t bytes, BlockId block) {
    Set(SlotOf(old_block), offset, bytes, block);
  }

  // Returns the smallest block of at least `bytes`, which is positive, and the lowest one among
  // equals; or kNoBlock.
  BlockId SmallestFit(std::int64_t bytes) {
    if (Granules(bytes) >> address_bits_ != 0) [[unlikely]]
      return kNoBlock;
    // Modulo 2^64, blocks that are too small, and empty slots, are farther from the request than
    // any that fits.
    const std::uint64_t wanted = Key(0, bytes);
    std::uint64_t even = UINT64_MAX;
    std::uint64_t odd = UINT64_MAX;
    for (int begin = 0; begin < count_; begin += kStep) {
      for (int i = begin; i < begin + kStep; i += 2) {
        even = std::min(even, keys_[i] - wanted);
        odd = std::min(odd, keys_[i + 1] - wanted);
      }
    }
    last_ = static_cast<int>(std::min(even, odd) & kSlotMask);
    return keys_[last_] >= wanted ? blocks_[last_] : kNoBlock;
  }

  // Whether a block is here with this range.
  bool Holds(std::int64_t offset, std::int64_t bytes, BlockId block) const {
    const int slot = SlotOf(block);
    return slot < count_ && blocks_[slot] == block &&
           keys_[slot] == (Key(offset, bytes) | static_cast<unsigned>(slot));
  }

 private:
  static constexpr int kSlotBits = 6;
  static constexpr std::uint64_t kSlotMask = kMost - 1;
  static constexpr int kStep = 8;  // slots that are searched at once
  static_assert(kMost == 1 << kSlotBits);

  std::uint64_t Granules(std::int64_t bytes) const {
    return static_cast<std::uint64_t>(bytes) >> granule_shift_;
  }
  // (size, address, 0 for the slot), most significant first.
  std::uint64_t Key(std::int64_t offset, std::int64_t bytes) const {
    return (Granules(bytes) << address_bits_ | Granules(offset)) << kSlotBits;
  }
  void Set(int slot, std::int64_t offset, std::int64_t bytes, BlockId block) {
    keys_[slot] = Key(offset, bytes) | static_cast<unsigned>(slot);
    blocks_[slot] = block;
  }
  void Empty(int slot) { Set(slot, 0, 0, kNoBlock); }

  // Returns any slot for a block that is not here.
  int SlotOf(BlockId block) const {
    if (blocks_[last_] == block) return last_;
    int slot = 0;
    for (int begin = 0; begin < count_; begin += kStep) {
      for (int i = begin; i < begin + kStep; ++i) slot = blocks_[i] == block ? i : slot;
    }
    return slot;
  }

  int granule_shift_;
  int address_bits_;
  int count_ = 0;
  int last_ = 0;  // the last answer, which often is cut next
  alignas(64) std::array<std::uint64_t, kMost> keys_;
  alignas(64) std::array<BlockId, kMost> blocks_;
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_FEW_BLOCKS_H_
