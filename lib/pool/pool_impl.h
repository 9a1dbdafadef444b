// The pool: an arena over growing memory, the order of streams, and a line of waiting allocations.
// One class, whose functions are in one file an idea.
//
// Three locks guard it, taken in this order:
//   give_back_mutex_  a thread holds it while it gives memory back to the device
//   memory_mutex_     a thread holds it while it changes which memory the pool has
//   mutex_            guards the books
// No thread waits for work of a stream while it holds one of the last two, and none calls the
// device for memory while it holds mutex_: the driver may wait for all work in such a call. That
// work may wait for a thread that frees memory of this pool, which needs mutex_.
#ifndef TIDEPOOL_LIB_POOL_POOL_IMPL_H_
#define TIDEPOOL_LIB_POOL_POOL_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "lib/blocks/arena.h"
#include "lib/pool/address_map.h"
#include "lib/pool/backing.h"
#include "lib/pool/backoff_mutex.h"
#include "lib/pool/granules.h"
#include "lib/pool/iterations.h"
#include "lib/pool/memory_lock.h"
#include "lib/pool/segments.h"
#include "lib/pool/stream_order.h"
#include "lib/pool/ticket_lists.h"
#include "lib/pool/waiting_line.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

using blocks::BlockMap;

// Memory is taken from the device in pieces of this part of the pool, so that some of it can be
// given back and the calls are few.
inline constexpr std::int64_t kPieces = 16;

// Smaller segments are not taken when there is budget for more: they could serve little else.
inline constexpr std::int64_t kLeastSegment = std::int64_t{2} << 20;
inline constexpr std::int64_t kLeastSegmentPart = 1024;  // of a small budget

// A pool that may remap moves free memory rather than take new when that is so large a part of it:
// so little is free, and moves are seldom.
inline constexpr std::int64_t kFreePart = 12;

// A part of a room that has no memory, and whose work may still use the memory that fills it.
struct Gap {
  Backing::Range range;
  Tickets tickets;
};

// Addresses for a request: nothing in them is live. The block is the one that holds them when there
// is no gap.
struct Room {
  Backing::Range range;
  BlockId block = kNoBlock;
  std::vector<Gap> gaps;
};

// A piece inside a free block whose memory is moved, and whose work may still use it.
struct Donor {
  BlockId block = kNoBlock;
  Backing::Range piece;
  Tickets tickets;
};

// Old addresses of a piece, which work of the tickets may still use.
struct Alias {
  std::int64_t begin = 0;
  Tickets tickets;
};

// Free memory on its way back to the device. It is out of the arena while a thread waits for the
// work that last used it, and goes back in when another thread needs room.
struct Leaving {
  Range range;
  Tickets tickets;
};

// How far one growth has come.
struct GrowthState {
  bool again = false;            // something changed: look for a place once more
  bool gives_back = false;       // the thread holds give_back_mutex_
  bool must_give_back = false;   // and needs to
  bool device_is_full = false;   // no segment was to be had
  bool awaited_aliases = false;  // there is no room without aliases, and they were awaited
};

// The error for an allocation that is free already.
absl::Status DoubleFreeError(const void* address);

class PoolImpl final : public Pool {
 public:
  // `planned` is the policy, or null when that is another one.
  PoolImpl(Device& device, const PoolOptions& options, std::unique_ptr<PlacementPolicy> policy,
           PlannedPlacement* planned)
      : device_(device),
        options_(options),
        policy_(std::move(policy)),
        planned_(planned),
        backing_(device),
        order_(device),
        segments_(addresses_, options.alignment),
        granules_(device.granularity()),
        arena_(0, options.alignment, *policy_, AddressBytes(options, device)) {
    if (planned == nullptr) return;
    iterations_ = std::make_unique<Iterations>(*planned, options);
  }
  ~PoolImpl() override;

  // How many bytes of offsets a pool needs.
  static std::int64_t AddressBytes(const PoolOptions& options, const Device& device);
  absl::Status Start();

  absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream, Hint hint) override;
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                         absl::Time deadline) override;
  absl::Status Free(void* address, Stream stream) override;
  absl::Status FreeOwn(void* address, Stream stream) override;
  absl::StatusOr<Stream> AllocatedOn(const void* address) override;
  absl::Status RecordUse(void* address, Stream stream) override;
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  void Mark(std::string_view name) override;
  void MarkIteration() override;
  void AwaitPlans() override;
  PoolStats Stats() const override;
  std::vector<PoolBlock> Snapshot() const override;
  void* base() const override { return backing_.base(); }
  std::int64_t OffsetOf(const void* address) const override;
  absl::Status CheckInvariants() const override;
  // How many allocations sleep until other calls make room: for tests, which cannot see otherwise
  // that a thread does nothing more by itself.
  std::int64_t CountAsleep() const;

  // For a layer around the pool. Neither of the two needs a lock.
  bool HasCrossed() const { return has_crossed_.load(std::memory_order_relaxed); }
  bool CanServe(std::size_t bytes) const { return bytes > 0 && bytes <= MostBytes(); }
  std::int64_t Rounded(std::int64_t bytes) const {
    const std::int64_t rounded = arena_.Rounded(bytes);
    return options_.remap ? granules_.Rounded(rounded) : rounded;
  }
  std::size_t CountStreams() const;
  // Allocate without growth. Returns null when no free block serves the request.
  absl::StatusOr<void*> AllocateFromFree(std::int64_t bytes, Stream stream, Hint hint);
  // Frees allocations of a stream that may have been destroyed, and that no other stream uses.
  void FreeCached(absl::Span<void* const> addresses, Stream stream);

 private:
  // What can be asked for at all.
  std::size_t MostBytes() const {
    return static_cast<std::size_t>(std::min(options_.max_bytes, kMaxRequestBytes));
  }

  // Functions below hold the lock. Where one returns a null address there is no room.

  // Those with a parameter `lock` or `memory` release it meanwhile, and other threads change the
  // pool: no block or timeline that was found before them is good after them.

  absl::StatusOr<void*> TryAllocate(std::int64_t bytes, Hint hint, Stream stream, Lock& lock,
                                    const Waiter* waiter = nullptr);
  absl::StatusOr<void*> PlaceOrGrow(std::int64_t bytes, Hint hint, Stream stream, Lock& lock,
                                    const Waiter* waiter);
  absl::StatusOr<void*> TryPlace(std::int64_t bytes, Hint hint, Stream stream);
  absl::StatusOr<void*> Take(const Placement& placement, const Request& request,
                             std::int64_t asked_bytes, Timeline& timeline);
  Placement Place(const Request& request, Timeline& timeline);

  // What is one with virtual memory and another with segments begins here.
  absl::Status TakeInitial(MemoryLock& memory);
  absl::StatusOr<Placement> Grow(const Request& request, Stream stream, Lock& lock);
  absl::StatusOr<Placement> GrowOnce(const Request& request, MemoryLock& memory,
                                     GrowthState& state);
  bool MayGrow(std::int64_t bytes) const;

  absl::StatusOr<Placement> GrowInPlace(const Request& request, MemoryLock& memory,
                                        GrowthState& state);
  absl::Status RetryGivingBack(MemoryLock& memory);
  std::optional<Room> FindRoom(std::int64_t bytes) const;
  Backing::Range RangeFrom(std::int64_t begin, std::int64_t bytes) const;
  std::vector<Gap> Gaps(const Backing::Range& range) const;
  absl::StatusOr<BlockId> Fill(Room room, MemoryLock& memory);
  bool CanCutOffEnd(const Room& room, std::int64_t excess) const;
  void CutOffEnd(std::int64_t excess);
  absl::Status MapGaps(const Room& room, MemoryLock& memory);
  BlockId Include(const Room& room);
  BlockId Include(const Range& range, const Tickets& tickets);
  BlockId Extend(std::int64_t end, const Range& range, const Tickets& tickets);
  bool IsFree(BlockId block, const Range& range) const;
  BlockId BlockAt(std::int64_t offset) const;
  std::int64_t GrowthStep() const;
  // The least that is taken of the device at once.
  std::int64_t LeastGrowth() const;
  void CountGrowth();

  absl::StatusOr<Placement> GrowBySegment(const Request& request, MemoryLock& memory,
                                          GrowthState& state);
  absl::StatusOr<BlockId> AddSegment(std::int64_t bytes, std::int64_t step, MemoryLock& memory);
  absl::StatusOr<Placement> GiveBackFor(const std::vector<BlockId>& segments, MemoryLock& memory,
                                        GrowthState& state);
  BlockId IncludeSegment(const Range& segment);
  std::vector<BlockId> FreeSegments() const;
  std::vector<BlockId> SegmentsForBudget(std::int64_t missing) const;
  std::int64_t HighWater() const;
  void NoteHighWater();

  absl::StatusOr<BlockId> FillByMoving(Room room, bool moves_all, MemoryLock& memory);
  std::vector<Donor> Donors(const Backing::Range& room) const;
  absl::Status MapAndMove(absl::Span<const Range> wanted, const std::vector<Donor>& donors);
  absl::Status MoveAll(const std::vector<Donor>& donors, absl::Span<const Range> places);
  static void GiveTickets(const Donor& donor, std::int64_t place, Room& room);
  static void AddTicket(Tickets& tickets, const Ticket& ticket);
  void ExcludeFree(BlockId block, const Backing::Range& range);
  std::vector<Backing::Range> GranulesOf(const std::vector<Gap>& gaps) const;
  void DropAliases(MemoryLock& memory);
  absl::Status AwaitAliases(MemoryLock& memory);
  bool IsOver(const Tickets& tickets);

  // The thread holds give_back_mutex_.
  absl::Status GiveBack(std::int64_t keep_bytes, MemoryLock& memory);
  void SetAsideSegments(std::int64_t keep_bytes);
  void SetAsideSegment(BlockId block);
  void SetAsidePieces(std::int64_t keep_bytes);
  void SetAside(BlockId block, const Range& range);
  absl::Status GiveBackLeaving(MemoryLock& memory);
  absl::Status GiveBackSegment(const Range& segment, MemoryLock& memory);
  void TakeBackLeaving();
  void CutOut(BlockId block, const Backing::Range& range);
  Tickets TicketsIn(BlockId block, const Range& range);
  absl::Status AwaitOnHost(const Tickets& tickets, MemoryLock& memory);

  bool BeginsIteration() const { return iterations_ != nullptr && iterations_->IsBoundary(); }
  void BeginIteration(Lock& lock);
  std::vector<Range> FixedRanges() const;
  void Provide(std::int64_t bytes, Lock& lock);
  void ProvideSegment(std::int64_t bytes, MemoryLock& memory);
  absl::Status ProvideInPlace(std::int64_t bytes, MemoryLock& memory);

  absl::StatusOr<bool> AwaitTickets(BlockId block, std::int64_t begin, std::int64_t end,
                                    Timeline& timeline);
  void CountWait(const Timeline& timeline, const Ticket& ticket);
  absl::Status Refuse(std::size_t bytes, Hint hint, Stream stream);
  absl::Status RefuseUnasked(std::size_t bytes, Hint hint, Stream stream);
  absl::StatusOr<void*> Look(const Waiter& waiter, Lock& lock);
  absl::Status TooLate(const Waiter& waiter);
  void ServeWaiting();
  void Serve(Waiter& waiter);

  absl::StatusOr<Timeline*> FindStream(Stream stream);
  void BeginCrossing(Stream newest);
  absl::Status NotLive(const void* address) const;
  absl::Status FreeLive(const void* address, Timeline& timeline);
  bool TakeBack(const void* address, Timeline& timeline);
  Tickets TakeTickets(BlockId block, Timeline& timeline);
  void FreeWithTickets(BlockId block, const Tickets& tickets);
  // The block when it is a free one, or kNoBlock.
  BlockId FreeOrNone(BlockId block) const;

  // One of the two is empty. Needs no lock.
  std::int64_t HeldBytes() const { return backing_.held_bytes() + segments_.held_bytes(); }
  PoolStats StatsLocked() const;
  std::int64_t LeavingBytesIn(const Range& range) const;
  void ReportLive() const;

  Device& device_;
  const PoolOptions options_;
  std::unique_ptr<PlacementPolicy> policy_;
  PlannedPlacement* const planned_;

  std::mutex give_back_mutex_;
  mutable std::mutex memory_mutex_;  // of the next two, and of what the arena consists of
  Backing backing_;                  // the pool's memory, or empty: one of this and segments_ is
  std::vector<Alias> aliases_;       // still mapped

  mutable BackoffMutex mutex_;  // of all that follows
  StreamOrder order_;
  AddressMap addresses_;
  Segments segments_;
  Granules granules_;
  std::deque<Leaving> leaving_;  // the last ones of the arena first; of the thread that gives back
  std::int64_t given_back_bytes_ = 0;
  blocks::Arena arena_;
  Tickets cut_off_tickets_;  // of what the last granule has after the end of the arena
  std::unique_ptr<Iterations> iterations_;  // of a pool whose placement is planned
  // By name of a used block: the stream that it was allocated on.
  std::vector<Stream> allocated_on_;
  // And whether that stream got it behind work of others, which may still run.
  std::vector<bool> behind_others_;
  // Streams that use a live block beside the one that will free it.
  absl::flat_hash_map<BlockId, absl::InlinedVector<Stream, 2>> uses_;
  // Whether there was ever more than one stream: as long as there is not, nobody needs tickets.
  bool crossing_ = false;
  std::atomic<bool> has_crossed_ = false;  // the same, for threads without the lock
  TicketLists tickets_;
  WaitingLine line_;
  std::int64_t allocations_at_growth_ = 0;
  std::string growth_error_;
  // What a block had reached of the offsets when segments last came or went, and the most bytes
  // that this ever was without fences.
  std::int64_t noted_end_ = 0;
  std::int64_t noted_high_water_ = 0;
  PoolStats stats_;  // what is counted; the rest is asked for
};

inline absl::StatusOr<Timeline*> PoolImpl::FindStream(Stream stream) {
  absl::StatusOr<Timeline*> timeline = order_.Find(stream);
  if (order_.size() > 1 && !crossing_) [[unlikely]]
    BeginCrossing(stream);
  return timeline;
}

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_POOL_IMPL_H_
