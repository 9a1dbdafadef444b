// SPDX-License-Identifier: Apache-2.0
// The caches serve allocations and frees that the pool does not see; its figures are corrected for
// them.
#include "lib/memory/pool/caching_pool.h"

#include <algorithm>
#include <utility>

namespace tidepool::pool {

CachingPool::~CachingPool() {
  for (StreamCache& cache : caches_) GiveToPool(cache.Close());
}

absl::StatusOr<void*> CachingPool::Allocate(std::size_t bytes, Stream stream, Hint hint) {
  if (!KeepsTickets()) return inner_.Allocate(bytes, stream, hint);
  if (!inner_.CanServe(bytes)) return pool_->Allocate(bytes, stream, hint);
  absl::StatusOr<void*> address = AllocateWithoutGrowth(bytes, stream, hint);
  if (!address.ok() || *address != nullptr) return address;
  const Pause pause(*this);
  return pool_->Allocate(bytes, stream, hint);
}

absl::StatusOr<void*> CachingPool::AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                                    absl::Time deadline, std::stop_token stop,
                                                    int priority) {
  if (KeepsTickets() && pool_->CanServe(bytes)) {
    absl::StatusOr<void*> address = AllocateWithoutGrowth(bytes, stream, hint);
    if (!address.ok() || *address != nullptr) return address;
  }
  return pool_->AllocateBlocking(bytes, stream, hint, deadline, std::move(stop), priority);
}

absl::StatusOr<void*> CachingPool::AllocateWithoutGrowth(std::size_t bytes, Stream stream,
                                                         Hint hint) {
  const std::int64_t rounded = pool_->Rounded(static_cast<std::int64_t>(bytes));
  if (void* const address = CacheOf(stream).Allocate(stream, device_.stream_epoch(), rounded)) {
    return address;
  }
  absl::StatusOr<void*> address = AllocateFromPool(static_cast<std::int64_t>(bytes), stream, hint);
  if (address.ok() && *address != nullptr) LearnAllocation(stream, *address, rounded);
  return address;
}

absl::StatusOr<void*> CachingPool::AllocateFromPool(std::int64_t bytes, Stream stream, Hint hint) {
  CloseCachesOfDestroyedStreams();
  return pool_->AllocateFromFree(bytes, stream, hint);
}

void CachingPool::LearnAllocation(Stream stream, void* address, std::int64_t bytes) {
  StreamCache& cache = CacheOf(stream);
  // The frees that a cache takes are not recorded, and a stream that may end cannot be recorded
  // later.
  if (cache.MayBegin() && !device_.MayEnd(stream)) {
    const std::int64_t caches = ++serving_;  // before it begins, so that no free overlooks it
    const std::int64_t part = caches <= 2 ? kPart : kPartOfMany * caches;
    if (!cache.Begin({stream, epoch_.load(), pool_->Stats().reserved_bytes / part})) --serving_;
  }
  if (!cache.LearnAllocation(stream, address, bytes)) GiveToPool(cache.Close());
}

absl::Status CachingPool::Free(void* address, Stream stream) {
  if (!KeepsTickets() || address == nullptr) return inner_.Free(address, stream);
  using enum StreamCache::FreeResult;
  switch (CacheOf(stream).Free(stream, device_.stream_epoch(), address)) {
    case kTaken:
      return absl::OkStatus();
    case kForgotten:
      return pool_->Free(address, stream);
    case kUnknown:
      break;
  }
  if (absl::Status status = ForgetAllocation(address); !status.ok()) return status;
  return pool_->Free(address, stream);
}

absl::Status CachingPool::FreeOwn(void* address, Stream stream) {
  if (!KeepsTickets() || address == nullptr) return pool_->FreeOwn(address, stream);
  const auto result = CacheOf(stream).Free(stream, device_.stream_epoch(), address);
  if (result == StreamCache::FreeResult::kTaken) return absl::OkStatus();
  if (absl::Status status = ForgetAllocation(address); !status.ok()) return status;
  return pool_->FreeOwn(address, stream);
}

absl::Status CachingPool::ForgetAllocation(const void* address) {
  CloseCachesOfDestroyedStreams();
  if (serving_.load() == 0) return absl::OkStatus();
  const absl::StatusOr<Stream> stream = pool_->AllocatedOn(address);
  if (!stream.ok()) return stream.status();
  return CacheOf(*stream).Forget(*stream, address) ? absl::OkStatus()
                                                   : DoubleFreeError(address, kPoolWords);
}

absl::StatusOr<Stream> CachingPool::AllocatedOn(const void* address) {
  absl::StatusOr<Stream> stream = pool_->AllocatedOn(address);
  if (stream.ok() && CacheOf(*stream).Holds(*stream, address))
    return DoubleFreeError(address, kPoolWords);
  return stream;
}

absl::Status CachingPool::RecordUse(void* address, Stream stream) {
  if (KeepsTickets() && address != nullptr) {
    if (absl::Status status = ForgetAllocation(address); !status.ok()) return status;
  }
  return pool_->RecordUse(address, stream);
}

absl::StatusOr<std::int64_t> CachingPool::Trim(std::int64_t keep_bytes) {
  const Pause pause(*this);
  return pool_->Trim(keep_bytes);
}

PoolStats CachingPool::Stats() const {
  PoolStats stats = pool_->Stats();
  for (const StreamCache& cache : caches_) {
    const StreamCache::Counts counts = cache.counts();
    stats.allocations += counts.hits;
    stats.frees += counts.hits + counts.held_count;
    stats.live_count -= counts.held_count;
    stats.live_bytes -= counts.held_bytes;
    stats.free_bytes += counts.held_bytes;
  }
  // Other threads may have allocated and freed since the first figure was read.
  stats.live_bytes = std::max<std::int64_t>(0, stats.live_bytes);
  stats.live_count = std::max<std::int64_t>(0, stats.live_count);
  return stats;
}

std::vector<PoolBlock> CachingPool::Snapshot() const {
  std::vector<PoolBlock> snapshot = pool_->Snapshot();
  for (PoolBlock& block : snapshot) {
    if (!block.used || !CacheOf(block.stream).Holds(block.stream, block.address)) continue;
    block.used = false;
    block.pending = {std::exchange(block.stream, {})};
  }
  return snapshot;
}

// The pool may have streams that it has not served since another stream was destroyed. A cache of a
// destroyed stream must end, because its blocks would serve no other stream.
void CachingPool::CloseCachesOfDestroyedStreams() {
  const std::uint64_t epoch = device_.stream_epoch();
  if (epoch_.load() == epoch) [[likely]]
    return;
  if (epoch_.exchange(epoch) == epoch) return;
  for (StreamCache& cache : caches_) GiveToPool(cache.Close());
}

void CachingPool::GiveToPool(const StreamCache::Leftover& leftover) {
  if (leftover.stream.id == 0) return;
  --serving_;
  if (!leftover.addresses.empty()) pool_->FreeCached(leftover.addresses, leftover.stream);
}

}  // namespace tidepool::pool
