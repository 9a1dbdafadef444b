// SPDX-License-Identifier: Apache-2.0
// A hash table that finds the used block at an offset: block names, four bytes a slot.
//
// A bucket of four slots is compared at once, without a branch. A slot holds a name, five bits of
// its hash and whether its own bucket was full, so a look-up rarely looks at a wrong block. At the
// load limit few buckets overflow into the next, so branches are predictable. Free blocks are not
// in the table: an allocation adds one name and a free removes one, regardless of splits and
// merges.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_START_TABLE_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_START_TABLE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/memory/blocks/block.h"
#include "lib/memory/blocks/four_lanes.h"
#include "lib/memory/blocks/geometry.h"

namespace tidepool::blocks {

class StartTable {
 public:
  StartTable() : buckets_(kFewestBuckets) {}

  // All O(1) on average. `blocks` is the array that the names index.
  BlockId Find(std::int64_t offset, const std::vector<Block>& blocks) const {
    return SlotOf(offset, blocks).block;
  }

  // Inserts `block`, which begins at `offset`. No other block in the table begins there.
  void Insert(BlockId block, std::int64_t offset, const std::vector<Block>& blocks) {
    if (++size_ * 5 > buckets_.size() * kBucket * 2) [[unlikely]]
      Grow(blocks);
    Place(block, Hash(offset));
  }

  // Removes the block that begins at `offset`. Returns it, or kNoBlock without such a block.
  BlockId Take(std::int64_t offset, const std::vector<Block>& blocks) {
    const Slot slot = SlotOf(offset, blocks);
    if (slot.block == kNoBlock) [[unlikely]]
      return kNoBlock;
    --size_;
    Bucket& bucket = buckets_[slot.bucket];
    const bool was_full = bucket.Empty() == 0;
    bucket.slots[slot.at] = kEmpty;
    if (was_full && buckets_[Next(slot.bucket)].MayHoldOthers()) [[unlikely]]
      PullBack(Next(slot.bucket), blocks);
    return slot.block;
  }

  std::int64_t size() const { return static_cast<std::int64_t>(size_); }

 private:
  static constexpr int kTagBits = 32 - kMaxBlockBits;
  static constexpr std::uint32_t kTagMask = (1U << kTagBits) - 1;
  static constexpr std::uint32_t kDisplaced = 1;  // in a tag: the slot is not in its own bucket
  static constexpr std::uint32_t kEmpty = ~kDisplaced;  // no name: an arena has fewer blocks
  static constexpr int kBucket = 4;
  static constexpr std::size_t kFewestBuckets = 16;

  // The answers are bit sets of slots.
  struct alignas(16) Bucket {
    std::uint32_t slots[kBucket] = {kEmpty, kEmpty, kEmpty, kEmpty};

    unsigned Empty() const { return EqualLanes(slots, ~std::uint32_t{0}, kEmpty); }
    unsigned Displaced() const { return EqualLanes(slots, kDisplaced, kDisplaced); }
    // Returns whether names that belong in an earlier bucket may be here or in later buckets.
    bool MayHoldOthers() const { return Displaced() != 0 || Empty() == 0; }
    // Returns the slots with this tag that are not empty.
    unsigned WithTag(std::uint32_t tag) const {
      return EqualLanes(slots, kTagMask, tag) & ~Empty();
    }
  };

  static std::uint64_t Hash(std::int64_t offset) {
    const std::uint64_t mixed = static_cast<std::uint64_t>(offset) * 0x9E3779B97F4A7C15;
    return (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93;
  }
  std::size_t Home(std::uint64_t hash) const { return hash >> home_shift_; }
  static std::uint32_t Tag(std::uint64_t hash) { return hash & (kTagMask & ~kDisplaced); }
  std::size_t Mask() const { return buckets_.size() - 1; }
  std::size_t Next(std::size_t bucket) const { return (bucket + 1) & Mask(); }

  struct Slot {
    BlockId block;  // kNoBlock: no slot holds it
    int at;         // in the bucket
    std::size_t bucket;
  };

  Slot SlotOf(std::int64_t offset, const std::vector<Block>& blocks) const {
    const std::uint64_t hash = Hash(offset);
    std::uint32_t tag = Tag(hash);
    for (std::size_t bucket = Home(hash);; bucket = Next(bucket), tag |= kDisplaced) {
      for (unsigned found = buckets_[bucket].WithTag(tag); found != 0; found &= found - 1) {
        const int at = std::countr_zero(found);
        const BlockId block = buckets_[bucket].slots[at] >> kTagBits;
        if (blocks[block].offset() == offset) [[likely]]
          return {block, at, bucket};
      }
      if (buckets_[bucket].Empty() != 0) return {kNoBlock, 0, bucket};
    }
  }

  void Place(BlockId block, std::uint64_t hash) {
    std::uint32_t slot = block << kTagBits | Tag(hash);
    std::size_t at = Home(hash);
    while (buckets_[at].Empty() == 0) [[unlikely]] {
        at = Next(at);
        slot |= kDisplaced;
      }
    buckets_[at].slots[std::countr_zero(buckets_[at].Empty())] = slot;
  }

  // Moves names back after the bucket before `at` lost a name: a look-up would now stop there, and
  // miss the names that were displaced into the buckets from `at` on.
  [[gnu::noinline]] void PullBack(std::size_t at, const std::vector<Block>& blocks) {
    for (bool was_full = true; was_full; at = Next(at)) {
      was_full = buckets_[at].Empty() == 0;
      for (std::uint32_t& slot : buckets_[at].slots) {
        if (slot == kEmpty || (slot & kDisplaced) == 0) continue;
        const BlockId block = slot >> kTagBits;
        slot = kEmpty;
        Place(block, Hash(blocks[block].offset()));
      }
    }
  }

  [[gnu::noinline]] void Grow(const std::vector<Block>& blocks) {
    std::vector<Bucket> old(buckets_.size() * 2);
    old.swap(buckets_);
    --home_shift_;
    for (const Bucket& bucket : old) {
      for (const std::uint32_t slot : bucket.slots) {
        const BlockId block = slot >> kTagBits;
        if (slot != kEmpty) Place(block, Hash(blocks[block].offset()));
      }
    }
  }

  std::vector<Bucket> buckets_;  // 2^(64 - home_shift_) of them
  int home_shift_ = 64 - std::countr_zero(kFewestBuckets);
  std::size_t size_ = 0;
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_START_TABLE_H_
