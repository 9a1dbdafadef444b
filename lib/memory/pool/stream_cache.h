// SPDX-License-Identifier: Apache-2.0
// StreamCache: free blocks of one stream by exact size, under a mutex of its own.
//
// A thread that finds its block here does not touch the pool, so threads on different streams need
// not meet. The pool counts a cached block as used. Therefore a cache holds few bytes, and it is
// emptied before memory is called short. It knows only blocks that were allocated on its stream and
// that no other stream uses: the order of that stream alone keeps their work apart.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_STREAM_CACHE_H_
#define TIDEPOOL_LIB_MEMORY_POOL_STREAM_CACHE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "lib/memory/pool/backoff_mutex.h"
#include "tidepool/device.h"

namespace tidepool::pool {

// Thread-safe. Sizes are rounded as the pool rounds them. Each cache has cache lines of its own,
// because its neighbours belong to other threads.
class alignas(64) StreamCache {
 public:
  // A stream, the epoch of its device, and how many bytes the cache may hold for it.
  struct Service {
    Stream stream;
    std::uint64_t epoch = 0;
    std::int64_t most_bytes = 0;
  };
  enum class FreeResult : std::uint8_t {
    kTaken,
    kForgotten,  // not taken, and the cache does not know the allocation any more
    kUnknown,    // not a live allocation that this cache knows
  };

  // Whether a stream may begin to be served: no stream is, and the cache does not rest.
  bool MayBegin();
  // Begins to serve a stream. Returns false when another stream is served or the cache is paused.
  bool Begin(const Service& service);
  // Notes that the pool allocated a block for a stream. Returns false when the cache is of no use,
  // because the stream seldom asks for sizes that it freed: then the cache must be closed.
  bool LearnAllocation(Stream stream, void* address, std::int64_t bytes);

  // Returns null when there is no block, or when the cache serves another stream or epoch.
  void* Allocate(Stream stream, std::uint64_t epoch, std::int64_t bytes);
  FreeResult Free(Stream stream, std::uint64_t epoch, void* address);

  // Forgets a block that was allocated on `stream`. Returns false, and does nothing, when the block
  // is free in this cache.
  bool Forget(Stream stream, const void* address);
  bool Holds(Stream stream, const void* address) const;

  // The free blocks of a cache that ended its service.
  struct Leftover {
    Stream stream;
    std::vector<void*> addresses;
  };
  // Ends the service, forgets all allocations and returns the free blocks.
  Leftover Close();
  // Closes the cache, which then serves no stream before each Pause has had its Resume.
  Leftover Pause();
  void Resume();

  struct Counts {
    std::int64_t hits = 0;  // allocations that the cache served so far
    std::int64_t held_bytes = 0;
    std::int64_t held_count = 0;
  };
  Counts counts() const;

 private:
  static constexpr std::size_t kSlots = 128;
  static constexpr std::size_t kProbes = 4;
  static constexpr std::size_t kDepth = 7;
  // After this number of misses the cache compares them with its hits. With fewer hits it rests for
  // kRest allocations.
  static constexpr std::int64_t kTrial = 1024;
  static constexpr std::int64_t kRest = 64 * kTrial;

  // Blocks of one size.
  struct Slot {
    std::int64_t bytes = 0;
    std::size_t count = 0;
    std::array<void*, kDepth> addresses;
  };
  using Slots = std::array<Slot, kSlots>;
  // In one word: an entry for each live allocation is most of the memory that a cache takes.
  struct Known {
    std::uint64_t bytes : 63 = 0;
    std::uint64_t is_free : 1 = 0;
  };

  // Tells without the mutex that another stream is served.
  bool MayServe(Stream stream) const {
    return serving_.load(std::memory_order_relaxed) == stream.id && stream.id != 0;
  }
  bool Serves(Stream stream, std::uint64_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return service_.stream == stream && service_.epoch == epoch;
  }
  Leftover CloseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::size_t HomeOf(std::int64_t bytes);
  // Returns the slot of a size, or else an empty one, or null.
  Slot* SlotFor(std::int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<std::uint64_t> serving_ = 0;  // the id of the stream in service_
  std::atomic<std::int64_t> rest_ = 0;      // allocations until the rest ends

  mutable BackoffMutex mutex_;
  Service service_ ABSL_GUARDED_BY(mutex_);  // without a stream when none is served
  int pauses_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<const void*, Known> known_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Slots> slots_ ABSL_GUARDED_BY(mutex_);  // of a service
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  std::int64_t misses_ ABSL_GUARDED_BY(mutex_) = 0;  // in this trial
  std::int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;    // in this trial
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_STREAM_CACHE_H_
