// Memory from the device: where it goes, and how much at a time.
#include <algorithm>
#include <bit>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

// Makes room for a request that no free block serves. Looks for a place each time the lock was
// released, because other threads free meanwhile. No block when the budget or the device does not
// allow it.
absl::StatusOr<Placement> PoolImpl::Grow(const Request& request, Stream stream, Lock& lock) {
  std::unique_lock giving_back(give_back_mutex_, std::defer_lock);
  MemoryLock memory(memory_mutex_, lock);
  GrowthState state;
  for (;;) {
    TakeBackLeaving();
    const absl::StatusOr<Timeline*> timeline = FindStream(stream);
    if (!timeline.ok()) return timeline.status();
    if (!arena_.blocks().HasNames()) {
      growth_error_ =
          absl::StrCat("an arena has at most ", arena_.blocks().max_blocks(), " blocks");
      return Placement::None();
    }
    const Placement placement = Place(request, **timeline);
    if (placement.block != kNoBlock) return placement;
    absl::StatusOr<Placement> grown = GrowOnce(request, memory, state);
    if (!grown.ok() || !state.again) return grown;
    if (state.must_give_back && !state.gives_back) {
      memory.WithoutBoth([&] {
        giving_back.lock();
        return true;
      });
      state.gives_back = true;
    }
  }
}

absl::StatusOr<Placement> PoolImpl::GrowOnce(const Request& request, MemoryLock& memory,
                                             GrowthState& state) {
  state.again = false;
  growth_error_.clear();
  absl::StatusOr<Placement> placement = options_.memory == PoolMemory::kSegments
                                            ? GrowBySegment(request, memory, state)
                                            : GrowInPlace(request, memory, state);
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, HeldBytes());
  if (!absl::IsResourceExhausted(placement.status())) return placement;
  growth_error_ = std::string(placement.status().message());
  return Placement::None();
}

// Whether growth could serve a request of so many bytes. When not, nothing is lost by not trying.
bool PoolImpl::MayGrow(std::int64_t bytes) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  if (options_.max_bytes - blocks.live_bytes() < bytes) return false;
  if (options_.memory == PoolMemory::kSegments || options_.remap) return true;
  return blocks.capacity() - blocks.excluded_bytes() < options_.max_bytes;
}

void PoolImpl::CountGrowth() {
  ++stats_.growths;
  allocations_at_growth_ = stats_.allocations;
}

// Of virtual memory: where there is none, among what is free.
absl::StatusOr<Placement> PoolImpl::GrowInPlace(const Request& request, MemoryLock& memory,
                                                GrowthState& state) {
  if (absl::Status status = RetryGivingBack(memory); !status.ok()) return status;
  DropAliases(memory);
  std::optional<Room> room = FindRoom(request.bytes);
  if (!room.has_value()) {
    if (aliases_.empty() || state.awaited_aliases) return Placement::None();
    // The old addresses of what was moved are in the way, as long as work may use them.
    if (absl::Status status = AwaitAliases(memory); !status.ok()) return status;
    state.awaited_aliases = state.again = true;
    return Placement::None();
  }
  const Range range = room->range;
  const std::int64_t held = backing_.held_bytes();
  const absl::StatusOr<BlockId> block = options_.remap
                                            ? FillByMoving(*std::move(room), false, memory)
                                            : Fill(*std::move(room), memory);
  if (backing_.held_bytes() > held) CountGrowth();
  if (!block.ok()) return block.status();
  if (*block == kNoBlock) return Placement::None();
  // Another thread may have taken a free part of the room.
  state.again = !IsFree(*block, range);
  return Placement::At(*block, range.begin);
}

absl::Status PoolImpl::RetryGivingBack(MemoryLock& memory) {
  if (!backing_.HasUnfinished()) return absl::OkStatus();
  return memory.WithoutBooks([this] { return backing_.Retry(); });
}

bool PoolImpl::IsFree(BlockId block, const Range& range) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  return !blocks.used(block) && blocks.offset(block) <= range.begin &&
         range.end <= blocks.offset(block) + blocks.bytes(block);
}

