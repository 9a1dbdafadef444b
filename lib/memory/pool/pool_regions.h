// SPDX-License-Identifier: Apache-2.0
// PoolRegions: the pools of tags beside a pool, which share its budget and can sleep.
//
// Each region is a pool of its own with its own addresses, on the physical memory that all share. A
// region that sleeps refuses requests and lends its memory. Its books stay as they are.
//
// It also pauses the caches and slabs of the pool while a request waits (AllocateBlocking), and
// counts frees and growths, for pools without regions too.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_POOL_REGIONS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_POOL_REGIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/owned.h"
#include "lib/memory/pool/physical_store.h"
#include "lib/memory/pool/queued_work.h"
#include "lib/memory/pool/range.h"
#include "lib/memory/pool/staged_copies.h"
#include "tidepool/contents_store.h"
#include "tidepool/pool.h"
#include "tidepool/pool_observer.h"

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
class PoolRegions {
 public:
  // `untagged` is the pool beside the regions. It, its options and the store outlive the regions.
  PoolRegions(Device& device, const PoolOptions& options, PhysicalStore& store, PoolImpl& untagged);
  ~PoolRegions() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  PoolRegions(const PoolRegions&) = delete;
  PoolRegions& operator=(const PoolRegions&) = delete;

  // The functions of Pool.
  absl::StatusOr<Pool*> Get(std::string_view tag);
  // Contents that are kept go to `store`, or to page-locked memory if it is null.
  absl::Status Pause(std::string_view tag, PauseMode mode, std::unique_ptr<ContentsStore> store,
                     Stream stream);
  absl::Status Resume(std::string_view tag, Stream stream);
  absl::Status Discard(std::string_view tag);
  absl::Status AwaitContents(const void* address, std::int64_t bytes, Stream stream);
  absl::Status Limit(std::string_view tag, std::int64_t least_bytes, std::int64_t most_bytes);
  absl::Status Register(const void* address, std::int64_t bytes);
  absl::Status Unregister(const void* address, std::int64_t bytes);
  std::vector<RegionStats> Stats() const;

  // Whether there is a region. It stays so.
  bool HasAny() const { return has_any_.load(std::memory_order_acquire); }
  // Returns the pool of the region that holds an address, or null.
  Pool* Holding(const void* address) const;
  // Keeps the caches and slabs of the layers empty for a scope.
  class CachePause {
   public:
    explicit CachePause(PoolRegions& regions) : regions_(regions) {
      for (CacheLayer* const layer : regions_.layers_) layer->PauseCaches();
    }
    ~CachePause() {
      for (CacheLayer* const layer : regions_.layers_) layer->ResumeCaches();
    }
    CachePause(const CachePause&) = delete;
    CachePause& operator=(const CachePause&) = delete;

   private:
    PoolRegions& regions_;
  };
  // Calls `take()` for one of the pools until it returns true, or until the other pools have no
  // unused memory above their least. In between it empties caches and slabs, takes the missing
  // bytes of unused memory from the others, and waits for the work of lent memory at last. One
  // thread at a time: two would take memory from each other. Returns the device's error where it
  // took no room because that wait failed.
  template <typename Take>
  absl::Status TakeRoom(const PoolImpl& wanting, Take take) {
    const locks::MutexLock lock(&taking_);
    ForgetMissing(wanting);
    if (take()) return absl::OkStatus();
    const CachePause pause(*this);
    while (!take()) {
      absl::Status waited;
      if (MakeRoom(wanting, waited)) continue;
      return take() ? absl::OkStatus() : waited;  // the work of lent memory has finished
    }
    return absl::OkStatus();
  }
  // Gives lent memory back to the device, and page-locked memory that holds no contents. Returns
  // the bytes of the device's memory.
  absl::StatusOr<std::int64_t> GiveBack();
  // Stands for a request that waits in one of the pools. It must see every free, so no layer caches
  // memory meanwhile: it could sleep for ever beside memory that only another stream can get.
  class Wait {
   public:
    explicit Wait(PoolRegions& regions) : regions_(regions) {
      regions_.waiters_.fetch_add(1);
      pause_.emplace(regions_);
    }
    ~Wait() {
      pause_.reset();
      regions_.waiters_.fetch_sub(1);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    PoolRegions& regions_;
    std::optional<CachePause> pause_;
  };
  bool HasWaiters() const { return waiters_.load(std::memory_order_relaxed) > 0; }
  // Adds a layer around those that there are, before other threads use the pools.
  void AddLayer(CacheLayer& layer) { layers_.insert(layers_.begin(), &layer); }
  // Lets requests that wait in the other pools look again after a free, where there may be room.
  void CallWaitersBut(const PoolImpl& freeing);
  // Waiters that leave room to others of higher priority: they count until they look for memory.
  void BeginDeferral() { deferred_.fetch_add(1); }
  void EndDeferral() { deferred_.fetch_sub(1); }
  bool HasDeferred() const { return deferred_.load() > 0; }
  // Whether a waiter of higher priority looks for memory or is about to, in any pool.
  bool HasCalledWaiterAbove(int priority) const;
  void CallWaitersBelow(int priority);
  // Counts a free, or a growth that served no request, before a waiter can see its effect.
  void CountFree() { frees_.fetch_add(1); }
  std::uint64_t frees() const { return frees_.load(); }
  // Around a change in which a pool may have memory that is neither unused nor live.
  void BeginGrowth() { growing_.fetch_add(1); }
  void EndGrowth() { growing_.fetch_sub(1); }
  // Whether a pool that is awake, other than `pool`, has live memory or will soon have some.
  bool MayFree(const PoolImpl& pool) const;
  absl::Status CheckInvariants() const;

