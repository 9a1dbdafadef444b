// SPDX-License-Identifier: Apache-2.0
// The arena knows offsets, callers know addresses, and streams know tickets: each change goes to
// all three.
#include "lib/memory/pool/stream_arena.h"

#include <utility>

#include "lib/memory/pool/segment_blocks.h"
#include "lib/memory/pool/wait_avoiding_blocks.h"

namespace tidepool::pool {

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
