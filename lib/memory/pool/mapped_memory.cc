// SPDX-License-Identifier: Apache-2.0
// The arena may end inside a granule, when the budget is no multiple of the granularity.
#include "lib/memory/pool/mapped_memory.h"

#include <algorithm>
#include <utility>

#include "lib/memory/pool/segment_blocks.h"

namespace tidepool::pool {

absl::Status MappedMemory::TakeInitial(std::int64_t bytes, PoolLocks&) {
  absl::Status status = backing_.Reserve(AddressBytes(options_, device_));
  if (!status.ok()) return status;
  arena_.addresses().Add({0, backing_.reserved_bytes()}, backing_.base());
  TellAdded(backing_.base(), backing_.reserved_bytes());
  if (bytes == 0) return status;
  const std::int64_t end = backing_.Rounded(bytes);
  status = backing_.Map({{0, end}}, PieceBytes(bytes));
  if (!status.ok()) return status;
  arena_.Extend(std::min(end, options_.max_bytes));
  return absl::OkStatus();
}

bool MappedMemory::MayGrow(std::int64_t bytes) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  return MemorySource::MayGrow(bytes) &&
         blocks.capacity() - blocks.excluded_bytes() < options_.max_bytes;
}

absl::StatusOr<Placement> MappedMemory::TakeFor(const Request& request, Growth& growth,
                                                PoolLocks& locks) {
  if (absl::Status status = RetryUnmapping(locks); !status.ok()) return status;
  DropAliases(locks);
  std::optional<Site> site = FindSite(request.bytes);
  if (!site.has_value()) {
    if (growth.awaited_aliases) return Placement::None();
    // Old addresses of moved memory are in the way as long as work may use them.
    const absl::StatusOr<bool> awaited = AwaitAliases(locks);
    if (!awaited.ok()) return awaited.status();
    growth.awaited_aliases = growth.again = *awaited;
    return Placement::None();
  }
  const Range range = site->range;
  const std::int64_t held = backing_.held_bytes();
  const absl::StatusOr<BlockId> block = Fill(*std::move(site), locks);
  if (backing_.held_bytes() > held) CountGrowth();
  if (!block.ok()) return block.status();
  if (*block == kNoBlock) return Placement::None();
  // Another thread may have taken a free part of the site while the device was called.
  growth.again = !IsFree(*block, range);
  return Placement::At(*block, range.begin);
}

// Tries once more to unmap and release memory that the device did not take back before.
absl::Status MappedMemory::RetryUnmapping(PoolLocks& locks) {
  if (!backing_.HasUnfinished()) return absl::OkStatus();
  return locks.WithoutBooks([this] { return backing_.Retry(); });
}

bool MappedMemory::IsFree(BlockId block, const Range& range) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  return !blocks.used(block) && blocks.offset(block) <= range.begin &&
         range.end <= blocks.offset(block) + blocks.bytes(block);
}

// Returns the lowest addresses with nothing live in them. As long as nothing was excluded they are
// at the end, because no free block was found for the request.
std::optional<MappedMemory::Site> MappedMemory::FindSite(std::int64_t bytes) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  BlockId id = blocks.First();
  if (blocks.excluded_bytes() == 0) id = arena_.FreeOrNone(blocks.Last());
  Site site;
  std::int64_t begin = -1;  // of the blocks so far that are free or excluded
  for (; id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.used(id) && !blocks.excluded(id)) {
      begin = -1;
      continue;
    }
    if (begin < 0) begin = blocks.offset(id);
    site = {RangeFrom(begin, bytes), id, {}};
    if (site.range.end <= blocks.offset(id) + blocks.bytes(id)) break;
  }
  if (id == kNoBlock) site = {RangeFrom(begin < 0 ? blocks.capacity() : begin, bytes), id, {}};
  if (backing_.Rounded(site.range.end) > backing_.reserved_bytes()) return std::nullopt;
  site.gaps = GapsIn(site.range);
  return site;
}

// Returns the first addresses from `begin` on that a request may have.
Range MappedMemory::RangeFrom(std::int64_t begin, std::int64_t bytes) const {
  for (;;) {
    const std::int64_t fit = arena_.granules().FirstFit(begin, bytes);
    const std::int64_t unusable = backing_.EndOfUnusable({fit, backing_.Rounded(fit + bytes)});
    if (unusable < 0) return {fit, fit + bytes};
    begin = unusable;
  }
}

