// SPDX-License-Identifier: Apache-2.0
// The pool of pinned memory: an arena over regions, and a line of waiting allocations.
//
// One mutex guards the books. A thread that pins or unpins releases it, because that takes long and
// other threads free and ask meanwhile; locks_.memory keeps such threads apart.
#ifndef TIDEPOOL_LIB_PINNED_PINNED_POOL_IMPL_H_
#define TIDEPOOL_LIB_PINNED_PINNED_POOL_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lib/blocks/arena.h"
#include "lib/pinned/regions.h"
#include "lib/pool/address_map.h"
#include "lib/pool/backoff_mutex.h"
#include "lib/pool/pool_locks.h"
#include "lib/pool/range.h"
#include "lib/pool/waiting_queue.h"
#include "tidepool/host/pinned_pool.h"
#include "tidepool/placement.h"

namespace tidepool::pinned {

class PinnedPoolImpl final : public PinnedPool {
 public:
  // Of options that were checked.
  PinnedPoolImpl(Device& device, const PinnedPoolOptions& options,
                 std::unique_ptr<PlacementPolicy> policy)
      : options_(options),
        policy_(std::move(policy)),
        regions_(device, addresses_, options.pages, options.alignment),
        arena_(0, options.alignment, *policy_, OffsetBytes(options)) {}
  ~PinnedPoolImpl() override;

  // How many bytes of offsets a pool needs.
  static std::int64_t OffsetBytes(const PinnedPoolOptions& options);

  absl::StatusOr<void*> Allocate(std::size_t bytes) override;
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, absl::Time deadline) override;
  absl::Status Free(void* address) override;
  absl::Status Reserve(std::int64_t bytes) override;
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  PinnedPoolStats Stats() const override;
  absl::Status CheckInvariants() const override;

 private:
  // Functions below hold the lock. Where one returns a null address, or kNoBlock, there is no room.

  // Those with a parameter `lock` or `memory` release it meanwhile: no block that was found before
  // them is good after them.

  absl::StatusOr<void*> TryAllocate(std::int64_t bytes, const pool::Waiter* waiter = nullptr);
  void* TryPlace(std::int64_t bytes);
  void* Take(const Placement& placement, std::int64_t bytes);
  // Until the pool holds so much.
  absl::Status PinUntil(std::int64_t bytes);
  absl::StatusOr<Placement> Grow(std::int64_t bytes);
  absl::StatusOr<BlockId> AddRegion(std::int64_t bytes, std::int64_t wanted);
  absl::StatusOr<bool> MakeBudget(std::int64_t bytes);
  absl::Status GiveBackRegion(BlockId block);
  std::vector<BlockId> FreeRegions() const;
  BlockId Include(const pool::Range& region);
  BlockId ExcludedAt(std::int64_t offset) const;
  void NotePeakReserved();

  absl::StatusOr<void*> Look(const pool::Waiter& waiter);
  absl::Status TooLate(const pool::Waiter& waiter);
  void ServeWaiting();
  void Serve(pool::Waiter& waiter);

  absl::Status Refuse(std::size_t bytes);
  absl::Status NotLive(const void* address) const;
  PinnedPoolStats StatsLocked() const;
  void ReportLive() const;

  const PinnedPoolOptions options_;
  std::unique_ptr<PlacementPolicy> policy_;

  mutable pool::PoolLocks locks_;
  pool::AddressMap addresses_;
  Regions regions_;
  blocks::Arena arena_;
  std::vector<std::int64_t> asked_;  // by name of a used block: the bytes that were asked for
  pool::WaitingQueue queue_;
  std::string growth_error_;  // why the pool did not grow for the last request
  PinnedPoolStats stats_;     // what is counted; the rest is asked for
};

}  // namespace tidepool::pinned

#endif  // TIDEPOOL_LIB_PINNED_PINNED_POOL_IMPL_H_
