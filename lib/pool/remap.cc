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
// preferred as long as little is free.
absl::StatusOr<BlockId> PoolImpl::FillByMoving(Room room) {
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
  if (much_is_free) moves = most_moves;
  const auto new_ones = [&] { return absl::MakeConstSpan(wanted).subspan(moves); };
  absl::Status status = backing_.Map(new_ones(), granule);
  if (absl::IsResourceExhausted(status) && moves < most_moves) {
    moves = most_moves;
    status = backing_.Map(new_ones(), granule);
  }
  if (!status.ok()) return status;
  donors.resize(moves);
  if (!arena_.blocks().HasNames(static_cast<std::int64_t>(moves + room.gaps.size()))) {
    status = absl::ResourceExhaustedError("an arena has no more names for blocks");
  } else {
    status = MoveAll(donors, wanted);
  }
  if (!status.ok()) {
    for (const Backing::Range& range : new_ones()) backing_.Discard(range.begin);
    return status;
  }
  for (std::size_t i = 0; i < moves; ++i) GiveTickets(donors[i], wanted[i].begin, room);
  for (const Donor& donor : donors) Exclude(donor);
  if (moves > 0) ++stats_.remaps;
  stats_.remapped_bytes += static_cast<std::int64_t>(moves) * granule;
  return Include(room);
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
  const BlockMap& blocks = arena_.blocks();
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
absl::Status PoolImpl::MoveAll(const std::vector<Donor>& donors,
                               const std::vector<Backing::Range>& places) {
  for (std::size_t i = 0; i < donors.size(); ++i) {
    absl::Status status = backing_.Move(donors[i].piece.begin, places[i].begin);
    if (status.ok()) continue;
    while (i-- > 0) backing_.UndoMove(donors[i].piece.begin, places[i].begin);
    return status;
  }
  return absl::OkStatus();
}

// Notes whose work may still use the memory of `donor`, which was moved to `place`.
void PoolImpl::GiveTickets(Donor& donor, std::int64_t place, Room& room) {
  if (!crossing_) {
    donor.tickets = order_.TicketsOfAllBut({});
    return;
  }
  tickets_.ForEach(donor.block, donor.piece.begin, donor.piece.end, [&](const Ticket& ticket) {
    AddTicket(donor.tickets, ticket);
    return true;
  });
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

// Takes the addresses of a donor out of the arena.
void PoolImpl::Exclude(const Donor& donor) {
  ExcludeFree(donor.block, donor.piece);
  Alias& alias = aliases_.emplace_back();
  alias.begin = donor.piece.begin;
  alias.tickets = donor.tickets;
  DropIfOver(alias);
  if (alias.is_dropped) aliases_.pop_back();
}

// A part of a free block. What is left of it in front keeps the name.
void PoolImpl::ExcludeFree(BlockId block, const Backing::Range& range) {
  BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.offset(block);
  const std::int64_t end = begin + blocks.bytes(block);
  const BlockId excluded = blocks.Exclude(Placement::At(block, range.begin), range.bytes());
  if (!crossing_) return;
  tickets_.Take(block, range.begin, range.end, begin < range.begin ? block : kNoBlock,
                range.end < end ? blocks.Next(excluded) : kNoBlock);
}

// Unmaps old addresses whose work is over. What the device would not say or do is left for later.
void PoolImpl::DropAliases() {
  for (Alias& alias : aliases_) DropIfOver(alias);
  std::erase_if(aliases_, [](const Alias& alias) { return alias.is_dropped; });
}

// Waits for that work on the host.
absl::Status PoolImpl::AwaitAliases() {
  for (const Alias& alias : aliases_) {
    for (const Ticket& ticket : alias.tickets) {
      if (absl::Status status = order_.Synchronize(ticket); !status.ok()) return status;
    }
  }
  DropAliases();
  return absl::OkStatus();
}

void PoolImpl::DropIfOver(Alias& alias) {
  for (const Ticket& ticket : alias.tickets) {
    const absl::StatusOr<bool> is_over = order_.IsOver(ticket);
    if (!is_over.ok() || !*is_over) return;
  }
  alias.is_dropped = backing_.DropAlias(alias.begin).ok();
}

}  // namespace tidepool::pool