// Returns the parts of a range without memory, in the order of addresses, in whole granules.
std::vector<MappedMemory::Gap> MappedMemory::GapsIn(const Range& range) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t first = range.begin & -granule_;
  const std::int64_t end = backing_.Rounded(range.end);
  std::vector<Gap> gaps;
  if (blocks.excluded_bytes() > 0) {
    for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
      const Range gap = {std::max(blocks.offset(id), first),
                         std::min(blocks.offset(id) + blocks.bytes(id), end)};
      if (blocks.excluded(id) && gap.begin < gap.end) gaps.emplace_back().range = gap;
    }
  }
  const std::int64_t tail = std::max(backing_.Rounded(blocks.capacity()), first);
  if (tail < end) gaps.emplace_back().range = {tail, end};
  return gaps;
}

// Maps new memory to the gaps: the site becomes one free block. At the end of the arena it maps
// more than the gap when the pool grows often, so that the calls of the device are few.
absl::StatusOr<BlockId> MappedMemory::Fill(Site site, PoolLocks& locks) {
  const blocks::BlockMap& blocks = arena_.blocks();
  std::int64_t included = std::max(site.range.end, blocks.capacity()) - blocks.excluded_bytes();
  for (const Gap& gap : site.gaps) {
    if (gap.range.begin < blocks.capacity()) included += gap.range.bytes();
  }
  const std::int64_t excess = included - options_.max_bytes;
  if (excess > 0 && !CanCutOffEnd(site, excess)) return kNoBlock;
  if (site.gaps.empty()) return IncludeSite(site);
  std::int64_t& end = site.gaps.back().range.end;
  const std::int64_t needed = end;
  if (end > blocks.capacity()) {
    const std::int64_t step = std::min(GrowthStep() - (site.range.end - blocks.capacity()),
                                       options_.max_bytes - included);
    end = std::clamp(backing_.Rounded(site.range.end + step), end, backing_.reserved_bytes());
  }
  // The end is cut off first, so that no other thread takes it meanwhile.
  const std::int64_t old_end = blocks.capacity();
  if (excess > 0) CutOffEnd(excess);
  absl::Status status = MapGaps(site, locks);
  // Addresses that the device did not unmap again are in the way of another try.
  if (absl::IsResourceExhausted(status) && end > needed && !backing_.HasUnfinished()) {
    end = needed;
    status = MapGaps(site, locks);
  }
  if (status.ok()) return IncludeSite(site);
  if (excess > 0) Extend(old_end, {}, {});
  return status;
}

// Whether the arena can go without its last `excess` bytes, for a site elsewhere. If the budget
// is not a multiple of the granule, the last granule exceeds it by `excess` bytes.
bool MappedMemory::CanCutOffEnd(const Site& site, std::int64_t excess) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  const BlockId last = arena_.FreeOrNone(blocks.Last());
  const std::int64_t end = blocks.capacity() - excess;
  return last != kNoBlock && blocks.offset(last) <= end && site.range.end <= end &&
         backing_.Rounded(end) == backing_.Rounded(blocks.capacity());
}

// The memory stays mapped, and work may still use it.
void MappedMemory::CutOffEnd(std::int64_t excess) {
  const blocks::BlockMap& blocks = arena_.blocks();
  const Range end = {blocks.capacity() - excess, blocks.capacity()};
  AddTickets(cut_off_tickets_, arena_.hand_over().TicketsIn(blocks.Last(), end));
  arena_.Exclude(blocks.Last(), end);
}

absl::Status MappedMemory::MapGaps(const Site& site, PoolLocks& locks) {
  std::vector<Range> ranges;
  std::int64_t bytes = backing_.held_bytes();
  for (const Gap& gap : site.gaps) {
    ranges.push_back(gap.range);
    bytes += gap.range.bytes();
  }
  return locks.WithoutBooks([&] { return backing_.Map(ranges, PieceBytes(bytes)); });
}

BlockId MappedMemory::IncludeSite(const Site& site) {
  BlockId merged = site.block;
  for (const auto& [range, tickets] : site.gaps) merged = Include(range, tickets);
  const bool is_inside = site.range.end <= arena_.blocks().capacity();
  return is_inside ? merged : Extend(site.range.end, {}, {});
}

BlockId MappedMemory::Include(const Range& range, const Tickets& tickets) {
  if (range.begin >= arena_.blocks().capacity()) return Extend(range.end, range, tickets);
  return arena_.Include(range, tickets);
}

