// SPDX-License-Identifier: Apache-2.0
// Backing: one range of addresses, reserved once, with pieces of physical memory mapped inside it.
//
// A piece is mapped, moved and unmapped as a whole. A backing can lend the memory of all its pieces
// and keep their addresses.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_BACKING_H_
#define TIDEPOOL_LIB_MEMORY_POOL_BACKING_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/arithmetic.h"
#include "lib/memory/pool/physical_store.h"
#include "lib/memory/pool/range.h"
#include "tidepool/device.h"

namespace tidepool::pool {

// Offsets from the beginning of the range; ranges are [begin, end). Not thread-safe, but for base,
// reserved_bytes and held_bytes.
class Backing {
 public:
  using Range = pool::Range;

  // The memory is taken from the store and goes back to it.
  Backing(Device& device, PhysicalStore& store) : device_(device), store_(store) {
    store_.Join(taker_);
  }
  // Gives back all memory; nothing may use it any more. Memory that the device does not take back,
  // not even when asked twice, is reported on stderr.
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // Reserves addresses for `bytes`, rounded up. Called once, first.
  absl::Status Reserve(std::int64_t bytes);
  // Maps new memory to ranges of whole granules in which nothing is mapped, in pieces of about
  // `piece_bytes`. After an error there is nothing mapped, or it is unusable.
  absl::Status Map(absl::Span<const Range> ranges, std::int64_t piece_bytes);
  // Unmaps the piece that begins at `begin`, which no work uses, and gives it to the device, or
  // lends it to the other takers. After an error it may still be there: see HasPiece.
  absl::Status Unmap(std::int64_t begin, Receiver receiver = Receiver::kDevice);
  // Unmaps the piece likewise; a piece that the device does not unmap becomes unusable.
  void Discard(std::int64_t begin);
  // Maps the piece that begins at `from` to `to` instead, where nothing is mapped. Its memory stays
  // mapped at the old offset too, which is unusable until DropAlias.
  absl::Status Move(std::int64_t from, std::int64_t to);
  // Undoes a move.
  void UndoMove(std::int64_t from, std::int64_t to);
  // Unmaps the offset that a piece was moved from, after the last work that used it there. After an
  // error it may be tried again.
  absl::Status DropAlias(std::int64_t from);
  // HasUnfinished returns whether the device refused to unmap or release memory before; Retry tries
  // it again.
  bool HasUnfinished() const { return !stuck_.empty() || !unreleased_.empty(); }
  absl::Status Retry();

  // Lends the memory of all pieces to others, which take it after `work`. The pieces are not used
  // until EndTakingBack, and no other function changes them.
  void Lend(std::shared_ptr<QueuedWork> work);
  // Returns the lent pieces that others have the memory of, in the order of addresses.
  std::vector<Range> GonePieces() const;
  // Forgets such a piece: its addresses have no memory.
  void ForgetGone(std::int64_t begin) { pieces_.erase(begin); }
  // The next four map memory to all pieces again: their own, or other memory where a taker has
  // that. Several backings make each step in turn, so that all have their memory before the first
  // piece is mapped. LendAgain follows an error of a step, of PhysicalStore::BeginTaking too, and
  // lends all memory as before.
  //
  // Takes their own memory. Returns the other memory that BeginTaking shall allow.
  PhysicalStore::Taking BeginTakingBack();
  absl::Status TakeOther(Taker& payer);
  absl::Status MapOther();
  void EndTakingBack();
  void LendAgain();
  // Returns the pieces that have other memory than at their first Lend since the last ForgetLost,
  // in the order of addresses.
  std::vector<Range> LostPieces() const;
  void ForgetLost();

  // Leaves all memory to the device for ever: work may still use it.
  void Abandon();

  char* base() const { return base_; }
  std::int64_t reserved_bytes() const { return reserved_bytes_; }
  // Returns the bytes of the device's memory that the backing holds, mapped or not.
  std::int64_t held_bytes() const { return taker_.held_bytes(); }
  Taker& taker() { return taker_; }
  // Notes the bytes that all takers of the store hold now.
  void NotePeak() { store_.NotePeak(); }
  bool HasPiece(std::int64_t begin) const { return pieces_.contains(begin); }
  // Returns the pieces that lie wholly inside a range, in the order of addresses.
  std::vector<Range> PiecesIn(const Range& range) const;
  // Returns how many bytes of pieces lie in a range.
  std::int64_t PieceBytesIn(const Range& range) const;
  // Returns the end of an unusable stretch that overlaps a range; -1 when nothing in it is
  // unusable.
  std::int64_t EndOfUnusable(const Range& range) const;
  std::int64_t Rounded(std::int64_t bytes) const { return AlignUp(bytes, device_.granularity()); }

 private:
  struct Piece {
    std::int64_t end = 0;
    PhysicalMemory memory;
    bool is_lost = false;  // the contents are
  };
  using Pieces = absl::btree_map<std::int64_t, Piece>;  // by first offset

  absl::Status MapPiece(const Range& range);
  void Release(const Range& range, PhysicalMemory memory, absl::Status* status);
  // Ends the loan of the pieces that have their memory. Returns the others, by their first offset.
  std::vector<std::int64_t> TakeBackOwn();
  // Lends the memory of all pieces that are not missing.
  void LendOwn();

  Device& device_;
  PhysicalStore& store_;
  char* base_ = nullptr;
  std::int64_t reserved_bytes_ = 0;
  Taker taker_;
  Pieces pieces_;
  Pieces aliases_;  // old offsets of moved pieces, without a memory of their own
  Pieces stuck_;    // the device would not unmap them; without a memory when they were not pieces
  // Memory that is mapped nowhere and that the device would not take back.
  std::vector<std::pair<Range, PhysicalMemory>> unreleased_;
  bool is_lent_ = false;
  std::shared_ptr<QueuedWork> lent_after_;
  // While memory is taken back: the pieces without memory, in the order of addresses, and the
  // memory that was taken for the first of them.
  std::vector<std::int64_t> missing_;
  std::vector<PhysicalMemory> taken_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_BACKING_H_
