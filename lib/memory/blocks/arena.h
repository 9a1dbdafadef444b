// SPDX-License-Identifier: Apache-2.0
// One arena served by one policy: rounds requests up, asks the policy, keeps the high-water mark.
// Blocks are freed by offset, as a pool frees by pointer. Offsets only. Not thread-safe.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_ARENA_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_ARENA_H_

#include <algorithm>
#include <cstdint>

#include "lib/base/arithmetic.h"
#include "lib/memory/blocks/block_map.h"
#include "tidepool/placement.h"

namespace tidepool::blocks {

inline constexpr std::int64_t kNoOffset = -1;

class Arena {
 public:
  // `capacity` is cut to a multiple of `alignment`; the other limits are BlockMap's. `policy`
  // outlives the arena.
  Arena(std::int64_t capacity, std::int64_t alignment, PlacementPolicy& policy)
      : Arena(capacity, alignment, policy, capacity) {}
  // Makes an arena with a block map that may be resized up to `max_capacity`, cut to the alignment,
  // too.
  Arena(std::int64_t capacity, std::int64_t alignment, PlacementPolicy& policy,
        std::int64_t max_capacity)
      : blocks_(capacity & -alignment, alignment, max_capacity & -alignment),
        policy_(policy),
        policy_is_stateful_(policy.IsStateful()) {}

  // Returns the size of the block that serves `bytes`.
  std::int64_t Rounded(std::int64_t bytes) const { return AlignUp(bytes, blocks_.alignment()); }

  // Places 0 < `bytes` <= MaxArenaBytes(alignment). Returns kNoBlock, and changes nothing, when no
  // block fits.
  BlockId AllocateBlock(std::int64_t bytes, Hint hint) {
    const Request request{Rounded(bytes), hint};
    const Placement placement = policy_.Place(request, blocks_);
    return placement.block == kNoBlock ? kNoBlock : Take(placement, request.bytes);
  }

  // Performs AllocateBlock in two steps. `blocks` answers the policy instead of the arena's block
  // map, with blocks of this arena.
  Placement Place(const Request& request, FreeBlocks& blocks) {
    return policy_.Place(request, blocks);
  }
  BlockId Take(const Placement& placement, std::int64_t bytes) {
    const BlockId used = blocks_.Allocate(placement, bytes);
    high_water_ = std::max(high_water_, blocks_.offset(used) + bytes);
    peak_live_bytes_ = std::max(peak_live_bytes_, blocks_.live_bytes());
    if (policy_is_stateful_) policy_.OnPlaced(blocks_.offset(used), bytes);
    return used;
  }

  // Returns the free block that results.
  BlockId FreeBlock(BlockId used) {
    if (policy_is_stateful_) policy_.OnFree(blocks_.offset(used), blocks_.bytes(used));
    return blocks_.Free(used);
  }

  // Allocate and free by offset. `Allocate` returns kNoOffset when no block fits; `Free` returns
  // false, and changes nothing, when no used block begins at `offset`.
  std::int64_t Allocate(std::int64_t bytes, Hint hint) {
    const BlockId used = AllocateBlock(bytes, hint);
    return used == kNoBlock ? kNoOffset : blocks_.offset(used);
  }

  bool Free(std::int64_t offset) {
    if (policy_is_stateful_) {
      const BlockId used = blocks_.Find(offset);
      if (used == kNoBlock) return false;
      policy_.OnFree(offset, blocks_.bytes(used));
    }
    return blocks_.FreeAt(offset) != kNoBlock;
  }

  void Mark(std::string_view name) {
    if (policy_is_stateful_) policy_.OnMark(name);
  }

  BlockMap& blocks() { return blocks_; }
  const BlockMap& blocks() const { return blocks_; }
  std::int64_t high_water() const { return high_water_; }  // the highest end of any block so far
  std::int64_t peak_live_bytes() const { return peak_live_bytes_; }
  void ResetPeak() { peak_live_bytes_ = blocks_.live_bytes(); }

 private:
  BlockMap blocks_;
  PlacementPolicy& policy_;
  bool policy_is_stateful_;
  std::int64_t high_water_ = 0;
  std::int64_t peak_live_bytes_ = 0;
};

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_ARENA_H_