 private:
  // A part of the copies of a resume.
  struct Arrival {
    std::int64_t end = 0;  // offset in the region
    device::OwnedEvent copied;
  };
  struct Region {
    std::string tag;
    std::unique_ptr<PoolObserver> observer;  // null: none
    std::unique_ptr<PoolImpl> pool;
    const std::byte* begin = nullptr;  // of its addresses
    const std::byte* end = nullptr;
    locks::Mutex control;  // a thread that pauses, resumes or limits it holds this
    // `control` guards the rest but for the figures.
    bool is_asleep = false;
    std::byte* host = nullptr;             // page-locked: the contents, or blocks of the store
    std::unique_ptr<ContentsStore> store;  // null: `host` has the contents
    std::vector<SavedPart> saved;          // the contents; parts ascend
    std::int64_t saved_bytes = 0;
    device::OwnedEvent copied;              // the last copies to it or from it
    std::vector<Arrival> arrivals;          // ascend; those of earlier resumes keep their events
    std::size_t arrival_count = 0;          // of the last resume
    std::shared_ptr<QueuedWork> unordered;  // copies of a call that failed
    // `table_` guards the figures.
    RegionStats figures;
  };

  absl::StatusOr<Region*> Find(std::string_view tag) const;
  Region* FindByAddress(const void* address) const;
  // Returns the pool of the region of an address; null for memory of no region.
  absl::StatusOr<PoolImpl*> PoolWith(const void* address, std::int64_t bytes) const;
  absl::StatusOr<std::unique_ptr<Region>> Make(std::string_view tag) const;
  std::vector<PoolImpl*> Pools() const;
  void CallAllWaiters();
  // Calls waiters of pools that want at most `most_bytes` and have a priority below a bound. All
  // are called before the first one wakes, so that the highest looks first.
  static void Call(const std::vector<PoolImpl*>& pools, std::int64_t most_bytes,
                   std::int64_t below = std::numeric_limits<std::int64_t>::max());
  // Return whether other pools gave back memory. MakeRoom waits for the work of lent memory where
  // they have none at once.
  bool MakeRoom(const PoolImpl& wanting, absl::Status& waited);
  bool TrimOthers(const PoolImpl& wanting, std::int64_t missing_bytes);
  void ForgetMissing(const PoolImpl& wanting);
  // Waits on the host for copies that the event of the region does not stand for.
  static absl::Status AwaitUnordered(Region& region);
  // Makes `stream` wait for the last copies of a region.
  absl::Status OrderCopies(Region& region, Stream stream);
  // Provides page-locked memory for contents, or for copies between them and the store.
  absl::Status ProvideHost(Region& region, std::int64_t contents_bytes);
  // Waits for the copies and frees the page-locked memory.
  absl::Status FreeHost(Region& region);
  // Queue the copies of contents to the host and back; with a store they wait for the copies.
  absl::Status Save(Region& region, std::int64_t bytes, Stream stream);
  absl::Status Restore(Region& region, Stream stream);
  absl::Status CopyOut(Region& region, Stream stream);
  absl::Status CopyIn(Region& region, Stream stream, std::int64_t& bytes);
  // Copies a range after `bytes` that were copied before, in pieces that end with an event.
  absl::Status CopyPieces(Region& region, const Range& range, const std::byte* from, Stream stream,
                          std::int64_t& bytes);
  // Records the end of a piece of the copies on `stream`.
  absl::Status EndPiece(Region& region, std::int64_t end, Stream stream);
  void ForgetContents(Region& region);
  // A pause or a resume under way. Meanwhile the region has memory that is neither live nor unused,
  // and that others cannot take. So requests wait for the end, and then look again.
  class Transition {
   public:
    explicit Transition(PoolRegions& regions) : regions_(regions) {
      regions_.BeginGrowth();
      regions_.CountFree();  // so that a request that looks now is not refused
    }
    ~Transition();
    Transition(const Transition&) = delete;
    Transition& operator=(const Transition&) = delete;

   private:
    PoolRegions& regions_;
  };
  template <typename Change>
  void Note(Region& region, Change change) {
    const locks::MutexLock lock(&table_);
    change(region.figures);
  }

  Device& device_;
  const PoolOptions& options_;
  PhysicalStore& store_;
  PoolImpl& untagged_;
  locks::Mutex making_ ABSL_ACQUIRED_BEFORE(table_);  // a thread that makes a region holds it
  mutable locks::Mutex table_;
  std::vector<std::unique_ptr<Region>> regions_ ABSL_GUARDED_BY(table_);  // none ever goes
  std::atomic<bool> has_any_ = false;
  locks::Mutex taking_ ABSL_ACQUIRED_BEFORE(table_);  // a thread that takes room holds it
  std::atomic<int> waiters_ = 0;
  std::atomic<int> growing_ = 0;
  std::atomic<int> deferred_ = 0;
  std::atomic<std::uint64_t> frees_ = 0;
  std::vector<CacheLayer*> layers_;  // the outer one first
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_POOL_REGIONS_H_
