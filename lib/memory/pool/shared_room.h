// SPDX-License-Identifier: Apache-2.0
// SharedRoom: how the pools of one budget, a pool and its regions, take room from each other and
// alert the requests that wait for it.
//
// It also pauses the caches and slabs of the pool while a request waits (AllocateBlocking), and
// counts frees and growths, for pools without regions too.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_SHARED_ROOM_H_
#define TIDEPOOL_LIB_MEMORY_POOL_SHARED_ROOM_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/pool/physical_store.h"

namespace tidepool::pool {

class PoolImpl;

// A layer in front of a pool, which keeps freed memory for its streams.
class CacheLayer {
 public:
  // Gives all cached memory to the pool. None is cached before each pause has had its resumption.
  virtual void PauseCaches() = 0;
  virtual void ResumeCaches() = 0;

 protected:
  ~CacheLayer() = default;
};

// Thread-safe. No caller holds a lock of a pool: several functions wait for work of streams.
class SharedRoom {
 public:
  // `untagged` is the pool beside the regions. It and the store outlive the room.
  SharedRoom(PhysicalStore& store, std::int64_t budget_bytes, PoolImpl& untagged)
      : store_(store), budget_bytes_(budget_bytes), pools_{&untagged} {}
  SharedRoom(const SharedRoom&) = delete;
  SharedRoom& operator=(const SharedRoom&) = delete;

  // Adds the pool of a region. With the first one the memory of all pools together is limited.
  void Add(PoolImpl& region);
  // Whether there is a region. It stays so.
  bool HasRegions() const { return has_regions_.load(std::memory_order_acquire); }
  std::vector<PoolImpl*> Pools() const;

  // Keeps the caches and slabs of the layers empty for a scope.
  class CachePause {
   public:
    explicit CachePause(SharedRoom& room) : room_(room) {
      for (CacheLayer* const layer : room_.layers_) layer->PauseCaches();
    }
    ~CachePause() {
      for (CacheLayer* const layer : room_.layers_) layer->ResumeCaches();
    }
    CachePause(const CachePause&) = delete;
    CachePause& operator=(const CachePause&) = delete;

   private:
    SharedRoom& room_;
  };
  // Calls `take()` for one of the pools until it returns true, or until the other pools have no
  // unused memory above their least. In between it empties caches and slabs, takes the missing
  // bytes of unused memory from the others, and waits for the work of lent memory at last. One
  // thread at a time: two would take memory from each other. Returns the device's error where it
  // took no room because that wait failed.
  template <typename Take>
  absl::Status TakeRoom(const PoolImpl& wanting, Take take) {
    const locks::MutexLock lock(&taking_);
    ForgetWanted(wanting);
    if (take()) return absl::OkStatus();
    const CachePause pause(*this);
    while (!take()) {
      absl::Status waited;
      if (MakeRoom(wanting, waited)) continue;
      return take() ? absl::OkStatus() : waited;  // the work of lent memory has finished
    }
    return absl::OkStatus();
  }
  // Stands for a request that waits in one of the pools. It must see every free, so no layer caches
  // memory meanwhile: it could sleep for ever beside memory that only another stream can get.
  class Wait {
   public:
    explicit Wait(SharedRoom& room) : room_(room) {
      room_.waiters_.fetch_add(1);
      pause_.emplace(room_);
    }
    ~Wait() {
      pause_.reset();
      room_.waiters_.fetch_sub(1);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    SharedRoom& room_;
    std::optional<CachePause> pause_;
  };
  bool HasWaiters() const { return waiters_.load(std::memory_order_relaxed) > 0; }
  bool HasSeveralWaiters() const { return waiters_.load() > 1; }
  // Adds a layer around those that there are, before other threads use the pools.
  void AddLayer(CacheLayer& layer) { layers_.insert(layers_.begin(), &layer); }
  // Lets requests that wait look again after a free, where there may be room.
  void AlertWaiters();
  void AlertAllWaiters();
  // Waiters that leave room to others of higher priority: they count until they look for memory.
  void BeginDeferral() { deferred_.fetch_add(1); }
  void EndDeferral() { deferred_.fetch_sub(1); }
  bool HasDeferred() const { return deferred_.load() > 0; }
  // Whether a waiter of higher priority looks for memory or is about to, in any pool.
  bool HasAlertedWaiterAbove(int priority) const;
  void AlertWaitersBelow(int priority);
  // Wakes the first waiter that is alerted, by priority. It looks for memory, and wakes the next
  // one then, so that no thread wakes for room that the first ones have taken.
  void WakeNext();
  // Returns how often waiters were alerted.
  std::uint64_t alerts() const { return alerts_.load(); }
  // Counts a free, or a growth that served no request and may have left room to others, before a
  // waiter can see its effect.
  void CountRoomChange() { room_changes_.fetch_add(1); }
  std::uint64_t room_changes() const { return room_changes_.load(); }
  // Around a change in which a pool may have memory that is neither unused nor live.
  void BeginGrowth() { growing_.fetch_add(1); }
  void EndGrowth() { growing_.fetch_sub(1); }
  // A pause or a resume under way. Meanwhile the region has memory that is neither live nor unused,
  // and that others cannot take. So requests wait for the end, and then look again.
  class Transition {
   public:
    explicit Transition(SharedRoom& room) : room_(room) {
      room_.BeginGrowth();
      room_.CountRoomChange();  // so that a request that looks now is not refused
    }
    ~Transition() {
      room_.EndGrowth();
      room_.AlertAllWaiters();
    }
    Transition(const Transition&) = delete;
    Transition& operator=(const Transition&) = delete;

   private:
    SharedRoom& room_;
  };
  // Whether pools of other processes share the budget.
  bool IsShared() const { return shared() != nullptr; }
  sharing::SharedBudget* shared() const { return store_.shared(); }
  // Whether a pool that is awake, other than `pool`, has live memory or will soon have some.
  bool MayFree(const PoolImpl& pool) const;

 private:
  // Alerts waiters of a priority below a bound. All are alerted before the first one wakes, so that
  // the highest looks first.
  void Alert(std::int64_t below);
  // Returns the bytes that the live memory of all pools leaves; all there are without live memory.
  std::int64_t RoomLeft() const;
  // Return whether other pools lent memory. MakeRoom waits for the work of lent memory where
  // they have none at once.
  bool MakeRoom(const PoolImpl& wanting, absl::Status& waited);
  bool BorrowFromOthers(const PoolImpl& wanting, std::int64_t missing_bytes);
  void ForgetWanted(const PoolImpl& wanting);

  PhysicalStore& store_;
  const std::int64_t budget_bytes_;
  mutable locks::Mutex adding_;
  std::vector<PoolImpl*> pools_ ABSL_GUARDED_BY(adding_);  // none ever goes
  std::atomic<bool> has_regions_ = false;
  locks::Mutex taking_ ABSL_ACQUIRED_BEFORE(adding_);  // a thread that takes room holds it
  std::atomic<int> waiters_ = 0;
  std::atomic<int> growing_ = 0;
  std::atomic<int> deferred_ = 0;
  std::atomic<std::uint64_t> alerts_ = 0;
  std::atomic<std::uint64_t> room_changes_ = 0;
  std::vector<CacheLayer*> layers_;  // the outer one first
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_SHARED_ROOM_H_
