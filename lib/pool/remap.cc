// Free memory that is in the wrong places is moved to the right one: the granules inside free
// blocks are mapped where a request finds no room. The work that may still use them is ordered by
// their tickets, which go with them; the old addresses stay mapped, and out of use, until it is
// over. Fragmentation costs calls of the device and is never the end (GMLake, ASPLOS 2024, stitches
// granules in the same way, and keeps pools of stitched blocks; here the map of addresses is kept).
#include <algorithm>
#include <tuple>
#include <utility>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

// Fills the gaps of a room with new memory and with free memory from elsewhere. New memory is
// preferred as long as little is free, unless `moves_all`.
absl::StatusOr<BlockId> PoolImpl::FillByMoving(Room room, bool moves_all, MemoryLock& memory) {
  // The block of the room is good as long as the lock is held.
  if (room.gaps.empty()) return Include(room);
  const std::int64_t granule = device_.granularity();
  const std::vector<Backing::Range> wanted = GranulesOf(room.gaps);
  std::vector<Donor> donors = Donors(room.range);
  const std::size_t most_moves = std::min(donors.size(), wanted.size());
  const std::int64_t held = backing_.held_bytes();
  const auto most_new =
      static_cast<std::size_t>(std::max<std::int64_t>(options_.max_bytes - held, 0) / granule);
  const bool much_is_free = static_cast<std::int64_t>(donors.size()) * granule >= held / kFreePart;
  std::size_t moves = wanted.size() - std::min(wanted.size(), most_new);
  if (moves > most_moves) return kNoBlock;
  if (much_is_free || moves_all) moves = most_moves;
  if (!arena_.blocks().HasNames(static_cast<std::int64_t>(moves + room.gaps.size()))) {
    return absl::ResourceExhaustedError("an arena has no more names for blocks");
  }
  donors.resize(moves);
  // Out of the arena, so that no other thread takes them meanwhile.
  for (Donor& donor : donors) {
    donor.tickets = TicketsIn(donor.block, donor.piece);
    ExcludeFree(donor.block, donor.piece);
  }
  absl::Status status = memory.WithoutBooks([&] { return MapAndMove(wanted, donors); });
  if (!status.ok()) {
    for (const Donor& donor : donors) Include(donor.piece, donor.tickets);
    // What the device did not unmap again is in the way of another try.
    const bool may_move_more =
        absl::IsResourceExhausted(status) && moves < most_moves && !backing_.HasUnfinished();
    return may_move_more ? FillByMoving(std::move(room), true, memory) : status;
  }
  for (std::size_t i = 0; i < moves; ++i) {
    GiveTickets(donors[i], wanted[i].begin, room);
    aliases_.push_back({donors[i].piece.begin, donors[i].tickets});
  }
  DropAliases(memory);
  if (moves > 0) ++stats_.remaps;
  stats_.remapped_bytes += static_cast<std::int64_t>(moves) * granule;
  return Include(room);
}

// Maps the memory of the donors to the first places that are wanted, and new memory to the others.
// All of it or nothing.
absl::Status PoolImpl::MapAndMove(absl::Span<const Range> wanted,
                                  const std::vector<Donor>& donors) {
  const absl::Span<const Range> new_ones = wanted.subspan(donors.size());
  absl::Status status = backing_.Map(new_ones, device_.granularity());
  if (!status.ok()) return status;
  status = MoveAll(donors, wanted);
  if (!status.ok()) {
    for (const Range& range : new_ones) backing_.Discard(range.begin);
  }
  return status;
}

std::vector<Backing::Range> PoolImpl::GranulesOf(const std::vector<Gap>& gaps) const {
  std::vector<Backing::Range> granules;
  for (const Gap& gap : gaps) {
    for (std::int64_t begin = gap.range.begin; begin < gap.range.end;) {
      const std::int64_t end = begin + device_.granularity();
      granules.push_back({std::exchange(begin, end), end});
    }
  }
  return granules;
}

