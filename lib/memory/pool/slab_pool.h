// SPDX-License-Identifier: Apache-2.0
// SlabPool: a layer around a pool that gives each stream a slab for its small requests.
//
// The slabs begin when the pool begins to keep tickets. The layer ends and pauses all
// slabs before the pool grows, trims, refuses or makes a caller wait, so the budget is used as if
// there were no slabs.
//
// It is for threads on streams of their own that ask for varying sizes, as data frames and
// inference do: in a pool of 80 GiB, slabs of a fixed size take 0.68 to 0.84 of the time without
// layers for a pair of random sizes on two threads, and slabs that grow a third of that.
// docs/design/pool.md has all rows.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_SLAB_POOL_H_
#define TIDEPOOL_LIB_MEMORY_POOL_SLAB_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/pool/pool_impl.h"
#include "lib/memory/pool/pool_layer.h"
#include "lib/memory/pool/stream_slab.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

class SlabPool final : public PoolLayer<PoolImpl> {
 public:
  // `options` are resolved, and their policy remembers no addresses. There are no slabs where the
  // memory moves.
  SlabPool(const Device& device, const PoolOptions& options, std::unique_ptr<PoolImpl> pool);
  ~SlabPool() override;

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
  // Ends the slabs, so that each allocation is a block of its own.
  std::vector<PoolBlock> Snapshot() const override;
  std::string Describe(const void* address) const override;  // ends the slabs, as Snapshot does
  absl::Status CheckInvariants() const override;
  void PauseCaches() override { PauseSlabs(); }
  void ResumeCaches() override { ResumeSlabs(); }

  // The rest is for a layer around this one, as in PoolImpl. Before memory crosses between streams
  // the layer may call the pool itself.
  PoolImpl& pool() { return *pool_; }
  bool KeepsTickets() const { return pool_->KeepsTickets(); }
  bool CanServe(std::size_t bytes) const { return pool_->CanServe(bytes); }
  std::int64_t Rounded(std::int64_t bytes) const { return pool_->Rounded(bytes); }
  absl::StatusOr<void*> AllocateFromFree(std::int64_t bytes, Stream stream, Hint hint);
  void FreeCached(absl::Span<void* const> addresses, Stream stream);

 private:
  static constexpr std::size_t kSlabs = 32;

  // Keeps all slabs ended for a scope.
  class Pause {
   public:
    explicit Pause(const SlabPool& pool) : pool_(pool) { pool_.PauseSlabs(); }
    ~Pause() { pool_.ResumeSlabs(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    const SlabPool& pool_;
  };

  void PauseSlabs() const {
    for (StreamSlab& slab : slabs_) slab.Pause(*pool_);
  }
  void ResumeSlabs() const {
    for (StreamSlab& slab : slabs_) slab.Resume();
  }
  // A stream uses the slab that its number leads to, unless that slab serves another stream.
  StreamSlab& SlabOf(Stream stream) const { return slabs_[stream.id % kSlabs]; }
  // Hands an allocation over to the pool if it is in a slab.
  void HandOver(const void* address);
  // Begins, enlarges or ends the slab of a stream after a request that it could not serve. Returns
  // whether it may serve the request now.
  bool ChangeSlab(Stream stream);
  bool EnlargeSlab(StreamSlab& slab, Stream stream);
  bool BeginSlab(StreamSlab& slab, Stream stream, std::int64_t bytes);
  std::int64_t BytesOfSlab() const;
  // Returns the place of a slab's range, which it keeps.
  SlabRange& RangeOf(StreamSlab& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(beginning_);
  void EndSlabsOfDestroyedStreams();

  const Device& device_;
  const PoolOptions options_;
  std::atomic<std::uint64_t> epoch_;      // of the device, when slabs were last ended for it
  std::atomic<std::int64_t> begun_ = 0;   // allocations in the pool for slabs
  std::atomic<std::int64_t> unused_ = 0;  // those that no slab took
  locks::Mutex beginning_;                // a thread that begins a slab holds it
  // Ranges of the slabs that ever served, in the order of their first service: few streams need few
  // comparisons to find the slab of an address.
  alignas(64) std::array<SlabRange, kSlabs> ranges_;
  std::atomic<std::size_t> ranges_in_use_ = 0;
  mutable std::array<StreamSlab, kSlabs> slabs_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_SLAB_POOL_H_
