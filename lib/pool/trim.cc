// Memory back to the device: what is free anywhere, the last first.
#include <algorithm>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

absl::StatusOr<std::int64_t> PoolImpl::Trim(std::int64_t keep_bytes) {
  const std::lock_guard giving_back(give_back_mutex_);
  Lock lock(mutex_);
  MemoryLock memory(memory_mutex_, lock);
  given_back_bytes_ = 0;
  const absl::Status status = GiveBack(keep_bytes, memory);
  ServeWaiting();  // others can have what the device has again
  if (!status.ok()) return status;
  return given_back_bytes_;
}

absl::Status PoolImpl::GiveBack(std::int64_t keep_bytes, MemoryLock& memory) {
  if (options_.memory == PoolMemory::kSegments) {
    SetAsideSegments(keep_bytes);
    return GiveBackLeaving(memory);
  }
  const std::int64_t held = backing_.held_bytes();
  if (absl::Status status = RetryGivingBack(memory); !status.ok()) return status;
  given_back_bytes_ += held - backing_.held_bytes();
  // As long as it has another address, the device does not get a piece's memory.
  if (absl::Status status = AwaitAliases(memory); !status.ok()) return status;
  SetAsidePieces(keep_bytes);
  return GiveBackLeaving(memory);
}

// Sets the pieces of free blocks aside, the last ones first, as long as `keep_bytes` stay.
void PoolImpl::SetAsidePieces(std::int64_t keep_bytes) {
  const blocks::BlockMap& blocks = arena_.blocks();
  std::int64_t left = backing_.held_bytes();
  for (BlockId id = blocks.Last(); id != kNoBlock;) {
    const BlockId previous = blocks.Previous(id);
    if (!blocks.used(id)) {
      const std::int64_t begin = blocks.offset(id);
      const std::int64_t end = begin + blocks.bytes(id);
      // The last piece may reach beyond the arena, when the budget is no multiple of the
      // granularity.
      const bool is_last = end == blocks.capacity();
      const std::vector<Range> pieces =
          backing_.PiecesIn({begin, is_last ? backing_.Rounded(end) : end});
      for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
        if (left - piece->bytes() < keep_bytes) break;
        left -= piece->bytes();
        SetAside(id, *piece);
      }
    }
    id = previous;
  }
}

// Takes a range of a free block out of the arena, to be given back.
void PoolImpl::SetAside(BlockId block, const Range& range) {
  const Range inside = {range.begin, std::min(range.end, arena_.blocks().capacity())};
  leaving_.push_back({range, TicketsIn(block, inside)});
  if (inside.end < range.end) {
    for (const Ticket& ticket : cut_off_tickets_) AddTicket(leaving_.back().tickets, ticket);
    cut_off_tickets_.clear();
  }
  CutOut(block, inside);
}

// Gives back what is set aside once the work that last used it is over. What other threads took
// back meanwhile stays, and so does all that is left after an error.
absl::Status PoolImpl::GiveBackLeaving(MemoryLock& memory) {
  Tickets tickets;
  for (const Leaving& leaving : leaving_) {
    for (const Ticket& ticket : leaving.tickets) AddTicket(tickets, ticket);
  }
  absl::Status status = AwaitOnHost(tickets, memory);
  // Other threads may have moved some of it meanwhile.
  if (status.ok()) DropAliases(memory);
  // The device keeps memory that is still mapped at an old address, and the budget would be
  // exceeded.
  while (status.ok() && aliases_.empty() && !leaving_.empty()) {
    const Leaving leaving = std::move(leaving_.front());
    leaving_.pop_front();
    bool is_gone = false;
    if (options_.memory == PoolMemory::kSegments) {
      status = GiveBackSegment(leaving.range, memory);
      is_gone = status.ok();
    } else {
      status = memory.WithoutBooks([&] { return backing_.Unmap(leaving.range.begin); });
      is_gone = !backing_.HasPiece(leaving.range.begin);
    }
    if (status.ok()) given_back_bytes_ += leaving.range.bytes();
    if (!is_gone) leaving_.push_front(leaving);
  }
  TakeBackLeaving();
  return status;
}

// From the first one of the arena to the last, so that its end grows without a gap.
void PoolImpl::TakeBackLeaving() {
  for (; !leaving_.empty(); leaving_.pop_back()) {
    Include(leaving_.back().range, leaving_.back().tickets);
  }
}

// Takes addresses without memory out of a free block: off the end of the arena, or out of it.
void PoolImpl::CutOut(BlockId block, const Backing::Range& range) {
  blocks::BlockMap& blocks = arena_.blocks();
  if (range.end < blocks.capacity()) {
    ExcludeFree(block, range);
    return;
  }
  if (crossing_) {
    const BlockId kept = blocks.offset(block) < range.begin ? block : kNoBlock;
    tickets_.Take(block, range.begin, range.end, kept, kNoBlock);
  }
  blocks.Resize(range.begin);
}

// Stand for the work that may still use a range of a free block. As long as there was one stream,
// that is all of its work so far.
Tickets PoolImpl::TicketsIn(BlockId block, const Range& range) {
  if (!crossing_) return order_.TicketsOfAllBut({});
  Tickets tickets;
  tickets_.ForEach(block, range.begin, range.end, [&](const Ticket& ticket) {
    AddTicket(tickets, ticket);
    return true;
  });
  return tickets;
}

absl::Status PoolImpl::AwaitOnHost(const Tickets& tickets, MemoryLock& memory) {
  const absl::StatusOr<std::vector<HostWait>> waits = order_.PrepareWait(tickets);
  if (!waits.ok()) return waits.status();
  if (waits->empty()) return absl::OkStatus();
  absl::Status status = memory.WithoutBoth([&] { return order_.Wait(*waits); });
  if (status.ok()) order_.NoteOver(*waits);
  return status;
}

}  // namespace tidepool::pool
