// SPDX-License-Identifier: Apache-2.0
// CachingPool: a layer around a pool that gives each stream a small cache of blocks that it freed.
//
// The caches begin when the pool begins to keep tickets. Threads on different streams
// then seldom meet. The layer empties and pauses all caches before the pool grows, trims, refuses
// or makes a caller wait, because memory in a cache serves only its stream.
//
// It is for training steps with a second stream, and for threads on streams of their own. With
// caches alone, without slabs, a pair of a recorded step takes 0.35 to 0.65 times as long as
// without layers when every eighth or every second request is of a second stream, and 0.53 to 0.77
// times on two threads in a pool of 80 GiB. Random sizes do not gain. docs/design/pool.md has all
// rows.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_CACHING_POOL_H_
#define TIDEPOOL_LIB_MEMORY_POOL_CACHING_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/memory/pool/pool_layer.h"
#include "lib/memory/pool/slab_pool.h"
#include "lib/memory/pool/stream_cache.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

class CachingPool : public PoolLayer<SlabPool> {
 public:
  CachingPool(const Device& device, std::unique_ptr<SlabPool> pool)
      : PoolLayer(std::move(pool)),
        device_(device),
        inner_(pool_->pool()),
        epoch_(device.stream_epoch()) {
    inner_.AddLayer(*this);
  }
  ~CachingPool() override;

  absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream, Hint hint) override;
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                         absl::Time deadline, std::stop_token stop,
                                         int priority) override;
  absl::Status Free(void* address, Stream stream) override;
  absl::Status FreeOwn(void* address, Stream stream) override;
  absl::StatusOr<Stream> AllocatedOn(const void* address) override;
  absl::Status RecordUse(void* address, Stream stream) override;
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  PoolStats Stats() const override;
  std::vector<PoolBlock> Snapshot() const override;
  void PauseCaches() override {
    for (StreamCache& cache : caches_) GiveToPool(cache.Pause());
  }
  void ResumeCaches() override {
    for (StreamCache& cache : caches_) cache.Resume();
  }

 private:
  static constexpr std::size_t kCaches = 32;

  // Keeps all caches empty for a scope.
  class Pause {
   public:
    explicit Pause(CachingPool& pool) : pool_(pool) { pool_.PauseCaches(); }
    ~Pause() { pool_.ResumeCaches(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    CachingPool& pool_;
  };

  // Whether the caches may serve. Before memory crosses between streams there is nothing to gain.
  bool KeepsTickets() const { return inner_.KeepsTickets(); }
  // A stream uses the cache that its number leads to, unless that cache serves another stream.
  StreamCache& CacheOf(Stream stream) { return caches_[stream.id % kCaches]; }
  const StreamCache& CacheOf(Stream stream) const { return caches_[stream.id % kCaches]; }
  // The two return null when only growth, cached blocks or other frees can serve the request.
  absl::StatusOr<void*> AllocateWithoutGrowth(std::size_t bytes, Stream stream, Hint hint);
  absl::StatusOr<void*> AllocateFromPool(std::int64_t bytes, Stream stream, Hint hint);
  void LearnAllocation(Stream stream, void* address, std::int64_t bytes);
  // Makes the cache that knows an allocation forget it. InvalidArgument when it is free there.
  absl::Status ForgetAllocation(const void* address);
  void CloseCachesOfDestroyedStreams();
  void GiveToPool(const StreamCache::Leftover& leftover);

  const Device& device_;
  PoolImpl& inner_;                        // without slabs
  std::atomic<std::uint64_t> epoch_;       // of the device, when caches were last closed for it
  std::atomic<std::int64_t> serving_ = 0;  // at least the caches that serve a stream
  std::array<StreamCache, kCaches> caches_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_CACHING_POOL_H_
