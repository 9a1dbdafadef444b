// SPDX-License-Identifier: Apache-2.0
// Requests go to the slab of their stream, and else to the pool. The pool's figures are corrected
// for the slabs.
#include "lib/memory/pool/slab_pool.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tidepool::pool {

SlabPool::SlabPool(const Device& device, const PoolOptions& options, std::unique_ptr<PoolImpl> pool)
    : PoolLayer(std::move(pool)),
      device_(device),
      options_(options),
      epoch_(device.stream_epoch()) {
  pool_->AddLayer(*this);
  pool_->ReserveSplits(static_cast<std::int64_t>(kSlabs) * StreamSlab::kMostSplits);
}

SlabPool::~SlabPool() {
  for (StreamSlab& slab : slabs_) slab.End(*pool_);
}

absl::StatusOr<void*> SlabPool::Allocate(std::size_t bytes, Stream stream, Hint hint) {
  if (!KeepsTickets() || !CanServe(bytes)) return pool_->Allocate(bytes, stream, hint);
  absl::StatusOr<void*> address = AllocateFromFree(static_cast<std::int64_t>(bytes), stream, hint);
  if (!address.ok() || *address != nullptr) return address;
  const Pause pause(*this);
  return pool_->Allocate(bytes, stream, hint);
}

absl::StatusOr<void*> SlabPool::AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                                 absl::Time deadline, std::stop_token stop,
                                                 int priority) {
  if (KeepsTickets() && CanServe(bytes)) {
    absl::StatusOr<void*> address =
        AllocateFromFree(static_cast<std::int64_t>(bytes), stream, hint);
    if (!address.ok() || *address != nullptr) return address;
  }
  return pool_->AllocateBlocking(bytes, stream, hint, deadline, std::move(stop), priority);
}

absl::StatusOr<void*> SlabPool::AllocateFromFree(std::int64_t bytes, Stream stream, Hint hint) {
  StreamSlab& slab = SlabOf(stream);
  const auto allocate = [&] {
    return slab.Allocate(stream, device_.stream_epoch(), Rounded(bytes), hint);
  };
  if (void* const address = allocate()) return address;
  EndSlabsOfDestroyedStreams();
  if (ChangeSlab(stream)) {
    if (void* const address = allocate()) return address;
  }
  return pool_->AllocateFromFree(bytes, stream, hint);
}

bool SlabPool::ChangeSlab(Stream stream) {
  StreamSlab& slab = SlabOf(stream);
  if (slab.IsTooSmall(stream) && EnlargeSlab(slab, stream)) return true;
  if (slab.IsUseless()) {
    slab.Rest();
    slab.End(*pool_);
    return false;
  }
  if (!slab.MayBegin()) return false;
  if (BeginSlab(slab, stream, BytesOfSlab())) return true;
  slab.Rest();
  return false;
}

// A larger slab leaves three quarters of the free memory to other streams and larger requests.
bool SlabPool::EnlargeSlab(StreamSlab& slab, Stream stream) {
  const std::int64_t bytes = slab.bytes();
  if (2 * bytes > pool_->Stats().free_bytes / 4) {
    slab.KeepSize();
    return false;
  }
  slab.End(*pool_);
  return BeginSlab(slab, stream, 2 * bytes) || BeginSlab(slab, stream, bytes);
}

bool SlabPool::BeginSlab(StreamSlab& slab, Stream stream, std::int64_t bytes) {
  const locks::MutexLock lock(&beginning_);
  if (!slab.MayBegin()) return true;
  // The frees inside a slab are not recorded, and a stream that may end cannot be recorded later.
  if (bytes / StreamSlab::kPart < options_.alignment || device_.MayEnd(stream)) return false;
  const auto memory = pool_->AllocateFromFree(bytes, stream, Hint::kResident);
  if (!memory.ok() || *memory == nullptr) return false;
  ++begun_;
  auto policy = MakePlacementPolicy(options_.placement).value();
  const StreamSlab::Service service = {stream, epoch_.load(), static_cast<std::byte*>(*memory),
                                       bytes};
  if (slab.Begin(service, RangeOf(slab), options_.alignment, std::move(policy))) return true;
  ++unused_;
  pool_->FreeCached({*memory}, stream);
  return true;
}

