// SPDX-License-Identifier: Apache-2.0
// Pinning and unpinning: regions for a reserve or for one buffer, and back when nothing in them
// lives.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/pinned/host_memory.h"
#include "lib/pinned/pinned_pool_impl.h"

namespace tidepool::pinned {

using pool::Range;

// Buffers of so large a part of what a growth takes at least get a region of their size.
constexpr std::int64_t kLargePart = 4;

absl::Status PinnedPoolImpl::Reserve(std::int64_t bytes) {
  const pool::BackoffLock lock(locks_.books);
  if (bytes < 0 || bytes > options_.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "asked to hold ", bytes, " bytes, expected 0 to the budget, ", options_.max_bytes));
  }
  const pool::MemoryLock memory(locks_);
  absl::Status status = PinUntil(bytes);
  ServeWaiting();  // after an error too there may be more than before
  return status;
}

absl::Status PinnedPoolImpl::PinUntil(std::int64_t bytes) {
  const std::int64_t page = PageBytes(options_.pages);
  while (regions_.segments().held_bytes() < bytes) {
    if (!arena_.blocks().HasNames(2)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "too many blocks, expected at most ", arena_.blocks().max_blocks(), " in an arena"));
    }
    const std::int64_t missing = (bytes - regions_.segments().held_bytes() + page - 1) & -page;
    const std::int64_t wanted = std::min(missing, options_.most_region_bytes);
    const absl::StatusOr<BlockId> block = AddRegion(wanted, wanted);
    if (!block.ok()) return block.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<Placement> PinnedPoolImpl::Grow(std::int64_t bytes) {
  growth_error_.clear();
  const std::int64_t page = PageBytes(options_.pages);
  const std::int64_t needed = (bytes + page - 1) & -page;
  if (!options_.may_grow) {
    if (needed <= options_.max_bytes - regions_.segments().held_bytes()) {
      growth_error_ =
          "the pool is within its budget but may not grow in an allocation, expected may_grow, or "
          "Reserve at a time when pinning does no harm";
    }
    return Placement::None();
  }
  if (!arena_.blocks().HasNames(2)) {
    growth_error_ = absl::StrCat("an arena has at most ", arena_.blocks().max_blocks(), " blocks");
    return Placement::None();
  }
  const absl::StatusOr<bool> has_budget = MakeBudget(needed);
  if (!has_budget.ok()) return has_budget.status();
  if (!*has_budget) return Placement::None();
  const std::int64_t step = std::min(options_.growth_bytes & -page, options_.most_region_bytes);
  const std::int64_t left = options_.max_bytes - regions_.segments().held_bytes();
  const std::int64_t wanted =
      needed > step / kLargePart ? needed : std::max(needed, std::min(step, left));
  const absl::StatusOr<BlockId> block = AddRegion(needed, wanted);
  if (absl::IsResourceExhausted(block.status())) {  // until others free
    growth_error_ = std::string(block.status().message());
    return Placement::None();
  }
  if (!block.ok()) return block.status();
  ++stats_.growths;
  return Placement::At(*block, arena_.blocks().offset(*block));
}

// Of `wanted` bytes, or of `bytes` where there is no memory for more. Returns the free block that
// it is.
absl::StatusOr<BlockId> PinnedPoolImpl::AddRegion(std::int64_t bytes, std::int64_t wanted) {
  const absl::StatusOr<PinnedMemory> pinned = locks_.WithoutBooks([&] {
    absl::StatusOr<PinnedMemory> all = regions_.Pin(wanted);
    return absl::IsResourceExhausted(all.status()) && wanted > bytes ? regions_.Pin(bytes) : all;
  });
  if (!pinned.ok()) return pinned.status();
  const BlockId block = Include(regions_.Add(*pinned));
  NotePeakReserved();
  return block;
}

void PinnedPoolImpl::NotePeakReserved() {
  stats_.peak_reserved_bytes =
      std::max(stats_.peak_reserved_bytes, regions_.segments().held_bytes());
}

