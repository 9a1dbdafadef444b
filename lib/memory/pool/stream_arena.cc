// SPDX-License-Identifier: Apache-2.0
// The arena knows offsets, callers know addresses, and streams know tickets: each change goes to
// all three.
#include "lib/memory/pool/stream_arena.h"

#include <cstdint>
#include <utility>

#include "lib/memory/blocks/block_map.h"
#include "lib/memory/pool/segment_blocks.h"
#include "lib/memory/pool/stream_order.h"
#include "lib/memory/pool/ticket_lists.h"
#include "tidepool/placement.h"

namespace tidepool::pool {
namespace {

// The free blocks as a stream prefers them. Among blocks of about the size that fits best, the
// answer is a block that needs no wait of the stream. Questions about addresses get the block map's
// answers: an order of addresses leaves no choice.
class WaitAvoidingBlocks final : public FreeBlocks {
 public:
  WaitAvoidingBlocks(blocks::BlockMap& blocks, const TicketLists& tickets, const StreamOrder& order,
                     const StreamClock& clock)
      : blocks_(blocks), tickets_(tickets), order_(order), clock_(clock) {}

  BlockId SmallestFit(std::int64_t bytes) override {
    return Prefer(blocks_.SmallestFit(bytes), bytes, bytes / kSlack);
  }
  BlockId ExactFit(std::int64_t bytes) override {
    return Prefer(blocks_.ExactFit(bytes), bytes, 0);
  }
  BlockId LowestFit(std::int64_t bytes) override { return blocks_.LowestFit(bytes); }
  BlockId HighestFit(std::int64_t bytes) override { return blocks_.HighestFit(bytes); }
  BlockId Covering(std::int64_t offset, std::int64_t bytes, Clue* clue) override {
    return blocks_.Covering(offset, bytes, clue);
  }

 private:
  // A block may be larger than the best fit by 1/kSlack of the request.
  static constexpr std::int64_t kSlack = 8;
  static constexpr int kMostTries = 8;

  BlockId Prefer(BlockId best, std::int64_t bytes, std::int64_t slack) {
    BlockId block = best;
    for (int tries = 0; tries < kMostTries && block != kNoBlock; ++tries) {
      if (blocks_.bytes(block) > blocks_.bytes(best) + slack) break;
      if (!MustWaitFor(block, bytes)) return block;
      block = blocks_.NextBySize(block);
    }
    return best;
  }

  bool MustWaitFor(BlockId block, std::int64_t bytes) const {
    const std::int64_t begin = blocks_.offset(block);
    return !tickets_.ForEach(block, begin, begin + bytes, [&](const Ticket& ticket) {
      return !order_.MustWait(clock_, ticket);
    });
  }

  blocks::BlockMap& blocks_;
  const TicketLists& tickets_;
  const StreamOrder& order_;
  const StreamClock& clock_;
};

}  // namespace

StreamArena::StreamArena(Device& device, const PoolOptions& options,
                         std::unique_ptr<PlacementPolicy> policy, std::int64_t address_bytes)
    : policy_(std::move(policy)),
      is_exact_(options.exact_placement),
      granules_(options.remap ? Granules(device.granularity()) : Granules()),
      arena_(0, options.alignment, *policy_, address_bytes),
      hand_over_(device, arena_.blocks(), options.late_frees) {}

Placement StreamArena::ChooseAvoidingWaits(const Request& request, const StreamClock& clock) {
  WaitAvoidingBlocks preferred(arena_.blocks(), hand_over_.tickets(), hand_over_.order(), clock);
  return granules_.has_any() ? ChooseAmong(request, preferred) : arena_.Place(request, preferred);
}

Placement StreamArena::ChooseAmong(const Request& request, FreeBlocks& answers) {
  GranuleBlocks fitting(answers, arena_.blocks(), granules_);
  return fitting.Adjusted(arena_.Place(request, fitting), request.bytes);
}

bool StreamArena::FreeObserved(const void* address, StreamClock& clock, Observers& observers) {
  const BlockId block = Find(address);
  if (block == kNoBlock) return false;
  observers.OnFree(block, clock);
  if (hand_over_.keeps_tickets()) {
    FreeBlock(block, hand_over_.TakeTickets(block, clock));
  } else {
    arena_.FreeBlock(block);
  }
  NoteFree();
  return true;
}

void StreamArena::FreeCached(const void* address, StreamClock* clock) {
  Tickets tickets;
  if (clock != nullptr) tickets.push_back(StreamOrder::NextTicket(*clock));
  FreeBlock(Find(address), tickets);
  NoteFree();
}

void StreamArena::Split(const void* address, std::int64_t bytes) {
  const BlockId first = Find(address);
  hand_over_.NoteSplit(first, arena_.blocks().SplitUsed(first, bytes));
  ++allocations_;
}

void StreamArena::FreeBlock(BlockId block, const Tickets& tickets) {
  const blocks::BlockMap& blocks = arena_.blocks();
  const BlockId before = FreeOrNone(blocks.Previous(block));
  const BlockId after = FreeOrNone(blocks.Next(block));
  const std::int64_t begin = blocks.offset(block);
  const Range range = {begin, begin + blocks.bytes(block)};
  hand_over_.NoteFreed(before, range, tickets, after, arena_.FreeBlock(block));
}

BlockId StreamArena::Include(const Range& range, const Tickets& tickets) {
  blocks::BlockMap& blocks = arena_.blocks();
  const BlockId id = BlockAt(blocks, range.begin);
  const BlockId before =
      range.begin == blocks.offset(id) ? FreeOrNone(blocks.Previous(id)) : kNoBlock;
  const BlockId after =
      range.end == blocks.offset(id) + blocks.bytes(id) ? FreeOrNone(blocks.Next(id)) : kNoBlock;
  const BlockId merged = blocks.Include(id, range.begin, range.end);
  hand_over_.NoteIncluded(before, range, tickets, after, merged);
  return merged;
}

BlockId StreamArena::Extend(std::int64_t end) {
  arena_.blocks().Resize(end);
  return arena_.blocks().Last();
}

void StreamArena::Exclude(BlockId block, const Range& range) {
  blocks::BlockMap& blocks = arena_.blocks();
  if (range.end < blocks.capacity()) return ExcludeInside(block, range);
  const BlockId before = blocks.offset(block) < range.begin ? block : kNoBlock;
  hand_over_.NoteExcluded(block, range, before, kNoBlock);
  blocks.Resize(range.begin);
}

void StreamArena::ExcludeInside(BlockId block, const Range& range) {
  blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.offset(block);
  const std::int64_t end = begin + blocks.bytes(block);
  const BlockId before = begin < range.begin ? block : kNoBlock;
  const BlockId excluded = blocks.Exclude(Placement::At(block, range.begin), range.bytes());
  hand_over_.NoteExcluded(block, range, before, range.end < end ? blocks.Next(excluded) : kNoBlock);
}

}  // namespace tidepool::pool
