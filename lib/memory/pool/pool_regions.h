// SPDX-License-Identifier: Apache-2.0
// PoolRegions: the pools of tags beside a pool, which share its budget and can sleep.
//
// Each region is a pool of its own with its own addresses, on the physical memory that all share. A
// region that sleeps refuses requests and lends its memory. Its books stay as they are.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_POOL_REGIONS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_POOL_REGIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/owned.h"
#include "lib/memory/pool/physical_store.h"
#include "lib/memory/pool/queued_work.h"
#include "lib/memory/pool/range.h"
#include "lib/memory/pool/shared_room.h"
#include "lib/memory/pool/staged_copies.h"
#include "tidepool/contents_store.h"
#include "tidepool/pool.h"
#include "tidepool/pool_observer.h"

namespace tidepool::pool {

class PoolImpl;

// Thread-safe. No caller holds a lock of a pool: several functions wait for work of streams.
class PoolRegions {
 public:
  // `untagged` is the pool beside the regions. It, its options, the store and the room outlive the
  // regions.
  PoolRegions(Device& device, const PoolOptions& options, PhysicalStore& store, SharedRoom& room,
              PoolImpl& untagged);
  ~PoolRegions() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  PoolRegions(const PoolRegions&) = delete;
  PoolRegions& operator=(const PoolRegions&) = delete;

  // The functions of Pool.
  absl::StatusOr<Pool*> Get(std::string_view tag);
  absl::Status Pause(std::span<RegionPause> pauses, Stream stream);
  absl::Status Resume(std::span<const std::string_view> tags, Stream stream);
  absl::Status Discard(std::string_view tag);
  absl::Status AwaitContents(const void* address, std::int64_t bytes, Stream stream);
  absl::Status Limit(std::string_view tag, std::int64_t least_bytes, std::int64_t most_bytes);
  absl::Status Register(const void* address, std::int64_t bytes);
  absl::Status Unregister(const void* address, std::int64_t bytes);
  std::vector<RegionStats> Stats() const;

  // Returns the pool of the region that holds an address, or null.
  Pool* Holding(const void* address) const;
  // Gives lent memory back to the device, and page-locked memory that holds no contents. Returns
  // the bytes of the device's memory.
  absl::StatusOr<std::int64_t> GiveBack();
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
    bool is_asleep = false;                // changes under `arriving` too
    bool has_memory = false;               // though it sleeps, after a resume that failed
    std::byte* host = nullptr;             // page-locked: the contents, or blocks of the store
    std::unique_ptr<ContentsStore> store;  // null: `host` has the contents
    std::vector<SavedPart> saved;          // the contents; parts ascend
    std::int64_t saved_bytes = 0;
    device::OwnedEvent copied;              // the last copies to it or from it
    std::shared_ptr<QueuedWork> unordered;  // copies of a call that failed
    locks::Mutex arriving;
    // `arriving` guards these.
    locks::CondVar arrived;         // the next part, or the end of the resume
    bool is_arriving = false;       // a resume is under way
    bool is_awaited = false;        // a stream waits for a part of it
    std::vector<Arrival> arrivals;  // ascend; those of earlier resumes keep their events
    std::size_t arrival_count = 0;  // of the last resume
    // `table_` guards the figures.
    RegionStats figures;
  };

  using Regions = std::vector<Region*>;
  // A region that is about to sleep.
  struct Sleeper {
    Region& region;
    RegionPause& pause;
    SleepMode mode;
    std::int64_t live_bytes = 0;
    bool keeps_contents() const { return pause.mode == PauseMode::kHost && live_bytes > 0; }
  };
  // Holds the `control` of regions for a scope. All threads lock those of several regions in the
  // same order.
  class Controls {
   public:
    explicit Controls(Regions regions) ABSL_NO_THREAD_SAFETY_ANALYSIS;
    ~Controls() ABSL_NO_THREAD_SAFETY_ANALYSIS;
    Controls(const Controls&) = delete;
    Controls& operator=(const Controls&) = delete;

