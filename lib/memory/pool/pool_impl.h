// SPDX-License-Identifier: Apache-2.0
// PoolImpl: puts the parts of a pool together.
//
//   StreamArena   serves requests from free blocks, and keeps streams apart that share them
//   MemorySource  takes memory from the device and gives it back
//   WaitingQueue  the requests that wait for memory
//   Observers     the recorder, and the iterations that plans are made for
//   PoolRegions   the pools of tags, which share the budget of this one
//   SharedRoom    how these pools take room from each other, and alert requests that wait
#ifndef TIDEPOOL_LIB_MEMORY_POOL_POOL_IMPL_H_
#define TIDEPOOL_LIB_MEMORY_POOL_POOL_IMPL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "lib/memory/pool/inspect.h"
#include "lib/memory/pool/memory_source.h"
#include "lib/memory/pool/observers.h"
#include "lib/memory/pool/physical_store.h"
#include "lib/memory/pool/pool_options.h"
#include "lib/memory/pool/pool_regions.h"
#include "lib/memory/pool/queued_work.h"
#include "lib/memory/pool/registrations.h"
#include "lib/memory/pool/shared_observer.h"
#include "lib/memory/pool/stream_arena.h"
#include "lib/memory/pool/waiting_queue.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

class PoolImpl : public Pool {
 public:
  // `options` are resolved, and `policy` is made for them.
  PoolImpl(Device& device, const PoolOptions& options, PoolPolicy policy);
  // Where a pool of a region belongs.
  struct Place {
    std::string tag;
    PhysicalStore& store;
    PoolImpl& untagged;  // the pool beside the regions
  };
  PoolImpl(Device& device, const PoolOptions& options, PoolPolicy policy, const Place& place);
  ~PoolImpl() override;
  absl::Status Start();

  absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream, Hint hint) override;
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                         absl::Time deadline, std::stop_token stop,
                                         int priority) override;
  absl::Status Free(void* address, Stream stream) override;
  absl::Status FreeOwn(void* address, Stream stream) override;
  absl::StatusOr<Stream> AllocatedOn(const void* address) override;
  absl::Status RecordUse(void* address, Stream stream) override;
  absl::Status RecordWork() override;
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  std::int64_t TakeWantedByOthers() override;
  void Mark(std::string_view name) override;
  void MarkIteration() override;
  void AwaitPlans() override;
  PoolStats Stats() const override;
  void ResetPeaks() override;
  std::vector<PoolBlock> Snapshot() const override;
  void* base() const override;
  std::int64_t OffsetOf(const void* address) const override;
  absl::StatusOr<Pool*> Region(std::string_view tag) override;
  absl::Status PauseRegions(std::span<RegionPause> pauses, Stream stream) override;
  absl::Status ResumeRegions(std::span<const std::string_view> tags, Stream stream) override;
  absl::Status DiscardContents(std::string_view tag) override;
  absl::Status AwaitContents(const void* address, std::int64_t bytes, Stream stream) override;
  absl::Status LimitRegion(std::string_view tag, std::int64_t least_bytes,
                           std::int64_t most_bytes) override;
  absl::Status BeginRegistration(const void* address, std::int64_t bytes) override;
  absl::Status EndRegistration(const void* address, std::int64_t bytes) override;
  std::vector<RegionStats> RegionStatistics() const override;
  std::string Describe(const void* address) const override;
  absl::Status CheckInvariants() const override;
  // Counts the requests that sleep until other calls make room: for tests.
  std::int64_t CountAsleep() const;
  // Returns how often such requests looked for memory: for tests.
  std::int64_t CountLooks() const;

  // The rest is for a layer around the pool. The first three need no lock.
  bool KeepsTickets() const ABSL_NO_THREAD_SAFETY_ANALYSIS {  // reads an atomic
    return arena_.hand_over().keeps_tickets();
  }
  bool CanServe(std::size_t bytes) const { return bytes > 0 && bytes <= MostBytes(); }
  std::int64_t Rounded(std::int64_t bytes) const ABSL_NO_THREAD_SAFETY_ANALYSIS {  // is constant
    return arena_.Rounded(bytes);
  }
  // Allocates without growth. Returns null when no free block serves the request.
  absl::StatusOr<void*> AllocateFromFree(std::int64_t bytes, Stream stream, Hint hint);
  // Frees allocations of a stream that may have been destroyed, and that no other stream uses.
  void FreeCached(absl::Span<void* const> addresses, Stream stream);
  // Keeps block names for `splits` splits, which then always succeed.
  void ReserveSplits(std::int64_t splits);
  // Splits a live allocation that no other stream uses into two; the first has `bytes`, a multiple
  // of the alignment.
  void Split(const void* address, std::int64_t bytes);

  // The rest is for PoolRegions and SharedRoom. Refuses requests and keeps the memory as it is from
  // now on, but not frees. Returns the live bytes. Waits on the host for a Trim under way and for
  // moves.
  absl::StatusOr<std::int64_t> BeginSleep();
  // Undoes it, and forgets which contents were lost.
  void EndSleep();
  // Between BeginSleep and EndSleep: calls `use` with the backing, under the mutex of the memory.
  template <typename Use>
  auto WithBacking(Use use) {
    const BackoffLock lock(locks_.books);
    const MemoryLock memory(locks_);
    return locks_.WithoutBooks([&use, backing = memory_->backing()] { return use(*backing); });
  }
  // Begins to take lent memory back, but for free memory that others have meanwhile.
  PhysicalStore::Taking BeginTakingBack();
  std::vector<Range> LostPieces() const;
  // Calls `copy` for each range of live memory in parts of the pool, in the order of addresses, and
  // notes that `stream` uses the memory. Ends at the first error.
  absl::Status CopyLive(const std::vector<Range>& parts, Stream stream,
                        const std::function<absl::Status(const Range&)>& copy);
  // Returns the entry of the pool, which has virtual memory, in the store.
  Taker& taker() const ABSL_NO_THREAD_SAFETY_ANALYSIS {  // is constant
    return memory_->backing()->taker();
  }
  // Lends unused memory of this pool to the others, as long as `keep_bytes` stay. Returns the
  // bytes.
  absl::StatusOr<std::int64_t> LendUnused(std::int64_t keep_bytes);
  // The functions of WaitingQueue, for its queue.
  void AlertOwnWaiters(std::int64_t below);
  void AlertOwnWaitersByFree(std::int64_t room);
  void WakeFirstWaiter();
  bool HasAlertedWaiterAbove(int priority) const;
  // Likewise; withdraws no alert when there were more than `alerts` alerts (SharedRoom).
  std::optional<int> FirstAlertedWaiter(std::int64_t room, std::uint64_t alerts);
  // Notes that others registered memory of this pool, and ends that.
  absl::Status Register(const void* address, std::int64_t bytes);
  absl::Status Unregister(const void* address, std::int64_t bytes);
  // Returns the live bytes, 0 while the pool sleeps.
  std::int64_t AwakeLiveBytes() const;
  void AddLayer(CacheLayer& layer) { room_.AddLayer(layer); }

 private:
  std::size_t MostBytes() const { return most_bytes_.load(std::memory_order_relaxed); }

  // The next four return null when there is no room, or when free memory is kept for a waiter that
  // comes before `waiter` (null: a request that does not wait). They may release the books, so a
  // block or a clock that was found before is not valid after them.
  absl::StatusOr<void*> AllocateOrGrow(const WantedMemory& wanted, const Waiter* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::StatusOr<void*> GrowAndAllocate(const WantedMemory& wanted, const Waiter* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Allocates while no other thread takes room (SharedRoom::TakeRoom).
  absl::StatusOr<void*> AllocateAgain(const WantedMemory& wanted, const Waiter* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Allocates, with unused memory of the other pools of the budget where there is no other.
  absl::StatusOr<void*> AllocateFromOthers(const WantedMemory& wanted, Waiter* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Asks the other pools, then the caller's function, to make room, as often as it promises some.
  // Returns the error of a refusal at last.
  absl::StatusOr<void*> AllocateOrRefuse(const WantedMemory& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Calls the caller's function. Returns false when it made no room, or may not be called again.
  bool CallOutOfMemoryFunction(OutOfMemoryRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Serves a request from a free block: the block that it chooses, or the one that growth made.
  [[gnu::always_inline]] absl::StatusOr<void*> TryAllocate(const WantedMemory& wanted,
                                                           Placement grown = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void* Observe(BlockId block, const Request& request, std::int64_t asked_bytes,
                const StreamClock& clock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  [[gnu::always_inline]] absl::Status FreeLive(void* address, StreamClock& clock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Returns the live memory in parts of the pool, and notes that `user` uses it.
  std::vector<Range> TakeLiveIn(const std::vector<Range>& parts, Stream user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Returns the pool of the region that holds an address, or null.
  Pool* RegionOf(const void* address) const {
    return own_regions_ == nullptr ? nullptr : own_regions_->Holding(address);
  }
  // Whether its store has the memory of this pool and of regions.
  bool has_virtual_budget() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books) {
    return own_store_ != nullptr && memory_->backing() != nullptr;
  }
  absl::Status Asleep() const;
  absl::Status HasNoRegions() const;
  // FailedPrecondition when others registered memory in a range.
  absl::Status CheckUnregistered(const Range& range) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::Status NotLive(const void* address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void BeginIteration() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);

  // Serves a blocking request from free memory, or refuses it. Null when it has to wait.
  absl::StatusOr<void*> AllocateWithoutWait(std::size_t bytes, Stream stream, Hint hint);
  void CountRoomChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books) {
    ++counted_changes_;
    room_.CountRoomChange();
  }
  // Returns the changes of room that the other pools of the budget counted.
  std::uint64_t OtherRoomChanges() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books) {
    return room_.room_changes() - counted_changes_;
  }
  // The other pools of a shared budget.
  using Others = sharing::SharedBudget::Others;
  // Sets `others` to those before the look.
  absl::StatusOr<void*> Look(Waiter& waiter, Others& others)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // The calls of the caller's function for a request that waits.
  struct WaitingCalls {
    OutOfMemoryRequest request;
    locks::SteadyTime begin = locks::SteadyNow();
    locks::SteadyTime next = locks::SteadyTime::min();
  };
  // Whether a waiter is about to sleep, or to be refused, for want of memory.
  bool LacksRoom(const Waiter& waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books) {
    return options_.on_out_of_memory && !memory_->is_asleep() && !waiter.is_deferred;
  }
  // Calls the caller's function for a waiter if a call is due, or the last. Returns whether it made
  // room.
  bool CallOutOfMemoryFunctionFor(const Waiter& waiter, WaitingCalls& calls, bool is_last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Whether a waiter leaves memory of the budget to one of higher priority, in any pool of it,
  // which looks before. That one then alerts it.
  bool Defers(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void EndDeferral(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Alerts the waiters that left room to one of a priority, which has looked or is gone.
  void AlertDeferred(int priority) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Lets the next waiter look, in any pool of the budget, when this one has looked or is gone.
  void WakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Releases the books.
  Others ReadOthers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Tells the others of a request that was refused, or waits (SharedBudget). Releases the
  // books.
  std::uint64_t TellWanted(std::int64_t bytes, bool is_waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void EndWanted(std::uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Serves waiters where the others changed since, and updates `others`. Returns when to ask again.
  locks::SteadyTime AskOthers(Others& others) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Whether a free can come that makes room for a request, of another pool of a shared budget too.
  bool MayFindRoom(const WantedMemory& wanted, const Others& others)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Serves waiters where there may be room: from free blocks, and with regions on threads of their
  // own, in any pool of the budget. The second releases the lock if there are any.
  [[gnu::always_inline]] void ServeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void ServeFromFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  [[gnu::always_inline]] void AlertWaiters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Leaves the free blocks alone where the request has `too_large` bytes or more, which none of
  // them serves. Lowers that.
  void Serve(Waiter& waiter, std::int64_t& too_large) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::Status Refuse(std::size_t bytes, Hint hint, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::Status RefuseAtOnce(std::size_t bytes, Hint hint, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  PoolStats StatsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);

  // null: a region, or a pool without an observer
  const std::unique_ptr<SharedObserver> observer_;
  const PoolOptions options_;
  const std::string tag_;  // empty: the pool is no region
  const std::unique_ptr<PhysicalStore> own_store_;
  std::atomic<std::size_t> most_bytes_;  // of a request; 0 as long as the region sleeps
  mutable PoolLocks locks_;
  StreamArena arena_ ABSL_GUARDED_BY(locks_.books);
  Observers observers_ ABSL_GUARDED_BY(locks_.books);
  WaitingQueue queue_ ABSL_GUARDED_BY(locks_.books);
  std::atomic<int> waiters_ = 0;  // those of the queue; changed under the books
  Registrations registrations_ ABSL_GUARDED_BY(locks_.books);  // none in a pool that is no region
  std::int64_t failures_ ABSL_GUARDED_BY(locks_.books) = 0;
  std::int64_t blocked_ ABSL_GUARDED_BY(locks_.books) = 0;
  std::uint64_t counted_changes_ ABSL_GUARDED_BY(locks_.books) = 0;
  const std::unique_ptr<MemorySource> memory_ ABSL_PT_GUARDED_BY(locks_.books);
  const std::unique_ptr<SharedRoom> own_room_;      // null: the pool is a region
  const std::unique_ptr<PoolRegions> own_regions_;  // null: the pool is a region
  SharedRoom& room_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_POOL_IMPL_H_
