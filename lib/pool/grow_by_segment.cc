// Memory in whole allocations of the device. A request that no free block serves gets a segment of
// its own or a larger one. What is free in segments in which something lives cannot be used for it;
// segments in which nothing does are given back for it when they stand in its way.
#include <algorithm>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

absl::StatusOr<Placement> PoolImpl::GrowBySegment(const Request& request, MemoryLock& memory,
                                                  GrowthState& state) {
  if (!arena_.blocks().HasNames(2)) {
    return absl::ResourceExhaustedError("an arena has no more names for blocks");
  }
  const std::int64_t missing = request.bytes - (options_.max_bytes - segments_.held_bytes());
  if (missing > 0) return GiveBackFor(SegmentsForBudget(missing), memory, state);
  const bool was_giving_back = segments_.HasHidden();
  const std::int64_t step = state.device_is_full ? 0 : std::max(GrowthStep(), LeastGrowth());
  const absl::StatusOr<BlockId> block = AddSegment(request.bytes, step, memory);
  if (absl::IsResourceExhausted(block.status())) {
    state.device_is_full = true;
    state.again = was_giving_back;
    absl::StatusOr<Placement> none = GiveBackFor(FreeSegments(), memory, state);
    if (!none.ok() || state.again) return none;
  }
  if (!block.ok()) return block.status();
  CountGrowth();
  return Placement::At(*block, arena_.blocks().offset(*block));
}

// Gives segments back to the device, so that a new one can come, or waits until another thread has.
// The thread looks once more then.
absl::StatusOr<Placement> PoolImpl::GiveBackFor(const std::vector<BlockId>& segments,
                                                MemoryLock& memory, GrowthState& state) {
  if (segments.empty() && !segments_.HasHidden()) return Placement::None();
  state.again = state.must_give_back = true;
  if (!state.gives_back) return Placement::None();
  for (const BlockId id : segments) SetAsideSegment(id);
  if (absl::Status status = GiveBackLeaving(memory); !status.ok()) return status;
  return Placement::None();
}

// Of `bytes`, for which there is budget, or of about `step` as far as budget and device allow it: a
// multiple of `bytes`, so that a few of them fill it.
absl::StatusOr<BlockId> PoolImpl::AddSegment(std::int64_t bytes, std::int64_t step,
                                             MemoryLock& memory) {
  const std::int64_t left = options_.max_bytes - segments_.held_bytes();
  std::int64_t wanted =
      std::min(std::max(bytes, (step + bytes - 1) / bytes * bytes), left / bytes * bytes);
  const auto take = [&] {
    return memory.WithoutBooks([&] { return device_.AllocateMemory(wanted); });
  };
  absl::StatusOr<void*> address = take();
  if (absl::IsResourceExhausted(address.status()) && wanted > bytes) {
    wanted = bytes;
    address = take();
  }
  if (!address.ok()) return address.status();
  NoteHighWater();
  return IncludeSegment(segments_.Add(*address, wanted));
}

// Takes a segment, and its fence, into the arena. Returns the free block that it is.
BlockId PoolImpl::IncludeSegment(const Range& segment) {
  blocks::BlockMap& blocks = arena_.blocks();
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
  const blocks::BlockMap& blocks = arena_.blocks();
  std::vector<BlockId> free_ones;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    const std::int64_t begin = blocks.offset(id);
    if (!blocks.used(id) && segments_.Contain({begin, begin + blocks.bytes(id)})) {
      free_ones.push_back(id);
    }
  }
  return free_ones;
}

// The smallest free segments that have `missing` bytes together. None when all have less.
std::vector<BlockId> PoolImpl::SegmentsForBudget(std::int64_t missing) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  // Often there is no need to look.
  if (blocks.capacity() - blocks.excluded_bytes() - blocks.live_bytes() < missing) return {};
  std::vector<BlockId> segments = FreeSegments();
  std::ranges::stable_sort(segments, {}, [&](BlockId id) { return blocks.bytes(id); });
  const auto end = std::ranges::find_if(segments, [&](BlockId id) {
    missing -= blocks.bytes(id);
    return missing <= 0;
  });
  if (end == segments.end()) return {};
  segments.erase(end + 1, segments.end());
  return segments;
}

// The last ones first, as long as `keep_bytes` stay.
void PoolImpl::SetAsideSegments(std::int64_t keep_bytes) {
  const std::vector<BlockId> segments = FreeSegments();
  std::int64_t left = segments_.held_bytes();
  for (auto id = segments.rbegin(); id != segments.rend(); ++id) {
    const std::int64_t bytes = arena_.blocks().bytes(*id);
    if (left - bytes < keep_bytes) continue;
    left -= bytes;
    SetAsideSegment(*id);
  }
}

void PoolImpl::SetAsideSegment(BlockId block) {
  const std::int64_t begin = arena_.blocks().offset(block);
  SetAside(block, {begin, begin + arena_.blocks().bytes(block)});
}

// Calls the device without any lock: cudaFree waits for all work of the device.
absl::Status PoolImpl::GiveBackSegment(const Range& segment, MemoryLock& memory) {
  void* const address = segments_.Hide(segment);
  absl::Status status = memory.WithoutBoth([&] { return device_.FreeMemory(address); });
  if (status.ok()) {
    NoteHighWater();
    segments_.Remove(segment);
  } else {
    segments_.Show(segment);
  }
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