   private:
    Regions regions_;
  };

  // Returns the region of a tag; null for an unknown one.
  Region* FindOrNull(std::string_view tag) const;
  absl::StatusOr<Region*> Find(std::string_view tag) const;
  // Returns the regions of tags that differ.
  absl::StatusOr<Regions> FindAll(const std::vector<std::string_view>& tags) const;
  absl::Status NoRegion(std::string_view tag) const;
  Region* FindByAddress(const void* address) const;
  // Returns the pool of the region of an address; null for memory of no region.
  absl::StatusOr<PoolImpl*> PoolWith(const void* address, std::int64_t bytes) const;
  absl::StatusOr<std::unique_ptr<Region>> Make(std::string_view tag) const;
  // Waits on the host for copies that the event of the region does not stand for.
  static absl::Status AwaitUnordered(Region& region);
  // Makes `stream` wait for the last copies of a region.
  absl::Status OrderCopies(Region& region, Stream stream);
  // Provides page-locked memory for contents, or for copies between them and the store.
  absl::Status ProvideHost(Region& region, std::int64_t contents_bytes);
  // Waits for the copies and frees the page-locked memory.
  absl::Status FreeHost(Region& region);
  // Gives regions that sleep their memory, where they have none: all of them or none.
  absl::Status TakeMemory(const Regions& regions);
  absl::Status TakeBack(const Regions& regions);
  // Lends the memory of a resume that failed, after `work`. A region of which a stream awaited
  // contents keeps it: work that they were awaited for may come later.
  static void LendAfterError(Region& region, const std::shared_ptr<QueuedWork>& work);
  // Provides for the copies of a pause, and makes `stream` wait for earlier ones.
  absl::Status PrepareSave(Sleeper& sleeper, Stream stream);
  // Queue the copies of contents to the host and back; with a store they wait for the copies.
  absl::Status Save(Region& region, Stream stream);
  absl::Status Restore(Region& region, Stream stream);
  // Let regions sleep, or none of them. FallAsleep cannot fail.
  absl::Status SaveAll(std::vector<Sleeper>& sleepers, Stream stream);
  void FallAsleep(const Sleeper& sleeper, Stream stream, const std::shared_ptr<QueuedWork>& work);
  // Likewise for a resume.
  absl::Status RestoreAll(const Regions& regions, Stream stream);
  void WakeUp(Region& region, Stream stream);
  absl::Status CopyOut(Region& region, Stream stream);
  absl::Status CopyIn(Region& region, Stream stream, std::int64_t& bytes);
  // Copies a range after `bytes` that were copied before, in pieces that end with an event.
  absl::Status CopyPieces(Region& region, const Range& range, const std::byte* from, Stream stream,
                          std::int64_t& bytes);
  // Records the end of a piece of the copies on `stream`.
  absl::Status EndPiece(Region& region, std::int64_t end, Stream stream);
  static void BeginArrivals(Region& region);
  // Tells that no part of a resume comes any more.
  static void EndArrivals(Region& region, bool is_awake);
  // Returns the first part of the last resume that ends at `end` or after it, or null.
  static const Arrival* FindArrival(const Region& region, std::int64_t end);
  void ForgetContents(Region& region);
  template <typename Change>
  void Note(Region& region, Change change) {
    const locks::MutexLock lock(&table_);
    change(region.figures);
  }

  Device& device_;
  const PoolOptions& options_;
  PhysicalStore& store_;
  SharedRoom& room_;
  PoolImpl& untagged_;
  locks::Mutex making_ ABSL_ACQUIRED_BEFORE(table_);  // a thread that makes a region holds it
  mutable locks::Mutex table_;
  std::vector<std::unique_ptr<Region>> regions_ ABSL_GUARDED_BY(table_);  // none ever goes
  absl::flat_hash_map<std::string_view, Region*> by_tag_ ABSL_GUARDED_BY(table_);
  absl::btree_map<const std::byte*, Region*> by_begin_ ABSL_GUARDED_BY(table_);
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_POOL_REGIONS_H_
