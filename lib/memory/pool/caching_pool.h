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

#include "lib/memory/pool/slab_pool.h"
#include "lib/memory/pool/stream_cache.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

class CachingPool final : public Pool, public CacheLayer {
 public:
  CachingPool(const Device& device, std::unique_ptr<SlabPool> pool)
      : device_(device),
        pool_(std::move(pool)),
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
  absl::Status RecordWork() override { return pool_->RecordWork(); }
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  void Mark(std::string_view name) override { pool_->Mark(name); }
  void MarkIteration() override { pool_->MarkIteration(); }
  void AwaitPlans() override { pool_->AwaitPlans(); }
  PoolStats Stats() const override;
  void ResetPeaks() override { pool_->ResetPeaks(); }
  std::vector<PoolBlock> Snapshot() const override;
  void* base() const override { return pool_->base(); }
  std::int64_t OffsetOf(const void* address) const override { return pool_->OffsetOf(address); }
  absl::StatusOr<Pool*> Region(std::string_view tag) override { return pool_->Region(tag); }
  absl::Status PauseRegion(std::string_view tag, PauseMode mode, Stream stream) override {
    return pool_->PauseRegion(tag, mode, stream);
  }
  absl::Status PauseRegionInto(std::string_view tag, std::unique_ptr<ContentsStore> store,
                               Stream stream) override {
    return pool_->PauseRegionInto(tag, std::move(store), stream);
  }
  absl::Status ResumeRegion(std::string_view tag, Stream stream) override {
    return pool_->ResumeRegion(tag, stream);
  }
  absl::Status DiscardContents(std::string_view tag) override {
    return pool_->DiscardContents(tag);
  }
  absl::Status AwaitContents(const void* address, std::int64_t bytes, Stream stream) override {
    return pool_->AwaitContents(address, bytes, stream);
  }
  absl::Status LimitRegion(std::string_view tag, std::int64_t least_bytes,
                           std::int64_t most_bytes) override {
    return pool_->LimitRegion(tag, least_bytes, most_bytes);
  }
  absl::Status BeginRegistration(const void* address, std::int64_t bytes) override {
    return pool_->BeginRegistration(address, bytes);
  }
  absl::Status EndRegistration(const void* address, std::int64_t bytes) override {
    return pool_->EndRegistration(address, bytes);
  }
  std::vector<RegionStats> RegionStatistics() const override { return pool_->RegionStatistics(); }
  std::string Describe(const void* address) const override { return pool_->Describe(address); }
  absl::Status CheckInvariants() const override { return pool_->CheckInvariants(); }
  void PauseCaches() override {
    for (StreamCache& cache : caches_) GiveToPool(cache.Pause());
  }
  void ResumeCaches() override {
    for (StreamCache& cache : caches_) cache.Resume();
  }

  std::int64_t CountAsleep() const { return pool_->CountAsleep(); }

 private:
  static constexpr std::size_t kCaches = 32;

  // A cache that begins as the first or second holds at most 1/kPart of the pool, and one that
  // begins as the n-th at most 1/(n kPartOfMany): a cached block serves only its stream, and keeps
  // its neighbours from merging.
  static constexpr std::int64_t kPart = 128;
  static constexpr std::int64_t kPartOfMany = 512;

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
  bool IsCaching() const { return inner_.HasCrossed(); }
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
  const std::unique_ptr<SlabPool> pool_;
  PoolImpl& inner_;                        // without slabs
  std::atomic<std::uint64_t> epoch_;       // of the device, when caches were last closed for it
  std::atomic<std::int64_t> serving_ = 0;  // at least the caches that serve a stream
  std::array<StreamCache, kCaches> caches_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_CACHING_POOL_H_
