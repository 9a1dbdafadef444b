// SPDX-License-Identifier: Apache-2.0
// TicketLists: the tickets of free blocks.
//
// A free block consists of pieces, in the order of addresses, that were freed under different
// tickets. Pieces stay apart when blocks merge, so that a stream that takes a part of a large block
// waits for the work of that part alone.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_TICKET_LISTS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_TICKET_LISTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/memory/pool/ticket.h"
#include "tidepool/placement.h"

namespace tidepool::pool {

// Ranges are [begin, end), of offsets. A block that is not free has no pieces. Not thread-safe.
class TicketLists {
 public:
  // Notes that a range was freed under `tickets` and became one block with the free blocks `before`
  // and `after` it, or kNoBlock: `merged`, which may be one of them. The range joins a piece beside
  // it with a ticket of the same clock, under the newer ticket, when both are newer than
  // `joins_after`: an event may stand for the older work alone. O(1).
  void Merge(BlockId before, std::int64_t begin, std::int64_t end, const Tickets& tickets,
             BlockId after, BlockId merged, std::uint64_t joins_after);
  // Notes that a range of the block `from` was taken; the free blocks `before` and `after` the
  // range, or kNoBlock, are left of it. O(pieces in the range and between it and one end of the
  // block).
  void Take(BlockId from, std::int64_t begin, std::int64_t end, BlockId before, BlockId after);

  // Calls `visit(ticket)` for each ticket of the pieces that overlap a range of a free block, until
  // it returns false. Returns whether it never did.
  template <typename Visit>
  bool ForEach(BlockId block, std::int64_t begin, std::int64_t end, Visit visit) const {
    for (PieceId id = FirstEndingAfter(ListOf(block), begin); id != kNoPiece;
         id = pieces_[id].next) {
      if (pieces_[id].begin >= end) break;
      for (const Ticket& ticket : pieces_[id].tickets) {
        if (!visit(ticket)) return false;
      }
    }
    return true;
  }

  // Gives back memory of the host that no piece of the first `names` blocks needs; later blocks
  // have none. Drops pieces when their work has finished, as `may_run(ticket)` says, and joins
  // neighbours in blocks of more than kMostAfterShrink pieces: a stream that takes a part waits for
  // the work of the neighbours too. O(pieces).
  template <typename MayRun>
  void Shrink(std::size_t names, MayRun may_run);
  static constexpr std::size_t kMostAfterShrink = 64;

  // Returns the number of pieces of all blocks.
  std::size_t size() const { return pieces_.size() - spare_count_; }

 private:
  using PieceId = std::uint32_t;
  static constexpr PieceId kNoPiece = UINT32_MAX;

  struct Piece {
    std::int64_t begin;
    std::int64_t end;
    PieceId previous;
    PieceId next;
    Tickets tickets;
  };
  struct List {
    PieceId first = kNoPiece;
    PieceId last = kNoPiece;
  };

  List ListOf(BlockId block) const { return block < lists_.size() ? lists_[block] : List(); }
  List TakeList(BlockId block);
  void SetList(BlockId block, List list);
  PieceId FirstEndingAfter(List list, std::int64_t offset) const;

  PieceId MakePiece(std::int64_t begin, std::int64_t end, const Tickets& tickets);
  void DropPiece(PieceId id);
  bool AreAlike(PieceId a, PieceId b, std::uint64_t joins_after) const;
  List Concatenate(List a, List b, std::uint64_t joins_after);
  // Joins the pieces from `begin` on in runs, so that at most kMostAfterShrink are left.
  static void JoinNeighbours(std::vector<Piece>& pieces, std::size_t begin);
  // Makes a list of the pieces from `begin` on.
  static List LinkFrom(std::vector<Piece>& pieces, std::size_t begin);
  // Cuts a list into the pieces before `offset` and the pieces after it.
  void SplitAt(List list, std::int64_t offset, List& before, List& after);

  std::vector<List> lists_;  // by block
  std::vector<Piece> pieces_;
  PieceId spare_ = kNoPiece;  // head of the list, through `next`, of pieces to use again
  std::size_t spare_count_ = 0;
};

template <typename MayRun>
void TicketLists::Shrink(std::size_t names, MayRun may_run) {
  lists_.resize(std::min(names, lists_.size()));
  lists_.shrink_to_fit();
  std::vector<Piece> kept;
  for (List& list : lists_) {
    const std::size_t begin = kept.size();
    for (PieceId id = list.first; id != kNoPiece; id = pieces_[id].next) {
      if (std::ranges::any_of(pieces_[id].tickets, may_run)) kept.push_back(std::move(pieces_[id]));
    }
    JoinNeighbours(kept, begin);
    list = LinkFrom(kept, begin);
  }
  kept.shrink_to_fit();
  pieces_ = std::move(kept);
  spare_ = kNoPiece;
  spare_count_ = 0;
}

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_TICKET_LISTS_H_
