// SPDX-License-Identifier: Apache-2.0
// Either all memory for a site is mapped and moved, or nothing has changed.
#include "lib/memory/pool/remapping_memory.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace tidepool::pool {
namespace {

// Free memory moves, rather than that new memory is taken, when at least this part of the pool is
// free. So little is free, and moves are seldom.
constexpr std::int64_t kFreePart = 12;

}  // namespace

// Fills the gaps of a site with new memory and with free memory from elsewhere. New memory is
// preferred as long as little is free, unless `moves_all`.
absl::StatusOr<BlockId> RemappingMemory::FillByMoving(Site site, bool moves_all, PoolLocks& locks) {
  // The block of the site is valid as long as the books are locked.
  if (site.gaps.empty()) return IncludeSite(site);
  const std::vector<Range> wanted = GranulesOf(site.gaps);
  std::vector<Donor> donors = DonorsOutside(site.range);
  const std::size_t most_moves = std::min(donors.size(), wanted.size());
  const std::int64_t held = backing_.held_bytes();
  const auto most_new =
      static_cast<std::size_t>(std::max<std::int64_t>(options_.max_bytes - held, 0) / granule_);
  const bool much_is_free = static_cast<std::int64_t>(donors.size()) * granule_ >= held / kFreePart;
  std::size_t moves = wanted.size() - std::min(wanted.size(), most_new);
  if (moves > most_moves) return kNoBlock;
  if (much_is_free || moves_all) moves = most_moves;
  if (!arena_.blocks().HasNames(static_cast<std::int64_t>(moves + site.gaps.size()))) {
    return absl::ResourceExhaustedError("an arena has no more names for blocks");
  }
  donors.resize(moves);
  // Donors leave the arena first, so that no other thread takes them meanwhile.
  for (Donor& donor : donors) {
    donor.tickets = arena_.hand_over().TicketsIn(donor.block, donor.piece);
    arena_.ExcludeInside(donor.block, donor.piece);
  }
  absl::Status status = locks.WithoutBooks([&] { return MapAndMove(wanted, donors); });
  if (!status.ok()) {
    for (const Donor& donor : donors) Include(donor.piece, donor.tickets);
    // Addresses that the device did not unmap again are in the way of another try.
    const bool may_move_more =
        absl::IsResourceExhausted(status) && moves < most_moves && !backing_.HasUnfinished();
    return may_move_more ? FillByMoving(std::move(site), true, locks) : status;
  }
  for (std::size_t i = 0; i < moves; ++i) {
    const std::int64_t target = wanted[i].begin;
    const auto gap = std::find_if(site.gaps.begin(), site.gaps.end(),
                                  [&](const Gap& g) { return target < g.range.end; });
    AddTickets(gap->tickets, donors[i].tickets);
    aliases_.push_back({donors[i].piece.begin, donors[i].tickets});
  }
  DropAliases(locks);
  if (moves > 0) ++remaps_;
  remapped_bytes_ += static_cast<std::int64_t>(moves) * granule_;
  return IncludeSite(site);
}

// Maps the memory of the donors to the first granules that are wanted, and new memory to the rest.
absl::Status RemappingMemory::MapAndMove(absl::Span<const Range> wanted,
                                         const std::vector<Donor>& donors) {
  const absl::Span<const Range> new_ranges = wanted.subspan(donors.size());
  absl::Status status = backing_.Map(new_ranges, granule_);
  if (!status.ok()) return status;
  status = MoveAll(donors, wanted);
  if (!status.ok()) {
    for (const Range& range : new_ranges) backing_.Discard(range.begin);
  }
  return status;
}

absl::Status RemappingMemory::MoveAll(const std::vector<Donor>& donors,
                                      absl::Span<const Range> targets) {
  for (std::size_t i = 0; i < donors.size(); ++i) {
    absl::Status status = backing_.Move(donors[i].piece.begin, targets[i].begin);
    if (status.ok()) continue;
    while (i-- > 0) backing_.UndoMove(donors[i].piece.begin, targets[i].begin);
    return status;
  }
  return absl::OkStatus();
}

std::vector<Range> RemappingMemory::GranulesOf(const std::vector<Gap>& gaps) const {
  std::vector<Range> granules;
  for (const Gap& gap : gaps) {
    for (std::int64_t begin = gap.range.begin; begin < gap.range.end; begin += granule_) {
      granules.push_back({begin, begin + granule_});
    }
  }
  return granules;
}

// Returns the free granules outside a site: granules of small blocks first, and within a block the
// last granule first.
std::vector<RemappingMemory::Donor> RemappingMemory::DonorsOutside(const Range& site) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  std::vector<Donor> donors;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.used(id)) continue;
    const std::int64_t begin = blocks.offset(id);
    for (const Range& piece : backing_.PiecesIn({begin, begin + blocks.bytes(id)})) {
      if (piece.end > site.begin && piece.begin < site.end) continue;
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

// An error of the device leaves the old addresses mapped, for a later try.
void RemappingMemory::DropAliases(PoolLocks& locks) {
  const auto finished = std::stable_partition(
      aliases_.begin(), aliases_.end(),
      [this](const Alias& alias) { return !arena_.hand_over().HasFinished(alias.tickets); });
  if (finished == aliases_.end()) return;
  const auto is_dropped = [this](const Alias& alias) {
    return backing_.DropAlias(alias.begin).ok();
  };
  locks.WithoutBooks([&] {
    return aliases_.erase(std::remove_if(finished, aliases_.end(), is_dropped), aliases_.end());
  });
}

absl::StatusOr<bool> RemappingMemory::AwaitAliases(PoolLocks& locks) {
  if (aliases_.empty()) return false;
  Tickets tickets;
  for (const Alias& alias : aliases_) AddTickets(tickets, alias.tickets);
  absl::Status status = arena_.hand_over().AwaitOnHost(tickets, locks);
  if (!status.ok()) return status;
  DropAliases(locks);
  return true;
}

absl::Status RemappingMemory::AwaitMoves(PoolLocks& locks) {
  if (absl::Status status = AwaitAliases(locks).status(); !status.ok()) return status;
  return aliases_.empty() ? absl::OkStatus()
                          : absl::UnavailableError("the device did not unmap old addresses");
}

// Other threads may have moved some memory meanwhile. The device keeps memory that is still mapped
// at an old address, and the budget would be exceeded.
bool RemappingMemory::MayGive(PoolLocks& locks) {
  DropAliases(locks);
  return aliases_.empty();
}

}  // namespace tidepool::pool
