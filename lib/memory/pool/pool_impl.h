// SPDX-License-Identifier: Apache-2.0
// PoolImpl: puts the parts of a pool together.
//
//   StreamArena   serves requests from free blocks, and keeps streams apart that share them
//   MemorySource  takes memory from the device and gives it back
//   WaitingQueue  the requests that wait for memory
//   Observers     the recorder, and the iterations that plans are made for
#ifndef TIDEPOOL_LIB_MEMORY_POOL_POOL_IMPL_H_
#define TIDEPOOL_LIB_MEMORY_POOL_POOL_IMPL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "lib/memory/pool/inspect.h"
#include "lib/memory/pool/memory_source.h"
#include "lib/memory/pool/observers.h"
#include "lib/memory/pool/pool_options.h"
#include "lib/memory/pool/stream_arena.h"
#include "lib/memory/pool/waiting_queue.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

class PoolImpl final : public Pool {
 public:
  // `options` are resolved, and `policy` is made for them.
  PoolImpl(Device& device, const PoolOptions& options, PoolPolicy policy);
  ~PoolImpl() override;
  absl::Status Start();

  absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream, Hint hint) override;
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                         absl::Time deadline, std::stop_token stop) override;
  absl::Status Free(void* address, Stream stream) override;
  absl::Status FreeOwn(void* address, Stream stream) override;
  absl::StatusOr<Stream> AllocatedOn(const void* address) override;
  absl::Status RecordUse(void* address, Stream stream) override;
  absl::Status RecordWork() override;
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  void Mark(std::string_view name) override;
  void MarkIteration() override;
  void AwaitPlans() override;
  PoolStats Stats() const override;
  void ResetPeaks() override;
  std::vector<PoolBlock> Snapshot() const override;
  void* base() const override;
  std::int64_t OffsetOf(const void* address) const override;
  absl::Status CheckInvariants() const override;
  // Counts the requests that sleep until other calls make room: for tests.
  std::int64_t CountAsleep() const;

  // The rest is for a layer around the pool. The first three need no lock.
  bool HasCrossed() const ABSL_NO_THREAD_SAFETY_ANALYSIS {  // reads an atomic
    return arena_.hand_over().has_crossed();
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

 private:
  std::size_t MostBytes() const {
    return static_cast<std::size_t>(std::min(options_.max_bytes, kMaxRequestBytes));
  }

  // The three return null when there is no room, or when free memory is kept for a waiter that
  // comes before `waiter`. Those with a waiter release the locks while the device is called.
  absl::StatusOr<void*> AllocateOrGrow(const WantedMemory& wanted, const Waiter* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::StatusOr<void*> GrowAndAllocate(const WantedMemory& wanted, const Waiter* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Asks the caller's function to make room, as often as it promises some. Returns the error of a
  // refusal at last.
  absl::StatusOr<void*> AskForRoom(const WantedMemory& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  // Serves a request from a free block: the block that it chooses, or the one that growth made.
  absl::StatusOr<void*> TryAllocate(const WantedMemory& wanted, Placement grown = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void* Observe(BlockId block, const Request& request, std::int64_t asked_bytes,
                const StreamClock& clock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::Status FreeLive(const void* address, StreamClock& clock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::Status NotLive(const void* address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void BeginIteration() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);

  absl::StatusOr<void*> Look(const Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void ServeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  void Serve(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::Status Refuse(std::size_t bytes, Hint hint, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  absl::Status RefuseAtOnce(std::size_t bytes, Hint hint, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);
  PoolStats StatsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books);

  const PoolOptions options_;
  mutable PoolLocks locks_;
  StreamArena arena_ ABSL_GUARDED_BY(locks_.books);
  Observers observers_ ABSL_GUARDED_BY(locks_.books);
  WaitingQueue queue_ ABSL_GUARDED_BY(locks_.books);
  std::int64_t failures_ ABSL_GUARDED_BY(locks_.books) = 0;
  std::int64_t blocked_ ABSL_GUARDED_BY(locks_.books) = 0;
  const std::unique_ptr<MemorySource> memory_ ABSL_PT_GUARDED_BY(locks_.books);
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_POOL_IMPL_H_
