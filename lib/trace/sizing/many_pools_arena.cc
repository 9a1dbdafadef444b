// SPDX-License-Identifier: Apache-2.0
// Answers questions of policies for pools of many sizes at once.
#include "lib/trace/sizing/many_pools_arena.h"

#include <utility>

#include "lib/memory/blocks/geometry.h"

namespace tidepool::sizing {

std::int64_t ManyPoolsArena::Addresses(const TraceLoad& load, std::int64_t alignment) {
  const std::int64_t most = blocks::MaxArenaBytes(alignment);
  const std::int64_t addresses =
      (load.peak_live_bytes > most / 8 ? most : load.peak_live_bytes * 8) & -alignment;
  const blocks::Geometry geometry(addresses, alignment);
  return 2 * load.peak_live_count + 8 < geometry.max_blocks() ? addresses : 0;
}

ManyPoolsArena::ManyPoolsArena(PoolSet pools, std::int64_t addresses, std::int64_t alignment)
    : map_(addresses, alignment),
      gap_(map_.Allocate(Placement::LowEnd(map_.First()), addresses)),
      pools_(std::move(pools)) {}

Placement ManyPoolsArena::Choose(const Request& request, PlacementPolicy& policy, PoolSet* others) {
  const Placement placement = policy.Place(request, *this);
  *others = std::exchange(others_, PoolSet());
  return placement;
}

bool ManyPoolsArena::HasAddresses(const Placement& placement, std::int64_t bytes) const {
  return placement.block != gap_ || map_.bytes(gap_) > bytes;
}

BlockId ManyPoolsArena::Allocate(const Placement& placement, std::int64_t bytes) {
  if (placement.block != gap_) return AllocateInHole(placement, bytes);
  const BlockId free = map_.Free(gap_);
  const BlockId used =
      map_.Allocate(placement.where == Placement::Where::kHighEnd ? Placement::HighEnd(free)
                                                                  : Placement::LowEnd(free),
                    bytes);
  const BlockId rest =
      placement.where == Placement::Where::kHighEnd ? map_.Previous(used) : map_.Next(used);
  gap_ = map_.Allocate(Placement::LowEnd(rest), map_.bytes(rest));
  return used;
}

BlockId ManyPoolsArena::AllocateInHole(const Placement& placement, std::int64_t bytes) {
  holes_.erase(HoleOf(placement.block));
  const BlockId used = map_.Allocate(placement, bytes);
  AddIfHole(map_.Previous(used));
  AddIfHole(map_.Next(used));
  return used;
}

void ManyPoolsArena::Free(BlockId block) {
  RemoveIfHole(map_.Previous(block));
  RemoveIfHole(map_.Next(block));
  const BlockId free = map_.Free(block);
  if (map_.Previous(free) != gap_ && map_.Next(free) != gap_) {
    holes_.insert(HoleOf(free));
    return;
  }
  const BlockId merged = map_.Free(gap_);
  gap_ = map_.Allocate(Placement::LowEnd(merged), map_.bytes(merged));
}

void ManyPoolsArena::AddIfHole(BlockId block) {
  if (block != kNoBlock && !map_.used(block)) holes_.insert(HoleOf(block));
}

void ManyPoolsArena::RemoveIfHole(BlockId block) {
  if (block != kNoBlock && !map_.used(block)) holes_.erase(HoleOf(block));
}

BlockId ManyPoolsArena::SmallestHole(std::int64_t bytes) const {
  const auto hole = holes_.lower_bound({.bytes = bytes, .offset = 0, .block = kNoBlock});
  return hole == holes_.end() ? kNoBlock : hole->block;
}

// Answers with the gap when the smallest pool is in `pools_with_gap`, else with the other block.
BlockId ManyPoolsArena::ChooseGap(PoolInterval pools_with_gap, BlockId otherwise) {
  const bool takes_gap = pools_with_gap.begin <= pools_.min() && pools_.min() < pools_with_gap.end;
  // Most often all pools agree, and then nothing needs to be computed.
  if (takes_gap ? pools_.end() <= pools_with_gap.end
                : pools_.end() <= pools_with_gap.begin || pools_with_gap.end <= pools_.min()) {
    return takes_gap ? gap_ : otherwise;
  }
  PoolSet with_gap = pools_.Intersection(pools_with_gap);
  PoolSet without_gap = pools_.Without(pools_with_gap);
  others_ = others_.Union(takes_gap ? without_gap : with_gap);
  pools_ = takes_gap ? std::move(with_gap) : std::move(without_gap);
  return takes_gap ? gap_ : otherwise;
}

BlockId ManyPoolsArena::SmallestFit(std::int64_t bytes) {
  const BlockId hole = SmallestHole(bytes);
  const std::int64_t begin = PoolWithGap(bytes);
  if (hole == kNoBlock) return ChooseGap({begin, kUnbounded}, kNoBlock);
  // The lower block of two equal ones is better.
  const std::int64_t tie = IsBelowGap(hole) ? 0 : map_.alignment();
  return ChooseGap({begin, PoolWithGap(map_.bytes(hole)) + tie}, hole);
}

BlockId ManyPoolsArena::ExactFit(std::int64_t bytes) {
  BlockId hole = SmallestHole(bytes);
  if (hole != kNoBlock && map_.bytes(hole) != bytes) hole = kNoBlock;
  if (hole != kNoBlock && IsBelowGap(hole)) return hole;
  return ChooseGap({PoolWithGap(bytes), PoolWithGap(bytes) + map_.alignment()}, hole);
}

BlockId ManyPoolsArena::LowestFit(std::int64_t bytes) {
  const BlockId hole = map_.LowestFit(bytes);
  if (hole != kNoBlock && IsBelowGap(hole)) return hole;
  return ChooseGap({PoolWithGap(bytes), kUnbounded}, hole);
}

BlockId ManyPoolsArena::HighestFit(std::int64_t bytes) {
  const BlockId hole = map_.HighestFit(bytes);
  if (hole != kNoBlock && !IsBelowGap(hole)) return hole;
  return ChooseGap({PoolWithGap(bytes), kUnbounded}, hole);
}

BlockId ManyPoolsArena::Covering(std::int64_t /*offset*/, std::int64_t /*bytes*/, Clue* /*clue*/) {
  is_undetermined_ = true;
  return kNoBlock;
}

}  // namespace tidepool::sizing