// Takes a region, and its fence, into the arena.
BlockId PinnedPoolImpl::Include(const pool::Range& region) {
  blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t added = blocks.capacity();
  const std::int64_t end = region.end + regions_.segments().fence_bytes();
  if (end > added) {
    blocks.Resize(end);
    blocks.Exclude(Placement::At(blocks.Last(), added), end - added);
  }
  return blocks.Include(ExcludedAt(region.begin), region.begin, region.end);
}

BlockId PinnedPoolImpl::ExcludedAt(std::int64_t offset) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  BlockId id = blocks.First();
  while (blocks.offset(id) + blocks.bytes(id) <= offset) id = blocks.Next(id);
  return id;
}

// Those in which nothing is live, in the order of offsets.
std::vector<BlockId> PinnedPoolImpl::FreeRegions() const {
  const blocks::BlockMap& blocks = arena_.blocks();
  std::vector<BlockId> free_ones;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    const std::int64_t begin = blocks.offset(id);
    if (!blocks.used(id) && regions_.segments().Contain({begin, begin + blocks.bytes(id)})) {
      free_ones.push_back(id);
    }
  }
  return free_ones;
}

// Gives back free regions, the smallest first, until there is budget for `bytes`. False, and none
// more is given back, when they are not enough.
absl::StatusOr<bool> PinnedPoolImpl::MakeBudget(std::int64_t bytes) {
  const blocks::BlockMap& blocks = arena_.blocks();
  for (;;) {
    const std::int64_t held = regions_.segments().held_bytes();
    const std::int64_t missing = bytes - (options_.max_bytes - held);
    if (missing <= 0) return true;
    // Often there is no need to look.
    if (held - blocks.live_bytes() < missing) return false;
    const std::vector<BlockId> free_ones = FreeRegions();
    std::int64_t free_bytes = 0;
    for (const BlockId id : free_ones) free_bytes += blocks.bytes(id);
    if (free_bytes < missing) return false;
    const BlockId smallest =
        *std::ranges::min_element(free_ones, {}, [&](BlockId id) { return blocks.bytes(id); });
    if (absl::Status status = GiveBackRegion(smallest); !status.ok()) return status;
  }
}

absl::StatusOr<std::int64_t> PinnedPoolImpl::Trim(std::int64_t keep_bytes) {
  const pool::BackoffLock lock(locks_.books);
  const pool::MemoryLock memory(locks_);
  const blocks::BlockMap& blocks = arena_.blocks();
  const pool::Segments& segments = regions_.segments();
  const std::int64_t held = segments.held_bytes();
  absl::Status status;
  std::int64_t end = blocks.capacity();  // of those that were not looked at
  while (status.ok()) {
    const std::vector<BlockId> free_ones = FreeRegions();
    const auto last = std::find_if(free_ones.rbegin(), free_ones.rend(), [&](BlockId id) {
      return blocks.offset(id) < end && segments.held_bytes() - blocks.bytes(id) >= keep_bytes;
    });
    if (last == free_ones.rend()) break;
    end = blocks.offset(*last);
    status = GiveBackRegion(*last);
  }
  ServeWaiting();  // there is budget to grow
  if (!status.ok()) return status;
  return held - segments.held_bytes();
}

// A free block that is one. It is out of the arena first, so that no other thread takes it.
absl::Status PinnedPoolImpl::GiveBackRegion(BlockId block) {
  blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.offset(block);
  const pool::Range region = {begin, begin + blocks.bytes(block)};
  blocks.Exclude(Placement::At(block, region.begin), region.bytes());
  void* const address = regions_.segments().Hide(region);
  absl::Status status =
      locks_.WithoutBooks([&] { return regions_.Unpin(address, region.bytes()); });
  if (status.ok()) {
    regions_.segments().Remove(region);
  } else {
    regions_.segments().Show(region);
    blocks.Include(ExcludedAt(begin), region.begin, region.end);
  }
  return status;
}

}  // namespace tidepool::pinned