SlabRange& SlabPool::RangeOf(StreamSlab& slab) {
  const std::size_t in_use = ranges_in_use_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < in_use; ++i) {
    if (ranges_[i].slab == &slab) return ranges_[i];
  }
  ranges_[in_use].slab = &slab;
  ranges_in_use_.store(in_use + 1, std::memory_order_release);
  return ranges_[in_use];
}

// A pool that moves memory has no slabs: their blocks could reach from one granule into the next,
// and would keep both from moving.
std::int64_t SlabPool::BytesOfSlab() const {
  if (options_.remap) return 0;
  const std::int64_t slabs = 1 + std::ranges::count_if(slabs_, &StreamSlab::IsServing);
  const std::int64_t part = slabs <= 2 ? kPart : kPartOfMany * slabs;
  return pool_->Stats().reserved_bytes / part & -options_.alignment;
}

absl::Status SlabPool::Free(void* address, Stream stream) {
  if (KeepsTickets() && address != nullptr) {
    if (SlabOf(stream).Free(stream, device_.stream_epoch(), address)) return absl::OkStatus();
    HandOver(address);
  }
  return pool_->Free(address, stream);
}

absl::Status SlabPool::FreeOwn(void* address, Stream stream) {
  if (KeepsTickets() && address != nullptr) {
    if (SlabOf(stream).Free(stream, device_.stream_epoch(), address)) return absl::OkStatus();
    HandOver(address);
  }
  return pool_->FreeOwn(address, stream);
}

void SlabPool::FreeCached(absl::Span<void* const> addresses, Stream stream) {
  for (void* const address : addresses) {
    if (SlabOf(stream).Free(stream, device_.stream_epoch(), address)) continue;
    HandOver(address);
    pool_->FreeCached({address}, stream);
  }
}

void SlabPool::HandOver(const void* address) {
  const std::size_t in_use = ranges_in_use_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < in_use; ++i) {
    if (ranges_[i].Contains(address)) ranges_[i].slab->HandOver(address, *pool_);
  }
}

absl::StatusOr<Stream> SlabPool::AllocatedOn(const void* address) {
  const std::size_t in_use = ranges_in_use_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < in_use; ++i) {
    if (!ranges_[i].Contains(address)) continue;
    if (const auto stream = ranges_[i].slab->AllocatedOn(address)) return *stream;
  }
  return pool_->AllocatedOn(address);
}

absl::Status SlabPool::RecordUse(void* address, Stream stream) {
  HandOver(address);
  return pool_->RecordUse(address, stream);
}

absl::StatusOr<std::int64_t> SlabPool::Trim(std::int64_t keep_bytes) {
  const Pause pause(*this);
  return pool_->Trim(keep_bytes);
}

PoolStats SlabPool::Stats() const {
  PoolStats stats = pool_->Stats();
  stats.allocations -= begun_.load();
  stats.frees -= unused_.load();
  for (const StreamSlab& slab : slabs_) {
    const StreamSlab::Counts counts = slab.counts();
    stats.allocations += counts.allocations - counts.splits;
    stats.frees += counts.frees - counts.ended_parts;
    stats.live_bytes -= counts.free_bytes;
    stats.free_bytes += counts.free_bytes;
  }
  // Other threads may have allocated and freed since the first figure was read.
  stats.live_bytes = std::max<std::int64_t>(0, stats.live_bytes);
  stats.live_count = std::max<std::int64_t>(0, stats.allocations - stats.frees);
  return stats;
}

std::vector<PoolBlock> SlabPool::Snapshot() const {
  const Pause pause(*this);
  return pool_->Snapshot();
}

std::string SlabPool::Describe(const void* address) const {
  const Pause pause(*this);
  return pool_->Describe(address);
}

absl::Status SlabPool::CheckInvariants() const {
  for (const StreamSlab& slab : slabs_) {
    if (absl::Status status = slab.CheckInvariants(); !status.ok()) return status;
  }
  return pool_->CheckInvariants();
}

// The pool may have streams that it has not served since another stream was destroyed. A slab of a
// destroyed stream must end, because its memory would serve no other stream.
void SlabPool::EndSlabsOfDestroyedStreams() {
  const std::uint64_t epoch = device_.stream_epoch();
  if (epoch_.load() == epoch) [[likely]]
    return;
  if (epoch_.exchange(epoch) == epoch) return;
  for (StreamSlab& slab : slabs_) slab.End(*pool_);
}

}  // namespace tidepool::pool
