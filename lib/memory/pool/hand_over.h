// SPDX-License-Identifier: Apache-2.0
// HandOver: in which order streams hand memory of a pool over to each other.
//
// Each free block keeps the tickets of the work that may still use it. A stream that takes the
// block waits for that work on the device. As long as a pool has served only one stream, the order
// of that stream is enough, and no tickets are kept.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_HAND_OVER_H_
#define TIDEPOOL_LIB_MEMORY_POOL_HAND_OVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/memory/blocks/block_map.h"
#include "lib/memory/pool/observers.h"
#include "lib/memory/pool/pool_locks.h"
#include "lib/memory/pool/range.h"
#include "lib/memory/pool/stream_order.h"
#include "lib/memory/pool/ticket_lists.h"

namespace tidepool::pool {

// Not thread-safe, but for keeps_tickets: the books' mutex guards it. Blocks are those of the block
// map, which is changed by the owner.
class HandOver {
 public:
  // `late_frees`: PoolOptions::late_frees.
  HandOver(Device& device, const blocks::BlockMap& blocks, bool late_frees)
      : blocks_(blocks), order_(device, late_frees) {}

  // Returns the clock of a stream; NotFound when the device does not know the stream.
  absl::StatusOr<StreamClock*> FindClock(Stream stream) {
    absl::StatusOr<StreamClock*> clock = order_.Find(stream);
    if (order_.size() > 1 && !keeps_tickets()) [[unlikely]]
      BeginTickets(stream);
    return clock;
  }
  // Whether free blocks have tickets: from the second stream on, or from the first RecordUse or
  // RecordWork. It stays so.
  bool keeps_tickets() const { return keeps_tickets_.load(std::memory_order_relaxed); }

  // Makes a stream wait, on the device, for the work that may still use a range of a free block.
  // Returns whether work of other streams may still run then.
  absl::StatusOr<bool> MakeStreamWait(BlockId block, const Range& range, StreamClock& clock,
                                      Observers& observers);
  // Notes that `block` was taken out of the free block `from`, with the result of MakeStreamWait.
  void NoteTaken(BlockId from, BlockId block, const StreamClock& clock, bool is_after_others) {
    if (block >= allocated_on_.size()) [[unlikely]]
      GrowTo(block);
    allocated_on_[block] = clock.stream;
    if (keeps_tickets()) [[unlikely]]
      NoteTakenAfterCrossing(from, block, is_after_others);
  }
  // Notes that a used block, which no stream uses beside its own, was split into `first` and
  // `second`.
  void NoteSplit(BlockId first, BlockId second);
  // Returns the tickets that a used block gets when it is freed, and forgets its uses.
  Tickets TakeTickets(BlockId block, StreamClock& clock);
  // Notes that a range was freed, or got memory, under `tickets` and became one free block with the
  // free blocks `before` and `after`, or kNoBlock: `merged`.
  void NoteFreed(BlockId before, const Range& range, const Tickets& tickets, BlockId after,
                 BlockId merged);
  void NoteIncluded(BlockId before, const Range& range, const Tickets& tickets, BlockId after,
                    BlockId merged);
  // Notes that a range left the arena; `before` and `after` are free and remain of the free block.
  void NoteExcluded(BlockId from, const Range& range, BlockId before, BlockId after);

  // Gives back memory of the host that only finished work and blocks from `names` on, which are
  // gone, needed. Makes no call of the device, because a stream may be captured.
  void Shrink(std::size_t names);

  // Notes that a stream uses a live block beside the stream that will free it.
  void AddUse(BlockId block, Stream stream);
  // FailedPrecondition when a live block was allocated on another stream.
  absl::Status CheckOwner(BlockId block, Stream stream) const;
  Stream AllocatedOn(BlockId block) const { return allocated_on_[block]; }
  // Returns the tickets of the work that may still use a range of a free block.
  Tickets TicketsIn(BlockId block, const Range& range) const;
  // Returns the streams with work that may still use a block.
  std::vector<Stream> PendingStreams(BlockId block) const;
  bool HasTickets(BlockId block) const { return !TicketsOf(block).empty(); }

  // Records the work of all streams so far.
  absl::Status RecordWork() {
    if (!keeps_tickets()) BeginTickets({});
    return order_.RecordWork();
  }
  // Waits on the host for the work of tickets.
  absl::Status AwaitOnHost(const Tickets& tickets, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  // Whether the work of all tickets has finished, as far as the device says so.
  bool HasFinished(const Tickets& tickets);

  StreamOrder& order() { return order_; }
  const StreamOrder& order() const { return order_; }
  const TicketLists& tickets() const { return tickets_; }
  std::int64_t stream_waits() const { return stream_waits_; }

 private:
  void BeginTickets(Stream newest);
  void GrowTo(BlockId block);
  void NoteTakenAfterCrossing(BlockId from, BlockId block, bool is_after_others);
  Tickets TicketsOf(BlockId block) const;
  BlockId FreeOrNone(BlockId block) const {
    return block == kNoBlock || blocks_.used(block) ? kNoBlock : block;
  }

  const blocks::BlockMap& blocks_;
  StreamOrder order_;
  TicketLists tickets_;
  std::atomic<bool> keeps_tickets_ = false;
  std::vector<Stream> allocated_on_;   // by used block
  std::vector<bool> is_after_others_;  // by used block: other streams' work may run before it
  absl::flat_hash_map<BlockId, absl::InlinedVector<Stream, 2>> uses_;  // by used block
  std::int64_t stream_waits_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_HAND_OVER_H_