// The granules that are free and not of the room: those of small blocks first, and of one block the
// last one first.
std::vector<Donor> PoolImpl::Donors(const Backing::Range& room) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  std::vector<Donor> donors;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.used(id)) continue;
    const std::int64_t begin = blocks.offset(id);
    for (const Backing::Range& piece : backing_.PiecesIn({begin, begin + blocks.bytes(id)})) {
      if (piece.end > room.begin && piece.begin < room.end) continue;
      Donor& donor = donors.emplace_back();
      donor.block = id;
      donor.piece = piece;
    }
  }
  std::sort(donors.begin(), donors.end(), [&](const Donor& a, const Donor& b) {
    return std::tuple(blocks.bytes(a.block), a.block, b.piece.begin) <
           std::tuple(blocks.bytes(b.block), b.block, a.piece.begin);
  });
  return donors;
}

// All of them or none.
absl::Status PoolImpl::MoveAll(const std::vector<Donor>& donors, absl::Span<const Range> places) {
  for (std::size_t i = 0; i < donors.size(); ++i) {
    absl::Status status = backing_.Move(donors[i].piece.begin, places[i].begin);
    if (status.ok()) continue;
    while (i-- > 0) backing_.UndoMove(donors[i].piece.begin, places[i].begin);
    return status;
  }
  return absl::OkStatus();
}

// Notes which work may still use the memory of `donor`, which was moved to `place`.
void PoolImpl::GiveTickets(const Donor& donor, std::int64_t place, Room& room) {
  const auto gap = std::find_if(room.gaps.begin(), room.gaps.end(),
                                [&](const Gap& g) { return place < g.range.end; });
  for (const Ticket& ticket : donor.tickets) AddTicket(gap->tickets, ticket);
}

void PoolImpl::AddTicket(Tickets& tickets, const Ticket& ticket) {
  for (Ticket& known : tickets) {
    if (known.timeline != ticket.timeline) continue;
    known.position = std::max(known.position, ticket.position);
    return;
  }
  tickets.push_back(ticket);
}

// A part of a free block. What is left of it in front keeps the name.
void PoolImpl::ExcludeFree(BlockId block, const Backing::Range& range) {
  blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.offset(block);
  const std::int64_t end = begin + blocks.bytes(block);
  const BlockId excluded = blocks.Exclude(Placement::At(block, range.begin), range.bytes());
  if (!crossing_) return;
  tickets_.Take(block, range.begin, range.end, begin < range.begin ? block : kNoBlock,
                range.end < end ? blocks.Next(excluded) : kNoBlock);
}

// Unmaps old addresses whose work is over. What the device would not say or do is left for later.
void PoolImpl::DropAliases(MemoryLock& memory) {
  const auto over =
      std::stable_partition(aliases_.begin(), aliases_.end(),
                            [this](const Alias& alias) { return !IsOver(alias.tickets); });
  if (over == aliases_.end()) return;
  const auto is_dropped = [this](const Alias& alias) {
    return backing_.DropAlias(alias.begin).ok();
  };
  memory.WithoutBooks([&] {
    return aliases_.erase(std::remove_if(over, aliases_.end(), is_dropped), aliases_.end());
  });
}

absl::Status PoolImpl::AwaitAliases(MemoryLock& memory) {
  Tickets tickets;
  for (const Alias& alias : aliases_) {
    for (const Ticket& ticket : alias.tickets) AddTicket(tickets, ticket);
  }
  absl::Status status = AwaitOnHost(tickets, memory);
  if (status.ok()) DropAliases(memory);
  return status;
}

// As far as the device says so.
bool PoolImpl::IsOver(const Tickets& tickets) {
  return std::ranges::all_of(
      tickets, [this](const Ticket& ticket) { return order_.IsOver(ticket).value_or(false); });
}

}  // namespace tidepool::pool
