// SPDX-License-Identifier: Apache-2.0
// StreamSlab: a range of a pool's memory that serves the small requests of one stream.
//
// In the pool's books the slab is one live allocation of its stream. The slab places requests in it
// with an arena and a mutex of its own, so threads on different streams do not meet. The slab can
// hand a block over to the books, as if the pool itself had allocated it. A slab ends by handing
// over each live block and giving the rest of its memory back.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_STREAM_SLAB_H_
#define TIDEPOOL_LIB_MEMORY_POOL_STREAM_SLAB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_set.h"
#include "lib/memory/blocks/arena.h"
#include "lib/memory/pool/backoff_mutex.h"
#include "lib/memory/pool/pool_impl.h"
#include "tidepool/device.h"
#include "tidepool/placement.h"

namespace tidepool::pool {

class StreamSlab;

// The memory of a slab. All threads read it without a lock, to find the slab of an address; it has
// cache lines apart from those that the slab's own stream writes.
struct SlabRange {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> bytes = 0;  // 0 without memory
  StreamSlab* slab = nullptr;

  // A live allocation in the slab keeps the answer for its address true.
  bool Contains(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - begin.load(std::memory_order_relaxed) <
           bytes.load(std::memory_order_acquire);
  }
};

// Thread-safe. Each slab has cache lines of its own, because its neighbours belong to other
// threads.
class alignas(64) StreamSlab {
 public:
  // A stream, the epoch of its device, and a live allocation of the stream: memory for the slab.
  struct Service {
    Stream stream;
    std::uint64_t epoch = 0;
    std::byte* memory = nullptr;
    std::int64_t bytes = 0;  // a multiple of the alignment
  };
  // The most live allocations in a slab.
  static constexpr std::int64_t kMostLive = 2047;
  // A slab serves requests of at most this part of its bytes. Larger ones would fill it, and the
  // stream would go to the pool for most requests.
  static constexpr std::int64_t kPart = 64;
  // The most calls of PoolImpl::Split by a slab.
  static constexpr std::int64_t kMostSplits = 2 * kMostLive;

  // Whether a stream may begin to be served: no stream is, and the slab does not rest.
  bool MayBegin();
  // Makes later calls of MayBegin return false for some thousand calls.
  void Rest() { rest_.store(kRest, std::memory_order_relaxed); }
  // Begins to serve a stream. Returns false when another stream is served or the slab is paused.
  // `range` is the slab's own, and lives as long.
  bool Begin(const Service& service, SlabRange& range, std::int64_t alignment,
             std::unique_ptr<PlacementPolicy> policy);
  bool IsServing() const { return serving_.load(std::memory_order_relaxed) != 0; }
  // Whether the slab is of no use, because its stream seldom asks for memory that it can give.
  bool IsUseless() const { return is_useless_.load(std::memory_order_relaxed); }
  // Whether the slab serves the stream, and had no room for many of its requests.
  bool IsTooSmall(Stream stream) const {
    return is_too_small_.load(std::memory_order_relaxed) && MayServe(stream);
  }
  // Makes IsTooSmall return false for some thousand requests.
  void KeepSize() { is_too_small_.store(false, std::memory_order_relaxed); }
  std::int64_t bytes() const;  // of the present service, or 0

  // Returns null when there is no room, or when the slab serves another stream or epoch. `bytes` is
  // rounded as the pool rounds it.
  void* Allocate(Stream stream, std::uint64_t epoch, std::int64_t bytes, Hint hint);
  // Frees a live allocation of the slab. Returns false, and does nothing, when no such allocation
  // begins at `address`, or when the slab serves another stream or epoch.
  bool Free(Stream stream, std::uint64_t epoch, void* address);

  // Returns the stream of a live allocation of the slab.
  std::optional<Stream> AllocatedOn(const void* address) const;
  // Hands a live allocation of the slab over to the pool's books. Ends the slab when it has no
  // allocation at an address in its memory: then the pool's error can describe the address.
  void HandOver(const void* address, PoolImpl& pool);
  // Ends the service.
  void End(PoolImpl& pool);
  // Ends the service; the slab then serves no stream before each Pause has had its Resume.
  void Pause(PoolImpl& pool);
  void Resume();

  // Sums over all services.
  struct Counts {
    std::int64_t allocations = 0;  // served by the slab
    std::int64_t frees = 0;        // of allocations that were not handed over
    std::int64_t splits = 0;       // of allocations in the books
    std::int64_t ended_parts = 0;  // freed allocations in the books
    std::int64_t free_bytes = 0;   // at present
  };
  Counts counts() const;
  // Checks the slab's arena. Returns an Internal error that names the first violation.
  absl::Status CheckInvariants() const;

 private:
  // After this number of requests that the slab could not serve, it compares them with those that
  // it served. With fewer of these it ends, and rests for kRest requests.
  static constexpr std::int64_t kTrial = 1024;
  static constexpr std::int64_t kRest = 64 * kTrial;
  // A slab is too small if it has no room for one of this number of requests.
  static constexpr std::int64_t kRequestsARefusal = 64;
  // An empty slab with this number of block names that are not in use gives their memory back.
  static constexpr std::int64_t kSparesToShrink = 256;

  // Tells without the mutex that another stream is served.
  bool MayServe(Stream stream) const {
    return serving_.load(std::memory_order_relaxed) == stream.id && stream.id != 0;
  }
  bool Serves(Stream stream, std::uint64_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return service_.stream == stream && service_.epoch == epoch;
  }
  bool Contains(const void* address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return range_ != nullptr && range_->Contains(address);
  }
  std::int64_t OffsetOf(const void* address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<const std::byte*>(address) - service_.memory;
  }
  // Returns the block of a live allocation that was not handed over, or kNoBlock.
  BlockId Find(const void* address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountMiss() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandOver(BlockId block, PoolImpl& pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(PoolImpl& pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<std::uint64_t> serving_ = 0;  // the id of the stream in service_
  std::atomic<std::int64_t> rest_ = 0;      // requests until the rest ends
  std::atomic<bool> is_useless_ = false;
  std::atomic<bool> is_too_small_ = false;

  mutable BackoffMutex mutex_;
  Service service_ ABSL_GUARDED_BY(mutex_);             // without a stream when none is served
  SlabRange* range_ ABSL_GUARDED_BY(mutex_) = nullptr;  // from the first Begin on
  int pauses_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<PlacementPolicy> policy_ ABSL_GUARDED_BY(mutex_);
  // The arena has no value without a service. In it, blocks that were handed over stay used.
  mutable std::optional<blocks::Arena> arena_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<BlockId> handed_over_ ABSL_GUARDED_BY(mutex_);
  // The slab's allocations in the books: the end of each by its start, as offsets.
  absl::btree_map<std::int64_t, std::int64_t> parts_ ABSL_GUARDED_BY(mutex_);
  std::int64_t live_ ABSL_GUARDED_BY(mutex_) = 0;  // with those that were handed over
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  // In this trial. A refusal is a miss that a larger slab might serve.
  std::int64_t misses_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t refusals_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_STREAM_SLAB_H_
