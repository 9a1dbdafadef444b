// SPDX-License-Identifier: Apache-2.0
// A wait orders a stream after all work that the awaited stream had been given, so later tickets of
// that stream often need no wait.
#include "lib/memory/pool/hand_over.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tidepool::pool {

// Begins to keep tickets. All work so far may still use each block that is free now.
void HandOver::BeginTickets(Stream newest) {
  keeps_tickets_.store(true, std::memory_order_relaxed);
  const Tickets tickets = order_.TakeTicketsOfAllBut(newest);
  for (BlockId id = blocks_.First(); id != kNoBlock; id = blocks_.Next(id)) {
    if (blocks_.used(id)) continue;
    const Range range = {blocks_.offset(id), blocks_.offset(id) + blocks_.bytes(id)};
    NoteIncluded(kNoBlock, range, tickets, kNoBlock, id);
  }
}

absl::StatusOr<bool> HandOver::MakeStreamWait(BlockId block, const Range& range, StreamClock& clock,
                                              Observers& observers) {
  absl::Status status;
  bool is_after_others = false;
  tickets_.ForEach(block, range.begin, range.end, [&](const Ticket& ticket) {
    if (order_.MustWait(clock, ticket)) {
      const absl::StatusOr<bool> waits = order_.MakeStreamWait(clock, ticket);
      status = waits.status();
      if (!waits.ok()) return false;
      if (*waits) {
        ++stream_waits_;
        observers.OnWait(clock, order_.ClockOf(ticket));
      }
    }
    is_after_others |= ticket.clock != clock.index && order_.MayRun(ticket);
    return true;
  });
  if (!status.ok()) return status;
  return is_after_others;
}

void HandOver::GrowTo(BlockId block) {
  allocated_on_.resize(2 * std::size_t{block} + 1);
  is_after_others_.resize(allocated_on_.size());
}

void HandOver::NoteTakenAfterCrossing(BlockId from, BlockId block, bool is_after_others) {
  const std::int64_t begin = blocks_.offset(block);
  tickets_.Take(from, begin, begin + blocks_.bytes(block), FreeOrNone(blocks_.Previous(block)),
                FreeOrNone(blocks_.Next(block)));
  is_after_others_[block] = is_after_others;
}

void HandOver::NoteSplit(BlockId first, BlockId second) {
  if (second >= allocated_on_.size()) GrowTo(second);
  allocated_on_[second] = allocated_on_[first];
  is_after_others_[second] = is_after_others_[first];
}

Tickets HandOver::TakeTickets(BlockId block, StreamClock& clock) {
  Tickets tickets = {order_.TicketOfCaller(clock)};
  const auto add = [&](Stream user) {
    StreamClock* const known = order_.Known(user);
    if (known != nullptr && known != &clock) tickets.push_back(StreamOrder::NextTicket(*known));
  };
  // The freeing stream may not have waited for the work that the allocating stream waited for.
  // Without that stream's ticket the work could write into memory of the next owner.
  if (is_after_others_[block]) add(allocated_on_[block]);
  if (uses_.empty()) return tickets;
  const auto uses = uses_.find(block);
  if (uses == uses_.end()) return tickets;
  for (const Stream user : uses->second) add(user);
  uses_.erase(uses);
  return tickets;
}

void HandOver::NoteFreed(BlockId before, const Range& range, const Tickets& tickets, BlockId after,
                         BlockId merged) {
  tickets_.Merge(before, range.begin, range.end, tickets, after, merged,
                 tickets.empty() ? 0 : order_.Recorded(tickets.front()));
}

void HandOver::NoteIncluded(BlockId before, const Range& range, const Tickets& tickets,
                            BlockId after, BlockId merged) {
  if (!keeps_tickets()) return;
  tickets_.Merge(before, range.begin, range.end, tickets, after, merged, UINT64_MAX);
}

void HandOver::NoteExcluded(BlockId from, const Range& range, BlockId before, BlockId after) {
  if (keeps_tickets()) tickets_.Take(from, range.begin, range.end, before, after);
}

void HandOver::Shrink(std::size_t names) {
  allocated_on_.resize(std::min(names, allocated_on_.size()));
  allocated_on_.shrink_to_fit();
  is_after_others_.resize(allocated_on_.size());
  is_after_others_.shrink_to_fit();
  tickets_.Shrink(names, [this](const Ticket& ticket) { return order_.MayRun(ticket); });
}

void HandOver::AddUse(BlockId block, Stream stream) {
  if (!keeps_tickets()) BeginTickets({});  // another stream may free the block
  auto& uses = uses_[block];
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
}

absl::Status HandOver::CheckOwner(BlockId block, Stream stream) const {
  if (order_.begun() <= 1 || block == kNoBlock || allocated_on_[block] == stream) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the allocation is one of stream ",
                                                    allocated_on_[block].id,
                                                    ", expected one of stream ", stream.id));
}

// Before memory crossed, all work of the pool's streams may use each free block.
Tickets HandOver::TicketsIn(BlockId block, const Range& range) const {
  if (!keeps_tickets()) return order_.TakeTicketsOfAllBut({});
  Tickets tickets;
  tickets_.ForEach(block, range.begin, range.end, [&](const Ticket& ticket) {
    AddTicket(tickets, ticket);
    return true;
  });
  return tickets;
}

Tickets HandOver::TicketsOf(BlockId block) const {
  const Range range = {blocks_.offset(block), blocks_.offset(block) + blocks_.bytes(block)};
  return keeps_tickets() ? TicketsIn(block, range) : Tickets();
}

std::vector<Stream> HandOver::PendingStreams(BlockId block) const {
  std::vector<Stream> streams;
  for (const Ticket& ticket : TicketsOf(block)) {
    if (order_.MayRun(ticket)) streams.push_back(order_.ClockOf(ticket).stream);
  }
  return streams;
}

absl::Status HandOver::AwaitOnHost(const Tickets& tickets, PoolLocks& locks) {
  const absl::StatusOr<std::vector<HostWait>> waits = order_.PrepareWait(tickets);
  if (!waits.ok()) return waits.status();
  if (waits->empty()) return absl::OkStatus();
  absl::Status status = locks.WithoutBoth([&] { return order_.Wait(*waits); });
  if (status.ok()) order_.NoteFinished(*waits);
  return status;
}

bool HandOver::HasFinished(const Tickets& tickets) {
  return std::ranges::all_of(
      tickets, [this](const Ticket& ticket) { return order_.HasFinished(ticket).value_or(false); });
}

}  // namespace tidepool::pool
