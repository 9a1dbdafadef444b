// What one stream has freed and may soon ask for again: blocks by their exact size, in front of the
// pool and with a mutex of their own, so that threads on different streams need not meet.
//
// To the pool's books a block in a front cache is still used, which is why they hold little, why
// there are none as long as a pool has one stream, and why they are emptied before memory is called
// short. A front cache only knows blocks that were allocated on its stream and that no other stream
// uses: what comes back from it is in the order of the stream by itself.
#ifndef TIDEPOOL_LIB_POOL_FRONT_CACHE_H_
#define TIDEPOOL_LIB_POOL_FRONT_CACHE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lib/pool/backoff_mutex.h"
#include "tidepool/device.h"

namespace tidepool::pool {

// Sizes are rounded up. Thread-safe, except that the pool makes one call at a time of Know, Close,
// Forget and Holds; nothing here waits for the pool. On cache lines of its own:
// its neighbours belong to other threads.
class alignas(64) FrontCache {
 public:
  // A stream of an epoch of its device, and how many bytes the cache may hold for it.
  struct Service {
    Stream stream;
    std::uint64_t epoch = 0;
    std::int64_t most_bytes = 0;
  };
  // The pool allocated a block for `service`. The cache begins to serve it unless it serves another
  // one or rests. False when it is of no use, because the stream seldom asks for what it freed: it
  // wants to be closed, and then rests for a while.
  bool Know(const Service& service, void* address, std::int64_t bytes);
  // Ends its service and hands out what it holds for `stream`. It knows no allocation any more.
  struct Block {
    void* address;
    std::int64_t bytes;
  };
  std::vector<Block> Close(Stream& stream);

  // Null when there is none, or when the cache serves another stream or epoch.
  void* Allocate(Stream stream, std::uint64_t epoch, std::int64_t bytes);
  // False when it does not know the allocation or cannot hold it.
  bool Free(Stream stream, std::uint64_t epoch, void* address);

  // The pool must know about a block that was allocated on `stream`: the cache forgets it. False,
  // and nothing happens, when the cache holds it: then it is free.
  bool Forget(Stream stream, const void* address, std::int64_t bytes);
  bool Holds(Stream stream, const void* address, std::int64_t bytes) const;

  struct Counts {
    std::int64_t allocations = 0;  // served from here, since the pool began
    std::int64_t frees = 0;        // taken here
    std::int64_t held_bytes = 0;
    std::int64_t held_count = 0;
  };
  Counts counts() const;

 private:
  static constexpr std::size_t kSlots = 128;
  static constexpr std::size_t kProbes = 4;
  static constexpr std::size_t kDepth = 7;
  // After so many allocations that the cache had no block for, it looks whether it had more for
  // others; if not, it rests for so many.
  static constexpr std::int64_t kTrial = 1024;
  static constexpr std::int64_t kRest = 64 * kTrial;

  // Blocks of one size.
  struct Slot {
    std::int64_t bytes = 0;
    std::size_t count = 0;
    std::array<void*, kDepth> addresses;
  };

  bool Serves(Stream stream) const {
    return serving_.load(std::memory_order_relaxed) == stream.id && stream.id != 0;
  }
  // Under the mutex.
  bool Serves(Stream stream, std::uint64_t epoch) const {
    return Serves(stream) && service_.epoch == epoch;
  }
  bool EndTrial();
  bool HoldsLocked(const void* address, std::int64_t bytes) const;
  static std::size_t HomeOf(std::int64_t bytes);
  // The slot of a size, or else one that is empty, or null.
  Slot* SlotFor(std::int64_t bytes);

  std::int64_t rest_ = 0;  // guarded by the pool, like all changes of serving_

  // The id of the stream that is served, to see without the mutex that it is another one.
  std::atomic<std::uint64_t> serving_ = 0;

  mutable BackoffMutex mutex_;                           // of all that follows
  Service service_;                                      // of no stream while there is none
  absl::flat_hash_map<const void*, std::int64_t> live_;  // bytes
  std::array<Slot, kSlots> slots_;
  Counts counts_;
  std::int64_t misses_ = 0;  // in this trial
  std::int64_t hits_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_FRONT_CACHE_H_