// The lowest addresses with nothing live in between. As long as nothing was excluded they are at
// the end, because no free block serves the request.
std::optional<Room> PoolImpl::FindRoom(std::int64_t bytes) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  BlockId id = blocks.First();
  if (blocks.excluded_bytes() == 0) id = FreeOrNone(blocks.Last());
  Room room;
  std::int64_t begin = -1;  // of the stretch
  for (; id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.used(id) && !blocks.excluded(id)) {
      begin = -1;
      continue;
    }
    if (begin < 0) begin = blocks.offset(id);
    room = {RangeFrom(begin, bytes), id, {}};
    if (room.range.end <= blocks.offset(id) + blocks.bytes(id)) break;
  }
  if (id == kNoBlock) room = {RangeFrom(begin < 0 ? blocks.capacity() : begin, bytes), id, {}};
  if (backing_.Rounded(room.range.end) > backing_.reserved_bytes()) return std::nullopt;
  room.gaps = Gaps(room.range);
  return room;
}

// The first addresses from `begin` on that a request may have.
Backing::Range PoolImpl::RangeFrom(std::int64_t begin, std::int64_t bytes) const {
  for (;;) {
    const std::int64_t fit = options_.remap ? granules_.FirstFit(begin, bytes) : begin;
    const std::int64_t unusable = backing_.EndOfUnusable({fit, backing_.Rounded(fit + bytes)});
    if (unusable < 0) return {fit, fit + bytes};
    begin = unusable;
  }
}

// The parts without memory, in the order of addresses, in whole granules.
std::vector<Gap> PoolImpl::Gaps(const Backing::Range& range) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t first = range.begin & -device_.granularity();
  const std::int64_t end = backing_.Rounded(range.end);
  std::vector<Gap> gaps;
  if (blocks.excluded_bytes() > 0) {
    for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
      const Backing::Range gap = {std::max(blocks.offset(id), first),
                                  std::min(blocks.offset(id) + blocks.bytes(id), end)};
      if (blocks.excluded(id) && gap.begin < gap.end) gaps.emplace_back().range = gap;
    }
  }
  const std::int64_t tail = std::max(backing_.Rounded(blocks.capacity()), first);
  if (tail < end) gaps.emplace_back().range = {tail, end};
  return gaps;
}

// Fills the gaps of a room with new memory: one free block. At the end of the range it takes more
// than the gap when the pool grows often, so that the calls of the device are few.
absl::StatusOr<BlockId> PoolImpl::Fill(Room room, MemoryLock& memory) {
  const blocks::BlockMap& blocks = arena_.blocks();
  std::int64_t included = std::max(room.range.end, blocks.capacity()) - blocks.excluded_bytes();
  for (const Gap& gap : room.gaps) {
    if (gap.range.begin < blocks.capacity()) included += gap.range.bytes();
  }
  const std::int64_t excess = included - options_.max_bytes;
  if (excess > 0 && !CanCutOffEnd(room, excess)) return kNoBlock;
  if (room.gaps.empty()) return Include(room);
  std::int64_t& end = room.gaps.back().range.end;
  const std::int64_t needed = end;
  if (end > blocks.capacity()) {
    const std::int64_t step = std::min(GrowthStep() - (room.range.end - blocks.capacity()),
                                       options_.max_bytes - included);
    end = std::clamp(backing_.Rounded(room.range.end + step), end, backing_.reserved_bytes());
  }
  // The end is cut off first, so that no other thread takes it meanwhile.
  const std::int64_t old_end = blocks.capacity();
  if (excess > 0) CutOffEnd(excess);
  absl::Status status = MapGaps(room, memory);
  // What the device did not unmap again is in the way of another try.
  if (absl::IsResourceExhausted(status) && end > needed && !backing_.HasUnfinished()) {
    end = needed;
    status = MapGaps(room, memory);
  }
  if (status.ok()) return Include(room);
  if (excess > 0) Extend(old_end, {}, {});
  return status;
}

// Whether the arena can go without its last `excess` bytes, for a room elsewhere. When the budget
// is no whole number of granules, they are what the last granule has too many.
bool PoolImpl::CanCutOffEnd(const Room& room, std::int64_t excess) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  const BlockId last = FreeOrNone(blocks.Last());
  const std::int64_t end = blocks.capacity() - excess;
  return last != kNoBlock && blocks.offset(last) <= end && room.range.end <= end &&
         backing_.Rounded(end) == backing_.Rounded(blocks.capacity());
}

// Its memory stays, and work may still use it.
void PoolImpl::CutOffEnd(std::int64_t excess) {
  const blocks::BlockMap& blocks = arena_.blocks();
  const Range end = {blocks.capacity() - excess, blocks.capacity()};
  for (const Ticket& ticket : TicketsIn(blocks.Last(), end)) AddTicket(cut_off_tickets_, ticket);
  CutOut(blocks.Last(), end);
}

