// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/memory_map.h"

#include <algorithm>

namespace tidepool::modnn {

MemoryMap::MemoryMap(std::int64_t capacity, std::int64_t alignment)
    : blocks_(capacity, alignment), policy_(MakePlacementPolicy("exact-fit-first").value()) {}

MemoryMap::MemoryMap(const MemoryMap& other)
    : blocks_(other.blocks_), policy_(other.policy_), owners_(other.owners_) {}

Placement MemoryMap::Place(std::int64_t bytes) { return policy_->Place({.bytes = bytes}, blocks_); }

std::optional<MemoryMap::Block> MemoryMap::Allocate(std::int64_t bytes, std::size_t owner) {
  const Placement placement = Place(bytes);
  if (placement.block == kNoBlock) return std::nullopt;
  const Block block = blocks_.Allocate(placement, bytes);
  if (owners_.size() <= block) owners_.resize(block + 1);
  owners_[block] = owner;
  return block;
}

void MemoryMap::Free(Block block, double free_from) {
  const Pending freed = {Offset(block), Offset(block) + Bytes(block), free_from};
  std::erase_if(pending_, [&](const Pending& one) {
    return freed.begin <= one.begin && one.end <= freed.end && one.free_from <= free_from;
  });
  pending_.push_back(freed);
  blocks_.Free(block);
}

void MemoryMap::Forget(double now) {
  std::erase_if(pending_, [&](const Pending& one) { return one.free_from <= now; });
}

double MemoryMap::FreeFrom(std::int64_t begin, std::int64_t end) const {
  double from = 0;
  for (const Pending& one : pending_) {
    if (one.begin < end && begin < one.end) from = std::max(from, one.free_from);
  }
  return from;
}

std::optional<double> MemoryMap::FreeFromFor(std::int64_t bytes) {
  const Placement placement = Place(bytes);
  if (placement.block == kNoBlock) return std::nullopt;
  const std::int64_t begin = blocks_.OffsetOf(placement, bytes);
  return FreeFrom(begin, begin + bytes);
}

}  // namespace tidepool::modnn
