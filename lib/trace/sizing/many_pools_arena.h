// SPDX-License-Identifier: Apache-2.0
// One arena that stands for pools of many sizes at once.
//
// Pools of all sizes have the same blocks except one: the gap, the free block of size pool - low -
// high between the blocks placed from the bottom up and those placed from the top down. A policy
// asks questions, and each answer depends on the pool size in at most one way: whether the gap is
// the block in question. So the arena answers for its smallest pool and keeps the set of pools for
// which every answer was the same. The caller makes another arena for the remaining pools.
//
// Addresses are those of a map so large that the gap is never used up. In the map the gap counts as
// used, so the map's indexes hold only the other free blocks. Free neighbours of the gap belong to
// it, even where it has no bytes.
#ifndef TIDEPOOL_LIB_TRACE_SIZING_MANY_POOLS_ARENA_H_
#define TIDEPOOL_LIB_TRACE_SIZING_MANY_POOLS_ARENA_H_

#include <cstdint>
#include <utility>

#include "absl/container/btree_set.h"
#include "lib/memory/blocks/block_map.h"
#include "lib/trace/sizing/pool_set.h"
#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"

namespace tidepool::sizing {

class ManyPoolsArena final : public FreeBlocks {
 public:
  // Returns enough addresses of the map for a trace of this load: an arena never places more than
  // the smallest pool that it stands for. Returns 0 when no map has names for that many blocks.
  static std::int64_t Addresses(const TraceLoad& load, std::int64_t alignment);

  // Stands for every pool in `pools`, which is not empty.
  ManyPoolsArena(PoolSet pools, std::int64_t addresses, std::int64_t alignment);
  ManyPoolsArena(const ManyPoolsArena&) = default;
  ManyPoolsArena& operator=(const ManyPoolsArena&) = delete;

  // Returns the pools, at least one.
  const PoolSet& pools() const { return pools_; }
  void set_pools(PoolSet pools) { pools_ = std::move(pools); }

  // Asks `policy` to place `request` for the smallest pool. Returns its placement, keeps the pools
  // that agree, and moves the pools that place it elsewhere into `others`. Places nothing.
  Placement Choose(const Request& request, PlacementPolicy& policy, PoolSet* others);

  // Returns whether the map has the addresses for `placement`.
  bool HasAddresses(const Placement& placement, std::int64_t bytes) const;
  // Places a request as chosen. All pools that the arena stands for agree.
  BlockId Allocate(const Placement& placement, std::int64_t bytes);
  void Free(BlockId block);

  // Return the largest free block except the gap, and the gap of the smallest pool, in bytes.
  std::int64_t LargestHole() const { return holes_.empty() ? 0 : holes_.rbegin()->bytes; }
  std::int64_t gap_bytes() const { return pools_.min() - PoolWithGap(0); }

  // Identifies the offset of a block: equal in two arenas exactly if the offset is equal for every
  // pool.
  std::int64_t address(BlockId block) const { return map_.offset(block); }

  BlockId SmallestFit(std::int64_t bytes) override;
  BlockId ExactFit(std::int64_t bytes) override;
  BlockId LowestFit(std::int64_t bytes) override;
  BlockId HighestFit(std::int64_t bytes) override;
  // Cannot answer: an offset means a different address in every pool. Sets `is_undetermined`.
  BlockId Covering(std::int64_t offset, std::int64_t bytes, Clue* clue) override;
  bool is_undetermined() const { return is_undetermined_; }

 private:
  // A free block other than the gap.
  struct Hole {
    std::int64_t bytes;
    std::int64_t offset;
    BlockId block;

    bool operator<(const Hole& other) const {
      return bytes != other.bytes ? bytes < other.bytes : offset < other.offset;
    }
  };

  Hole HoleOf(BlockId block) const { return {map_.bytes(block), map_.offset(block), block}; }
  // Returns the smallest hole of at least this many bytes, the lowest among equals; kNoBlock
  // without one.
  BlockId SmallestHole(std::int64_t bytes) const;
  // Adds `block` to the holes, or removes it, when it is free.
  void AddIfHole(BlockId block);
  void RemoveIfHole(BlockId block);
  BlockId AllocateInHole(const Placement& placement, std::int64_t bytes);
  BlockId ChooseGap(PoolInterval pools_with_gap, BlockId otherwise);
  bool IsBelowGap(BlockId block) const { return map_.offset(block) < map_.offset(gap_); }
  // Returns the size of the pool in which the gap has `gap_bytes`.
  std::int64_t PoolWithGap(std::int64_t gap_bytes) const {
    return map_.capacity() - map_.bytes(gap_) + gap_bytes;
  }

  blocks::BlockMap map_;
  BlockId gap_;
  // Replaces the map's own index by size, which suits one arena of many blocks. Here are thousands
  // of arenas of few blocks, and copying indexes would be the main cost.
  absl::btree_set<Hole> holes_;
  PoolSet pools_;
  PoolSet others_;  // pools that the answers to the current request split off
  bool is_undetermined_ = false;
};

}  // namespace tidepool::sizing

#endif  // TIDEPOOL_LIB_TRACE_SIZING_MANY_POOLS_ARENA_H_