absl::Status PoolImpl::MapGaps(const Room& room, MemoryLock& memory) {
  std::vector<Backing::Range> ranges;
  std::int64_t bytes = backing_.held_bytes();
  for (const Gap& gap : room.gaps) {
    ranges.push_back(gap.range);
    bytes += gap.range.bytes();
  }
  return memory.WithoutBooks(
      [&] { return backing_.Map(ranges, options_.remap ? 1 : bytes / kPieces); });
}

// Takes the gaps of a room, which have memory by now, into the arena. Returns the free block that
// the end of the room is in.
BlockId PoolImpl::Include(const Room& room) {
  BlockId merged = room.block;
  for (const auto& [range, tickets] : room.gaps) merged = Include(range, tickets);
  const bool is_inside = room.range.end <= arena_.blocks().capacity();
  return is_inside ? merged : Extend(room.range.end, {}, {});
}

// Takes a range that has memory into the arena, as free, under the tickets of the work that may
// still use it. Returns the free block that it is in.
BlockId PoolImpl::Include(const Range& range, const Tickets& tickets) {
  blocks::BlockMap& blocks = arena_.blocks();
  if (range.begin >= blocks.capacity()) return Extend(range.end, range, tickets);
  const BlockId id = BlockAt(range.begin);
  const BlockId before =
      range.begin == blocks.offset(id) ? FreeOrNone(blocks.Previous(id)) : kNoBlock;
  const BlockId after =
      range.end == blocks.offset(id) + blocks.bytes(id) ? FreeOrNone(blocks.Next(id)) : kNoBlock;
  const BlockId merged = blocks.Include(id, range.begin, range.end);
  if (crossing_) {
    tickets_.Merge(before, range.begin, range.end, tickets, after, merged, UINT64_MAX);
  }
  return merged;
}

// Moves the end of the arena to `end`, rounded up to whole granules as far as the budget allows it.
// Work of the tickets may still use `range`. Returns the free block at the end.
BlockId PoolImpl::Extend(std::int64_t end, const Range& range, const Tickets& tickets) {
  blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.capacity();
  BlockId before = FreeOrNone(blocks.Last());
  blocks.Resize(std::min(backing_.Rounded(end), options_.max_bytes + blocks.excluded_bytes()));
  const BlockId merged = blocks.Last();
  const auto add_tickets = [&](const Range& used, const Tickets& users) {
    if (!crossing_ || users.empty() || used.begin >= used.end) return;
    tickets_.Merge(before, used.begin, used.end, users, kNoBlock, merged, UINT64_MAX);
    before = merged;
  };
  const std::int64_t cut_off_end = backing_.Rounded(begin);
  add_tickets({begin, std::min(cut_off_end, blocks.capacity())}, cut_off_tickets_);
  if (blocks.capacity() >= cut_off_end) cut_off_tickets_.clear();
  add_tickets({std::max(begin, range.begin), blocks.capacity()}, tickets);
  if (blocks.capacity() < range.end) {
    for (const Ticket& ticket : tickets) AddTicket(cut_off_tickets_, ticket);
  }
  return merged;
}

BlockId PoolImpl::BlockAt(std::int64_t offset) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  BlockId id = blocks.First();
  while (offset >= blocks.offset(id) + blocks.bytes(id)) id = blocks.Next(id);
  return id;
}

// While a pool fills, steps keep the calls of the device few; later, when it grows seldom,
// exactness is cheap. Their number stays logarithmic in the size of the pool.
std::int64_t PoolImpl::GrowthStep() const {
  constexpr std::int64_t kSeldom = 16;           // allocations from growth to growth
  constexpr std::int64_t kMostPerDoubling = 16;  // growths, for the next to be exact
  const std::int64_t held = HeldBytes();
  const int doublings = std::bit_width(static_cast<std::uint64_t>(held / LeastGrowth()));
  if (stats_.allocations - allocations_at_growth_ >= kSeldom &&
      stats_.growths < kMostPerDoubling * doublings) {
    return 0;
  }
  return static_cast<std::int64_t>(static_cast<double>(held) * options_.growth);
}

std::int64_t PoolImpl::LeastGrowth() const {
  if (options_.memory != PoolMemory::kSegments) return device_.granularity();
  return arena_.Rounded(std::min(kLeastSegment, options_.max_bytes / kLeastSegmentPart + 1));
}

}  // namespace tidepool::pool
