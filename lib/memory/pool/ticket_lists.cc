// SPDX-License-Identifier: Apache-2.0
// Doubly linked lists in one array: merging blocks links two ends, taking a range cuts it out.
#include "lib/memory/pool/ticket_lists.h"

#include <algorithm>
#include <utility>

#include "lib/base/arithmetic.h"

namespace tidepool::pool {

void TicketLists::Merge(BlockId before, std::int64_t begin, std::int64_t end,
                        const Tickets& tickets, BlockId after, BlockId merged,
                        std::uint64_t joins_after) {
  const PieceId piece = MakePiece(begin, end, tickets);
  const List front = Concatenate(TakeList(before), {piece, piece}, joins_after);
  SetList(merged, Concatenate(front, TakeList(after), joins_after));
}

void TicketLists::Take(BlockId from, std::int64_t begin, std::int64_t end, BlockId before,
                       BlockId after) {
  List front;
  List taken;
  List back;
  SplitAt(TakeList(from), begin, front, back);
  SplitAt(back, end, taken, back);
  while (taken.first != kNoPiece) {
    DropPiece(std::exchange(taken.first, pieces_[taken.first].next));
  }
  if (before != kNoBlock) SetList(before, front);
  if (after != kNoBlock) SetList(after, back);
}

TicketLists::List TicketLists::TakeList(BlockId block) {
  return block < lists_.size() ? std::exchange(lists_[block], {}) : List();
}

void TicketLists::SetList(BlockId block, List list) {
  if (block >= lists_.size()) lists_.resize(2 * std::size_t{block} + 1);
  lists_[block] = list;
}

// Walks from the nearer end.
TicketLists::PieceId TicketLists::FirstEndingAfter(List list, std::int64_t offset) const {
  if (list.first == kNoPiece) return kNoPiece;
  if (offset - pieces_[list.first].begin <= pieces_[list.last].end - offset) {
    PieceId id = list.first;
    while (id != kNoPiece && pieces_[id].end <= offset) id = pieces_[id].next;
    return id;
  }
  PieceId id = kNoPiece;
  for (PieceId at = list.last; at != kNoPiece && pieces_[at].end > offset;
       at = pieces_[at].previous) {
    id = at;
  }
  return id;
}

TicketLists::PieceId TicketLists::MakePiece(std::int64_t begin, std::int64_t end,
                                            const Tickets& tickets) {
  if (spare_ == kNoPiece) {
    pieces_.push_back({begin, end, kNoPiece, kNoPiece, tickets});
    return static_cast<PieceId>(pieces_.size() - 1);
  }
  const PieceId id = std::exchange(spare_, pieces_[spare_].next);
  --spare_count_;
  pieces_[id] = {begin, end, kNoPiece, kNoPiece, tickets};
  return id;
}

void TicketLists::DropPiece(PieceId id) {
  pieces_[id].next = std::exchange(spare_, id);
  ++spare_count_;
}

// Whether no stream can have waited for the work of one piece without the work of the other.
bool TicketLists::AreAlike(PieceId a, PieceId b, std::uint64_t joins_after) const {
  const Piece& left = pieces_[a];
  const Piece& right = pieces_[b];
  return left.end == right.begin && left.tickets.size() == 1 && right.tickets.size() == 1 &&
         left.tickets[0].clock == right.tickets[0].clock &&
         left.tickets[0].position > joins_after && right.tickets[0].position > joins_after;
}

TicketLists::List TicketLists::Concatenate(List a, List b, std::uint64_t joins_after) {
  if (a.first == kNoPiece) return b;
  if (b.first == kNoPiece) return a;
  if (AreAlike(a.last, b.first, joins_after)) {
    Piece& left = pieces_[a.last];
    const Piece& right = pieces_[b.first];
    left.end = right.end;
    left.tickets[0].position = std::max(left.tickets[0].position, right.tickets[0].position);
    const PieceId joined = std::exchange(b.first, right.next);
    DropPiece(joined);
    if (joined == b.last) return a;
  }
  pieces_[a.last].next = b.first;
  pieces_[b.first].previous = a.last;
  return {a.first, b.last};
}

void TicketLists::JoinNeighbours(std::vector<Piece>& pieces, std::size_t begin) {
  const std::size_t run = CeilDivide(pieces.size() - begin, kMostAfterShrink);
  if (run <= 1) return;
  std::size_t to = begin;
  for (std::size_t from = begin; from < pieces.size(); from += run, ++to) {
    if (from != to) pieces[to] = std::move(pieces[from]);
    const std::size_t end = std::min(from + run, pieces.size());
    for (std::size_t joined = from + 1; joined < end; ++joined) {
      AddTickets(pieces[to].tickets, pieces[joined].tickets);
      pieces[to].end = pieces[joined].end;
    }
  }
  pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(to), pieces.end());
}

TicketLists::List TicketLists::LinkFrom(std::vector<Piece>& pieces, std::size_t begin) {
  if (begin == pieces.size()) return {};
  for (std::size_t at = begin; at < pieces.size(); ++at) {
    pieces[at].previous = static_cast<PieceId>(at - 1);
    pieces[at].next = static_cast<PieceId>(at + 1);
  }
  pieces[begin].previous = kNoPiece;
  pieces.back().next = kNoPiece;
  return {static_cast<PieceId>(begin), static_cast<PieceId>(pieces.size() - 1)};
}

void TicketLists::SplitAt(List list, std::int64_t offset, List& before, List& after) {
  PieceId second = FirstEndingAfter(list, offset);
  if (second == kNoPiece) {
    before = list;
    after = {};
    return;
  }
  if (pieces_[second].begin < offset) {  // on both sides
    const PieceId right = MakePiece(offset, pieces_[second].end, Tickets(pieces_[second].tickets));
    pieces_[second].end = offset;
    const PieceId next = std::exchange(pieces_[second].next, kNoPiece);
    pieces_[right].next = next;
    if (next != kNoPiece) pieces_[next].previous = right;
    before = {list.first, second};
    after = {right, list.last == second ? right : list.last};
    return;
  }
  const PieceId first = std::exchange(pieces_[second].previous, kNoPiece);
  if (first != kNoPiece) pieces_[first].next = kNoPiece;
  before = first == kNoPiece ? List() : List{list.first, first};
  after = {second, list.last};
}

}  // namespace tidepool::pool
