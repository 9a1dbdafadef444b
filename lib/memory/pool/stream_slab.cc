// SPDX-License-Identifier: Apache-2.0
// The arena of a slab, and how its blocks become the books' own.
#include "lib/memory/pool/stream_slab.h"

#include <iterator>
#include <utility>
#include <vector>

namespace tidepool::pool {

bool StreamSlab::MayBegin() {
  if (serving_.load(std::memory_order_relaxed) != 0) return false;
  const std::int64_t rest = rest_.load(std::memory_order_relaxed);
  if (rest <= 0) return true;
  rest_.store(rest - 1, std::memory_order_relaxed);  // a lost count only makes the rest longer
  return false;
}

bool StreamSlab::Begin(const Service& service, SlabRange& range, std::int64_t alignment,
                       std::unique_ptr<PlacementPolicy> policy) {
  const BackoffLock lock(mutex_);
  if (pauses_ > 0 || service_.stream.id != 0) return false;
  service_ = service;
  policy_ = std::move(policy);
  arena_.emplace(service.bytes, alignment, *policy_);
  parts_[0] = service.bytes;
  range_ = &range;
  range.begin.store(reinterpret_cast<std::uintptr_t>(service.memory), std::memory_order_relaxed);
  range.bytes.store(static_cast<std::uintptr_t>(service.bytes), std::memory_order_release);
  serving_.store(service.stream.id, std::memory_order_relaxed);
  return true;
}

void* StreamSlab::Allocate(Stream stream, std::uint64_t epoch, std::int64_t bytes, Hint hint) {
  if (!MayServe(stream)) return nullptr;
  const BackoffLock lock(mutex_);
  if (!Serves(stream, epoch)) return nullptr;
  const bool is_small = bytes <= service_.bytes / kPart && live_ < kMostLive;
  const std::int64_t offset = is_small ? arena_->Allocate(bytes, hint) : blocks::kNoOffset;
  if (offset == blocks::kNoOffset) {
    CountMiss();
    return nullptr;
  }
  ++live_;
  ++hits_;
  ++counts_.allocations;
  return service_.memory + offset;
}

void StreamSlab::CountMiss() {
  if (live_ < kMostLive) ++refusals_;
  if (++misses_ < kTrial) return;
  if (hits_ < misses_) is_useless_.store(true, std::memory_order_relaxed);
  if (hits_ + misses_ < kRequestsARefusal * refusals_) {
    is_too_small_.store(true, std::memory_order_relaxed);
  }
  misses_ = hits_ = refusals_ = 0;
}

bool StreamSlab::Free(Stream stream, std::uint64_t epoch, void* address) {
  if (!MayServe(stream)) return false;
  const BackoffLock lock(mutex_);
  if (!Serves(stream, epoch) || !Contains(address)) return false;
  if (!handed_over_.empty() && Find(address) == kNoBlock) return false;
  if (!arena_->Free(OffsetOf(address))) return false;
  --live_;
  ++counts_.frees;
  blocks::BlockMap& blocks = arena_->blocks();
  if (live_ == 0 && blocks.spares() >= kSparesToShrink) blocks.Shrink();
  return true;
}

BlockId StreamSlab::Find(const void* address) const {
  if (!Contains(address)) return kNoBlock;
  const BlockId block = arena_->blocks().Find(OffsetOf(address));
  return handed_over_.contains(block) ? kNoBlock : block;
}

std::optional<Stream> StreamSlab::AllocatedOn(const void* address) const {
  const BackoffLock lock(mutex_);
  if (Find(address) == kNoBlock) return std::nullopt;
  return service_.stream;
}

void StreamSlab::HandOver(const void* address, PoolImpl& pool) {
  const BackoffLock lock(mutex_);
  if (!Contains(address)) return;
  const BlockId block = arena_->blocks().Find(OffsetOf(address));
  if (block == kNoBlock) return EndLocked(pool);
  if (!handed_over_.contains(block)) HandOver(block, pool);
}

// Splits the block off the allocation in the books that it is in.
void StreamSlab::HandOver(BlockId block, PoolImpl& pool) {
  const std::int64_t begin = arena_->blocks().offset(block);
  const std::int64_t end = begin + arena_->blocks().bytes(block);
  const auto part = std::prev(parts_.upper_bound(begin));
  const auto [part_begin, part_end] = *part;
  const auto split = [&](std::int64_t from, std::int64_t at) {
    mutex_.AssertHeld();
    pool.Split(service_.memory + from, at - from);
    ++counts_.splits;
  };
  if (part_begin < begin) {
    split(part_begin, begin);
    part->second = begin;
  } else {
    parts_.erase(part);
  }
  if (end < part_end) {
    split(begin, end);
    parts_[end] = part_end;
  }
  handed_over_.insert(block);
}

void StreamSlab::End(PoolImpl& pool) {
  const BackoffLock lock(mutex_);
  EndLocked(pool);
}

void StreamSlab::EndLocked(PoolImpl& pool) {
  if (service_.stream.id == 0) return;
  blocks::BlockMap& blocks = arena_->blocks();
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.used(id) && !handed_over_.contains(id)) HandOver(id, pool);
  }
  std::vector<void*> rest;
  for (const auto& [begin, end] : parts_) rest.push_back(service_.memory + begin);
  counts_.ended_parts += static_cast<std::int64_t>(rest.size());
  serving_.store(0, std::memory_order_relaxed);
  range_->bytes.store(0, std::memory_order_relaxed);
  is_useless_.store(false, std::memory_order_relaxed);
  KeepSize();
  pool.FreeCached(rest, std::exchange(service_, {}).stream);
  arena_.reset();
  parts_.clear();
  handed_over_.clear();
  live_ = hits_ = misses_ = refusals_ = 0;
}

void StreamSlab::Pause(PoolImpl& pool) {
  const BackoffLock lock(mutex_);
  ++pauses_;
  EndLocked(pool);
}

void StreamSlab::Resume() {
  const BackoffLock lock(mutex_);
  --pauses_;
}

std::int64_t StreamSlab::bytes() const {
  const BackoffLock lock(mutex_);
  return service_.bytes;
}

StreamSlab::Counts StreamSlab::counts() const {
  const BackoffLock lock(mutex_);
  Counts counts = counts_;
  if (arena_.has_value()) counts.free_bytes = service_.bytes - arena_->blocks().live_bytes();
  return counts;
}

absl::Status StreamSlab::CheckInvariants() const {
  const BackoffLock lock(mutex_);
  return arena_.has_value() ? arena_->blocks().CheckInvariants() : absl::OkStatus();
}

}  // namespace tidepool::pool
