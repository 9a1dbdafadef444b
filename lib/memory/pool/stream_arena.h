// SPDX-License-Identifier: Apache-2.0
// StreamArena: the blocks of a pool, their addresses, and the tickets of its free blocks.
//
// It serves requests from free blocks and changes blocks and tickets together. Memory enters and
// leaves it through a MemorySource.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_STREAM_ARENA_H_
#define TIDEPOOL_LIB_MEMORY_POOL_STREAM_ARENA_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "lib/memory/blocks/arena.h"
#include "lib/memory/pool/address_map.h"
#include "lib/memory/pool/granules.h"
#include "lib/memory/pool/hand_over.h"
#include "lib/memory/pool/observers.h"
#include "lib/memory/pool/range.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// Not thread-safe, but for Rounded and HandOver::keeps_tickets: the books' mutex guards it.
class StreamArena {
 public:
  // The arena has `address_bytes` of offsets at most, and no memory yet.
  StreamArena(Device& device, const PoolOptions& options, std::unique_ptr<PlacementPolicy> policy,
              std::int64_t address_bytes);

  // Returns the size of the block that serves a request.
  std::int64_t Rounded(std::int64_t bytes) const {
    return granules_.Rounded(arena_.Rounded(bytes));
  }

  // The steps of an allocation. Chooses a free block; kNoBlock when there is no room.
  Placement Choose(const Request& request, const StreamClock& clock) {
    if (!arena_.blocks().HasNames()) [[unlikely]]
      return Placement::None();
    if (is_exact_ || !hand_over_.keeps_tickets()) [[likely]]
      return ChooseExactly(request);
    return ChooseAvoidingWaits(request, clock);
  }
  // Makes the stream wait for the work that may still use the memory. Returns whether work of other
  // streams may still run then.
  absl::StatusOr<bool> Order(const Placement& placement, std::int64_t bytes, StreamClock& clock,
                             Observers& observers) {
    if (!hand_over_.keeps_tickets()) [[likely]]
      return false;
    const std::int64_t begin = arena_.blocks().OffsetOf(placement, bytes);
    return hand_over_.MakeStreamWait(placement.block, {begin, begin + bytes}, clock, observers);
  }
  // Makes the memory live.
  BlockId Take(const Placement& placement, std::int64_t bytes, const StreamClock& clock,
               bool is_after_others) {
    const BlockId block = arena_.Take(placement, bytes);
    hand_over_.NoteTaken(placement.block, block, clock, is_after_others);
    ++allocations_;
    return block;
  }

  // Frees a live allocation. Returns false, and does nothing, when none begins at `address`.
  bool Free(const void* address, StreamClock& clock, Observers& observers) {
    if (hand_over_.keeps_tickets() || observers.NeedsBlocks()) [[unlikely]]
      return FreeObserved(address, clock, observers);
    if (!arena_.Free(addresses_.OffsetOf(address))) [[unlikely]]
      return false;
    NoteFree();
    return true;
  }
  // Frees an allocation that no other stream uses. `clock` is null when the work of the stream that
  // freed it has finished.
  void FreeCached(const void* address, StreamClock* clock);

  // Splits a live allocation into two, of which the first has `bytes`.
  void Split(const void* address, std::int64_t bytes);

  // Returns the live block that begins at an address, or kNoBlock.
  BlockId Find(const void* address) { return arena_.blocks().Find(addresses_.OffsetOf(address)); }
  void* AddressOf(BlockId block) const {
    return addresses_.AddressOf(arena_.blocks().offset(block));
  }

  // Makes a range of an excluded block, which has memory now, free under tickets. Returns the free
  // block that it is in. O(blocks).
  BlockId Include(const Range& range, const Tickets& tickets);
  // Moves the end of the arena up to `end`; the new range has memory and no tickets. Returns the
  // free block at the end.
  BlockId Extend(std::int64_t end);
  // Takes a range out of a free block: off the end of the arena, or else as an excluded block. The
  // rest of the block in front of the range keeps its name.
  void Exclude(BlockId block, const Range& range);
  // Takes it out as an excluded block, also at the end of the arena.
  void ExcludeInside(BlockId block, const Range& range);
  BlockId FreeOrNone(BlockId block) const {
    return block == kNoBlock || arena_.blocks().used(block) ? kNoBlock : block;
  }

  std::int64_t allocations() const { return allocations_; }
  std::int64_t frees() const { return frees_; }
  std::int64_t live_count() const { return allocations_ - frees_; }
  blocks::Arena& arena() { return arena_; }
  blocks::BlockMap& blocks() { return arena_.blocks(); }
  const blocks::Arena& arena() const { return arena_; }
  const blocks::BlockMap& blocks() const { return arena_.blocks(); }
  AddressMap& addresses() { return addresses_; }
  const AddressMap& addresses() const { return addresses_; }
  HandOver& hand_over() { return hand_over_; }
  const HandOver& hand_over() const { return hand_over_; }
  const Granules& granules() const { return granules_; }

 private:
  Placement ChooseExactly(const Request& request) {
    if (granules_.has_any()) [[unlikely]]
      return ChooseAmong(request, arena_.blocks());
    return arena_.Place(request, arena_.blocks());
  }
  Placement ChooseAvoidingWaits(const Request& request, const StreamClock& clock);
  Placement ChooseAmong(const Request& request, FreeBlocks& answers);
  bool FreeObserved(const void* address, StreamClock& clock, Observers& observers);
  void FreeBlock(BlockId block, const Tickets& tickets);
  void NoteFree() {
    ++frees_;
    if (arena_.blocks().HasManySpares()) [[unlikely]]
      hand_over_.Shrink(arena_.blocks().Shrink());
  }

  const std::unique_ptr<PlacementPolicy> policy_;
  const bool is_exact_;
  const Granules granules_;
  AddressMap addresses_;
  blocks::Arena arena_;
  HandOver hand_over_;
  std::int64_t allocations_ = 0;
  std::int64_t frees_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_STREAM_ARENA_H_