// Moves the end of the arena to `end`, rounded up to whole granules as far as the budget allows it.
// Work of the tickets may still use `range`. Returns the free block at the end.
BlockId MappedMemory::Extend(std::int64_t end, const Range& range, const Tickets& tickets) {
  const blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.capacity();
  BlockId before = arena_.FreeOrNone(blocks.Last());
  const BlockId merged =
      arena_.Extend(std::min(backing_.Rounded(end), options_.max_bytes + blocks.excluded_bytes()));
  const auto add_tickets = [&](const Range& used, const Tickets& users) {
    if (users.empty() || used.begin >= used.end) return;
    arena_.hand_over().NoteIncluded(before, used, users, kNoBlock, merged);
    before = merged;
  };
  const std::int64_t cut_off_end = backing_.Rounded(begin);
  add_tickets({begin, std::min(cut_off_end, blocks.capacity())}, cut_off_tickets_);
  if (blocks.capacity() >= cut_off_end) cut_off_tickets_.clear();
  add_tickets({std::max(begin, range.begin), blocks.capacity()}, tickets);
  if (blocks.capacity() < range.end) AddTickets(cut_off_tickets_, tickets);
  return merged;
}

void MappedMemory::ProvideMemory(Range range, PoolLocks& locks) {
  if (!RetryUnmapping(locks).ok()) return;
  const blocks::BlockMap& blocks = arena_.blocks();
  range.begin = std::min(range.begin, blocks.capacity());
  range.end = std::min(range.end, backing_.reserved_bytes());
  const Site site = {range, kNoBlock, GapsIn(range)};
  const auto gaps = static_cast<std::int64_t>(site.gaps.size());
  std::int64_t included = std::max(range.end, blocks.capacity()) - blocks.excluded_bytes();
  for (const Gap& gap : site.gaps) {
    included +=
        std::max<std::int64_t>(0, std::min(gap.range.end, blocks.capacity()) - gap.range.begin);
  }
  if (included > options_.max_bytes || !blocks.HasNames(gaps) ||
      backing_.EndOfUnusable({range.begin, backing_.Rounded(range.end)}) >= 0) {
    return;
  }
  if (MapGaps(site, locks).ok()) IncludeSite(site);
}

absl::Status MappedMemory::SetAsideAll(std::int64_t keep_bytes, const Range& kept,
                                       PoolLocks& locks) {
  const std::int64_t held = backing_.held_bytes();
  if (absl::Status status = RetryUnmapping(locks); !status.ok()) return status;
  given_back_bytes_ += held - backing_.held_bytes();
  // The device does not get the memory of a piece that is still mapped at an old address.
  if (absl::Status status = AwaitAliases(locks).status(); !status.ok()) return status;
  const blocks::BlockMap& blocks = arena_.blocks();
  std::int64_t left = backing_.held_bytes();
  for (BlockId id = blocks.Last(); id != kNoBlock;) {
    const BlockId previous = blocks.Previous(id);
    if (!blocks.used(id)) SetAsidePieces(id, keep_bytes, kept, left);
    id = previous;
  }
  return absl::OkStatus();
}

// Sets the pieces of a free block outside of `kept` aside, the last ones first, as long as
// `keep_bytes` are left.
void MappedMemory::SetAsidePieces(BlockId block, std::int64_t keep_bytes, const Range& kept,
                                  std::int64_t& left) {
  const blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.offset(block);
  const std::int64_t end = begin + blocks.bytes(block);
  // The last piece may reach beyond the end of the arena.
  const bool is_last = end == blocks.capacity();
  const std::vector<Range> pieces =
      backing_.PiecesIn({begin, is_last ? backing_.Rounded(end) : end});
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (Overlap(*piece, kept)) continue;
    if (left - piece->bytes() < keep_bytes) break;
    left -= piece->bytes();
    SetAside(block, *piece);
  }
}

// The work that used such memory has finished, because others have taken it.
void MappedMemory::ExcludeGone(PoolLocks& locks) {
  const std::vector<Range> gone = locks.WithoutBooks([this] { return backing_.GonePieces(); });
  const blocks::BlockMap& blocks = arena_.blocks();
  for (auto piece = gone.rbegin(); piece != gone.rend(); ++piece) {
    const Range inside = {piece->begin, std::min(piece->end, blocks.capacity())};
    const BlockId block = BlockAt(blocks, inside.begin);
    const bool is_free = !blocks.used(block) && !blocks.excluded(block) &&
                         inside.end <= blocks.offset(block) + blocks.bytes(block);
    if (!is_free) continue;
    backing_.ForgetGone(piece->begin);
    TakeTicketsBeyond(*piece);
    arena_.Exclude(block, inside);
  }
}

Tickets MappedMemory::TakeTicketsBeyond(const Range& range) {
  Tickets tickets;
  if (range.end > arena_.blocks().capacity()) tickets.swap(cut_off_tickets_);
  return tickets;
}

absl::Status MappedMemory::Give(const Range& range, Receiver receiver, bool& is_held,
                                PoolLocks& locks) {
  absl::Status status = locks.WithoutBooks([&] { return backing_.Unmap(range.begin, receiver); });
  is_held = backing_.HasPiece(range.begin);
  return status;
}

}  // namespace tidepool::pool
