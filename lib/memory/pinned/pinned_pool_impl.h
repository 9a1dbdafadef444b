// SPDX-License-Identifier: Apache-2.0
// PinnedPoolImpl: the pool of pinned memory, made of parts of lib/memory/pool.
//
//   Segments      the regions, each a range of offsets between fences; no buffer crosses a fence,
//                 because a device cannot copy from two registrations at once
//   Arena         the free and used blocks of these offsets
//   WaitingQueue  the allocations that wait for memory
//   PoolLocks     the books, and the memory; no thread pins or unpins under the lock of the books
#ifndef TIDEPOOL_LIB_MEMORY_PINNED_PINNED_POOL_IMPL_H_
#define TIDEPOOL_LIB_MEMORY_PINNED_PINNED_POOL_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "lib/memory/blocks/arena.h"
#include "lib/memory/pinned/create_pools.h"
#include "lib/memory/pinned/host_memory.h"
#include "lib/memory/pool/address_map.h"
#include "lib/memory/pool/live_report.h"
#include "lib/memory/pool/pool_locks.h"
#include "lib/memory/pool/segments.h"
#include "lib/memory/pool/waiting_queue.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool::pinned {

inline constexpr pool::PoolWords kPinnedWords = {"pinned pool", "pinned memory", "buffer", "free",
                                                 "or raise max_bytes"};

class PinnedPoolImpl : public PinnedPool {
 public:
  // `options` are in range, and their sizes are whole pages.
  PinnedPoolImpl(Device& device, const PinnedPoolOptions& options, const RegionSizes& sizes,
                 std::unique_ptr<PlacementPolicy> policy)
      : options_(options),
        sizes_(sizes),
        pinner_(device, options.pages),
        policy_(std::move(policy)),
        regions_(addresses_, options.alignment),
        arena_(0, options.alignment, *policy_, OffsetBytes(options)) {}
  ~PinnedPoolImpl() override;

  // Returns how many bytes of offsets a pool needs: regions come and go as segments do.
  static std::int64_t OffsetBytes(const PinnedPoolOptions& options) {
    return pool::Segments::OffsetBytes(options.max_bytes, options.alignment);
  }

  absl::StatusOr<void*> Allocate(std::size_t bytes) override;
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, absl::Time deadline) override;
  absl::Status Free(void* address) override;
  absl::Status Reserve(std::int64_t bytes) override;
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  PinnedPoolStats Stats() const override;
  absl::Status CheckInvariants() const override;

 private:
  // Functions that need the lock of the memory release the books while they pin or unpin: a block
  // that was found before such a call is not valid after it.

  // The four return null when there is no room, or when free memory is kept for a waiter that comes
  // before `waiter`. AllocateOrGrow waits for the lock of the memory only if that may help.
  absl::StatusOr<void*> AllocateOrGrow(std::int64_t bytes, const pool::Waiter* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::StatusOr<void*> GrowAndAllocate(std::int64_t bytes, const pool::Waiter* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.memory, locks_.books);
  void* TryAllocate(std::int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::StatusOr<void*> Look(const pool::Waiter& waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void* Take(const Placement& placement, std::int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void ServeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void Serve(pool::Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);

  // Pins regions until the pool holds `bytes`.
  absl::Status PinUntil(std::int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.memory, locks_.books);
  // Returns whether the options let an allocation pin memory; growth_error_ then says why not.
  bool MayGrow(std::int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Pins a region for a buffer. Returns no block when options, budget or host do not allow it:
  // growth_error_ then says why.
  absl::StatusOr<Placement> Grow(std::int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.memory, locks_.books);
  absl::StatusOr<bool> MakeBudget(std::int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.memory, locks_.books);
  absl::StatusOr<BlockId> AddRegion(std::int64_t bytes, std::int64_t wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.memory, locks_.books);
  absl::Status GiveBackRegion(BlockId block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.memory, locks_.books);

  absl::Status Refuse(std::size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  PoolStats Occupancy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  PinnedPoolStats StatsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);

  const PinnedPoolOptions options_;
  const RegionSizes sizes_;
  const Pinner pinner_;
  const std::unique_ptr<PlacementPolicy> policy_;

  mutable pool::PoolLocks locks_;
  pool::AddressMap addresses_ ABSL_GUARDED_BY(locks_.books);
  pool::Segments regions_ ABSL_GUARDED_BY(locks_.books);
  blocks::Arena arena_ ABSL_GUARDED_BY(locks_.books);
  // The requested bytes, by the name of a used block.
  std::vector<std::int64_t> asked_ ABSL_GUARDED_BY(locks_.books);
  pool::WaitingQueue queue_ ABSL_GUARDED_BY(locks_.books);
  // Why the pool did not grow for the last request.
  std::string growth_error_ ABSL_GUARDED_BY(locks_.books);
  // The fields that are counted; StatsLocked adds the others.
  PinnedPoolStats stats_ ABSL_GUARDED_BY(locks_.books);
};

}  // namespace tidepool::pinned

#endif  // TIDEPOOL_LIB_MEMORY_PINNED_PINNED_POOL_IMPL_H_
