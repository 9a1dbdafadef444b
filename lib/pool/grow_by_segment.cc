// Memory in whole allocations of the device. A request that no free block serves gets a segment of
// its own or a larger one. What is free in segments in which something lives cannot be used for it;
// segments in which nothing does are given back for it when they stand in its way.
#include <algorithm>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

absl::StatusOr<Placement> PoolImpl::GrowBySegment(const Request& request) {
  if (!arena_.blocks().HasNames(2)) {
    return absl::ResourceExhaustedError("an arena has no more names for blocks");
  }
  const absl::StatusOr<bool> has_budget = MakeBudget(request.bytes);
  if (!has_budget.ok()) return has_budget.status();
  if (!*has_budget) return Placement::None();
  absl::StatusOr<BlockId> block = AddSegment(request.bytes, std::max(GrowthStep(), LeastGrowth()));
  if (absl::IsResourceExhausted(block.status()) && !FreeSegments().empty()) {
    if (absl::Status status = GiveBackSegments(0); !status.ok()) return status;
    block = AddSegment(request.bytes, 0);
  }
  if (!block.ok()) return block.status();
  CountGrowth();
  return Placement::At(*block, arena_.blocks().offset(*block));
}

// Of `bytes`, for which there is budget, or of about `step` as far as budget and device allow it: a
// multiple of `bytes`, so that a few of them fill it.
absl::StatusOr<BlockId> PoolImpl::AddSegment(std::int64_t bytes, std::int64_t step) {
  const std::int64_t left = options_.max_bytes - segments_.held_bytes();
  const std::int64_t wanted =
      std::min(std::max(bytes, (step + bytes - 1) / bytes * bytes), left / bytes * bytes);
  NoteHighWater();
  absl::StatusOr<Range> segment = segments_.Take(wanted);
  if (absl::IsResourceExhausted(segment.status()) && wanted > bytes) {
    segment = segments_.Take(bytes);
  }
  if (!segment.ok()) return segment.status();
  return Include(*segment);
}

// Takes a segment, and its fence, into the arena. Returns the free block that it is.
BlockId PoolImpl::Include(const Range& segment) {
  BlockMap& blocks = arena_.blocks();
  const std::int64_t added = blocks.capacity();
  const std::int64_t end = segment.end + segments_.fence_bytes();
  if (end > added) {
    blocks.Resize(end);
    blocks.Exclude(Placement::At(blocks.Last(), added), end - added);
  }
  return blocks.Include(BlockAt(segment.begin), segment.begin, segment.end);
}

// Those in which nothing is live, in the order of offsets.
std::vector<BlockId> PoolImpl::FreeSegments() const {
  const BlockMap& blocks = arena_.blocks();
  std::vector<BlockId> free_ones;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    const std::int64_t begin = blocks.offset(id);
    if (!blocks.used(id) && segments_.Contain({begin, begin + blocks.bytes(id)})) {
      free_ones.push_back(id);
    }
  }
  return free_ones;
}

// Gives back free segments, the smallest first, until there is budget for `bytes`. False, and none
// is given back, when they are not enough.
absl::StatusOr<bool> PoolImpl::MakeBudget(std::int64_t bytes) {
  const BlockMap& blocks = arena_.blocks();
  const std::int64_t missing = bytes - (options_.max_bytes - segments_.held_bytes());
  if (missing <= 0) return true;
  // Often there is no need to look.
  if (blocks.capacity() - blocks.excluded_bytes() - blocks.live_bytes() < missing) return false;
  std::vector<BlockId> free_ones = FreeSegments();
  std::int64_t free_bytes = 0;
  for (const BlockId id : free_ones) free_bytes += blocks.bytes(id);
  if (free_bytes < missing) return false;
  std::ranges::stable_sort(free_ones, {}, [&](BlockId id) { return blocks.bytes(id); });
  const std::int64_t held = segments_.held_bytes() - missing;
  for (const BlockId id : free_ones) {
    if (segments_.held_bytes() <= held) break;
    if (absl::Status status = GiveBackSegment(id); !status.ok()) return status;
  }
  return true;
}

absl::Status PoolImpl::GiveBackSegments(std::int64_t keep_bytes) {
  const std::vector<BlockId> free_ones = FreeSegments();
  for (auto id = free_ones.rbegin(); id != free_ones.rend(); ++id) {
    if (segments_.held_bytes() - arena_.blocks().bytes(*id) < keep_bytes) continue;
    if (absl::Status status = GiveBackSegment(*id); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// A free block that is one. Waits on the host for the work that last used it.
absl::Status PoolImpl::GiveBackSegment(BlockId block) {
  const std::int64_t begin = arena_.blocks().offset(block);
  const Range segment = {begin, begin + arena_.blocks().bytes(block)};
  absl::Status status = SynchronizeTickets(block, segment.begin, segment.end);
  if (!status.ok()) return status;
  NoteHighWater();
  status = segments_.GiveBack(segment);
  if (status.ok()) ExcludeFree(block, segment);
  return status;
}

std::int64_t PoolImpl::HighWater() const {
  const std::int64_t end = arena_.high_water();
  if (end == noted_end_) return noted_high_water_;
  return std::max(noted_high_water_, end - segments_.FenceBytesBefore(end));
}

void PoolImpl::NoteHighWater() {
  noted_high_water_ = HighWater();
  noted_end_ = arena_.high_water();
}

}  // namespace tidepool::pool
