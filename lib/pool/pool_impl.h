// The pool: an arena over growing memory, the order of streams, and a line of those who wait. One
// class, whose functions are in one file an idea.
#ifndef TIDEPOOL_LIB_POOL_POOL_IMPL_H_
#define TIDEPOOL_LIB_POOL_POOL_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "lib/blocks/arena.h"
#include "lib/pool/backing.h"
#include "lib/pool/backoff_mutex.h"
#include "lib/pool/front_caches.h"
#include "lib/pool/stream_order.h"
#include "lib/pool/ticket_lists.h"
#include "lib/pool/waiting_line.h"
#include "tidepool/pool.h"
#include "tidepool/trace.h"

namespace tidepool::pool {

using blocks::BlockMap;

// Memory is taken from the device in pieces of this part of the pool, so that some of it can be
// given back and the calls are few.
inline constexpr std::int64_t kPieces = 16;

// A front cache holds at most this part of the pool.
inline constexpr std::int64_t kFrontPart = 128;

class PoolImpl final : public Pool {
 public:
  PoolImpl(Device& device, const PoolOptions& options, std::unique_ptr<PlacementPolicy> policy)
      : device_(device),
        options_(options),
        policy_(std::move(policy)),
        order_(device),
        backing_(device),
        arena_(0, options.alignment, *policy_, options.max_bytes) {}
  ~PoolImpl() override;

  absl::Status Start();

  absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream, Hint hint) override;
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                         absl::Time deadline) override;
  absl::Status Free(void* address, Stream stream) override;
  absl::Status RecordUse(void* address, Stream stream) override;
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  void Mark(std::string_view name) override;
  PoolStats Stats() const override;
  std::vector<PoolBlock> Snapshot() const override;
  void* base() const override { return backing_.base(); }
  absl::Status CheckInvariants() const override;

 private:
  // What can be asked for at all.
  std::size_t MostBytes() const {
    return static_cast<std::size_t>(std::min(options_.max_bytes, kMaxRequestBytes));
  }

  // Two that need no lock. Null, or false: it is for the pool.
  void* AllocateFromFront(std::size_t bytes, Stream stream);
  bool FreeToFront(void* address, Stream stream);

  // Functions below hold the lock. Where one returns a null address there is no room.

  absl::StatusOr<void*> TryAllocate(std::int64_t bytes, Hint hint, Timeline& timeline);
  absl::StatusOr<Placement> PlaceOrGrow(const Request& request, Timeline& timeline);
  Placement Place(const Request& request, Timeline& timeline);
  absl::StatusOr<bool> Grow(std::int64_t bytes);
  absl::Status GrowBacking(std::int64_t missing);
  std::int64_t GrowthStep() const;
  absl::StatusOr<bool> AwaitTickets(BlockId block, std::int64_t begin, std::int64_t end,
                                    Timeline& timeline);
  void CountWait(const Timeline& timeline, const Ticket& ticket);
  absl::Status Refuse(std::size_t bytes, Hint hint, Stream stream);
  absl::Status WaitInLine(Waiter& waiter, absl::Time deadline,
                          std::unique_lock<BackoffMutex>& lock);
  void ServeWaiting();
  void Serve(Waiter& waiter);

  // Frees what the front caches hold; they begin anew. Whether they held anything.
  bool EmptyFronts();
  bool EmptyFront(FrontCache& front);
  // Lets the front cache of its stream forget a used block. False when it is free, there.
  bool TakeFromFront(BlockId block);
  bool IsInFront(BlockId block) const;

  absl::StatusOr<Timeline*> FindStream(Stream stream);
  void BeginCrossing(Stream newest);
  std::int64_t OffsetOf(const void* address) const {
    return static_cast<const char*>(address) - backing_.base();
  }
  absl::Status NotLive(const void* address) const;
  bool TakeBack(const void* address, Timeline& timeline);
  Tickets TakeTickets(BlockId block, Timeline& timeline);
  void FreeWithTickets(BlockId block, const Tickets& tickets);
  // The block when it is a free one, or kNoBlock.
  BlockId FreeOrNone(BlockId block) const;
  absl::Status SynchronizeTickets(BlockId block, std::int64_t begin, std::int64_t end);

  PoolStats StatsLocked() const;
  std::int64_t WildernessBytes() const;
  void ReportLive() const;

  Device& device_;
  const PoolOptions options_;
  std::unique_ptr<PlacementPolicy> policy_;

  mutable BackoffMutex mutex_;  // of all that follows
  StreamOrder order_;
  Backing backing_;
  blocks::Arena arena_;
  // By name of a used block: the stream that it was allocated on.
  std::vector<Stream> allocated_on_;
  // And whether that stream got it behind work of others, which may still run.
  std::vector<bool> behind_others_;
  // Streams that use a live block beside the one that will free it.
  absl::flat_hash_map<BlockId, absl::InlinedVector<Stream, 2>> uses_;
  // Whether there was ever more than one stream: as long as there is not, nobody needs tickets.
  bool crossing_ = false;
  TicketLists tickets_;
  WaitingLine line_;
  std::int64_t allocations_at_growth_ = 0;
  std::string growth_error_;
  PoolStats stats_;  // what is counted; the rest is asked for
  std::uint64_t fronts_epoch_ = 0;
  std::unique_ptr<FrontCaches> own_fronts_;

  // Not guarded: null until there are several streams, and then what own_fronts_ is.
  std::atomic<FrontCaches*> fronts_ = nullptr;
};

// Inline: every call begins with them.

inline void* PoolImpl::AllocateFromFront(std::size_t bytes, Stream stream) {
  FrontCaches* fronts = fronts_.load(std::memory_order_acquire);
  if (fronts == nullptr || bytes > MostBytes()) return nullptr;
  return fronts->Of(stream).Allocate(stream, device_.stream_epoch(),
                                     arena_.Rounded(static_cast<std::int64_t>(bytes)));
}

inline bool PoolImpl::FreeToFront(void* address, Stream stream) {
  FrontCaches* fronts = fronts_.load(std::memory_order_acquire);
  return fronts != nullptr && fronts->Of(stream).Free(stream, device_.stream_epoch(), address);
}

inline absl::StatusOr<Timeline*> PoolImpl::FindStream(Stream stream) {
  absl::StatusOr<Timeline*> timeline = order_.Find(stream);
  if (order_.size() > 1 && !crossing_) [[unlikely]]
    BeginCrossing(stream);
  if (own_fronts_ != nullptr && fronts_epoch_ != device_.stream_epoch()) [[unlikely]] {
    fronts_epoch_ = device_.stream_epoch();
    EmptyFronts();
  }
  return timeline;
}

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_POOL_IMPL_H_
