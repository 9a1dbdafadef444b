// SPDX-License-Identifier: Apache-2.0
// Granules: where a request may lie among granules, so that their memory can be moved.
//
// A large request has granules of its own, and a small one lies within one granule. So live memory
// keeps no more granules from moving than its sizes, rounded up to granules, have.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_GRANULES_H_
#define TIDEPOOL_LIB_MEMORY_POOL_GRANULES_H_

#include <cstdint>

#include "lib/base/arithmetic.h"
#include "lib/memory/blocks/block_map.h"
#include "tidepool/placement.h"

namespace tidepool::pool {

class Granules {
 public:
  // Without granules a request may lie anywhere.
  Granules() = default;
  explicit Granules(std::int64_t bytes) : granule_(bytes) {}

  bool has_any() const { return granule_ != kNone; }
  std::int64_t bytes() const { return granule_; }
  // Returns the bytes that a request takes.
  std::int64_t Rounded(std::int64_t bytes) const { return bytes < granule_ ? bytes : Up(bytes); }
  // Return the first offset from `begin` on, and the last one for an end up to `end`, where a
  // request of `bytes` may lie.
  std::int64_t FirstFit(std::int64_t begin, std::int64_t bytes) const {
    return IsWithinOne(begin, bytes) ? begin : Up(begin);
  }
  std::int64_t LastFit(std::int64_t end, std::int64_t bytes) const {
    if (IsWithinOne(end - bytes, bytes)) return end - bytes;
    return bytes < granule_ ? Down(end) - bytes : Down(end - bytes);
  }

 private:
  std::int64_t Up(std::int64_t offset) const { return AlignUp(offset, granule_); }
  std::int64_t Down(std::int64_t offset) const { return offset & -granule_; }
  bool IsWithinOne(std::int64_t begin, std::int64_t bytes) const {
    return bytes < granule_ && Down(begin) == Down(begin + bytes - 1);
  }

  static constexpr std::int64_t kNone = std::int64_t{1} << 62;  // larger than any offset

  std::int64_t granule_ = kNone;
};

// The free blocks in which a request may lie. A few blocks that are large enough but lie badly are
// passed over; then a block is asked for that is larger by a granule. So an answer may be missed:
// the pool then grows, or moves granules to a place for the request.
class GranuleBlocks final : public FreeBlocks {
 public:
  GranuleBlocks(FreeBlocks& answers, blocks::BlockMap& blocks, const Granules& granules)
      : answers_(answers), blocks_(blocks), granules_(granules), granule_(granules.bytes()) {}

  BlockId SmallestFit(std::int64_t bytes) override {
    BlockId block = answers_.SmallestFit(bytes);
    for (int tries = 0; tries < kMostTries && block != kNoBlock; ++tries) {
      if (Fits(block, bytes)) return block;
      block = blocks_.NextBySize(block);
    }
    return block == kNoBlock ? kNoBlock : answers_.SmallestFit(bytes + granule_);
  }
  BlockId ExactFit(std::int64_t bytes) override {
    const BlockId block = answers_.ExactFit(bytes);
    return Fits(block, bytes) ? block : kNoBlock;
  }
  BlockId LowestFit(std::int64_t bytes) override {
    const BlockId block = answers_.LowestFit(bytes);
    return block == kNoBlock || Fits(block, bytes) ? block : answers_.LowestFit(bytes + granule_);
  }
  BlockId HighestFit(std::int64_t bytes) override {
    const BlockId block = answers_.HighestFit(bytes);
    return block == kNoBlock || Fits(block, bytes) ? block : answers_.HighestFit(bytes + granule_);
  }
  BlockId Covering(std::int64_t offset, std::int64_t bytes, Clue* clue) override {
    return granules_.FirstFit(offset, bytes) == offset ? answers_.Covering(offset, bytes, clue)
                                                       : kNoBlock;
  }

  // Moves the placement of a policy that asked these blocks to offsets where the request may lie.
  Placement Adjusted(const Placement& placement, std::int64_t bytes) const {
    if (placement.block == kNoBlock) return placement;
    const std::int64_t begin = blocks_.offset(placement.block);
    const std::int64_t first = granules_.FirstFit(begin, bytes);
    if (placement.where == Placement::Where::kLowEnd) {
      return Placement::At(placement.block, first);
    }
    if (placement.where == Placement::Where::kOffset) return placement;
    const std::int64_t last = granules_.LastFit(begin + blocks_.bytes(placement.block), bytes);
    return Placement::At(placement.block, last < begin ? first : last);
  }

 private:
  static constexpr int kMostTries = 8;

  bool Fits(BlockId block, std::int64_t bytes) const {
    if (block == kNoBlock) return false;
    const std::int64_t begin = blocks_.offset(block);
    return granules_.FirstFit(begin, bytes) + bytes <= begin + blocks_.bytes(block);
  }

  FreeBlocks& answers_;
  blocks::BlockMap& blocks_;
  const Granules& granules_;
  std::int64_t granule_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_GRANULES_H_
