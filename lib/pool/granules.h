// Where a request lies among granules, so that their memory can be moved: a large one has granules
// of its own, a small one is in one granule. Then what is live keeps no more granules from moving
// than its sizes rounded up to granules.
#ifndef TIDEPOOL_LIB_POOL_GRANULES_H_
#define TIDEPOOL_LIB_POOL_GRANULES_H_

#include <cstdint>

#include "lib/blocks/block_map.h"
#include "tidepool/placement.h"

namespace tidepool::pool {

class Granules {
 public:
  explicit Granules(std::int64_t bytes) : granule_(bytes) {}

  // What a request takes.
  std::int64_t Rounded(std::int64_t bytes) const { return bytes < granule_ ? bytes : Up(bytes); }
  // The first offset from `begin` on, and the last one for an end up to `end`, where `bytes` may
  // lie.
  std::int64_t FirstFit(std::int64_t begin, std::int64_t bytes) const {
    return IsWithinOne(begin, bytes) ? begin : Up(begin);
  }
  std::int64_t LastFit(std::int64_t end, std::int64_t bytes) const {
    if (IsWithinOne(end - bytes, bytes)) return end - bytes;
    return bytes < granule_ ? Down(end) - bytes : Down(end - bytes);
  }

 private:
  std::int64_t Up(std::int64_t offset) const { return (offset + granule_ - 1) & -granule_; }
  std::int64_t Down(std::int64_t offset) const { return offset & -granule_; }
  bool IsWithinOne(std::int64_t begin, std::int64_t bytes) const {
    return bytes < granule_ && Down(begin) == Down(begin + bytes - 1);
  }

  std::int64_t granule_;
};

// The free blocks in which a request finds such a place. A block is passed over when it is large
// enough but lies badly, a few times; then one is asked for that is larger by a granule. So an
// answer may be missed, and growing finds it.
class GranuleBlocks final : public FreeBlocks {
 public:
  GranuleBlocks(FreeBlocks& answers, blocks::BlockMap& blocks, const Granules& granules,
                std::int64_t granule)
      : answers_(answers), blocks_(blocks), granules_(granules), granule_(granule) {}

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

  // The placement of a policy that asked these blocks, moved to where the request may lie.
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

#endif  // TIDEPOOL_LIB_POOL_GRANULES_H_
