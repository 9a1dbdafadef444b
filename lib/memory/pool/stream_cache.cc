// SPDX-License-Identifier: Apache-2.0
// A small hash table of stacks: a size may use only a few neighbouring slots.
#include "lib/memory/pool/stream_cache.h"

#include <bit>
#include <utility>

namespace tidepool::pool {

bool StreamCache::MayBegin() {
  if (serving_.load(std::memory_order_relaxed) != 0) return false;
  const std::int64_t rest = rest_.load(std::memory_order_relaxed);
  if (rest <= 0) return true;
  rest_.store(rest - 1, std::memory_order_relaxed);  // a lost count only makes the rest longer
  return false;
}

bool StreamCache::Begin(const Service& service) {
  const BackoffLock lock(mutex_);
  if (pauses_ > 0 || service_.stream.id != 0) return false;
  slots_ = std::make_unique<Slots>();
  service_ = service;
  serving_.store(service.stream.id, std::memory_order_relaxed);
  return true;
}

bool StreamCache::LearnAllocation(Stream stream, void* address, std::int64_t bytes) {
  if (!MayServe(stream)) return true;
  const BackoffLock lock(mutex_);
  if (!(service_.stream == stream)) return true;
  known_[address] = {static_cast<std::uint64_t>(bytes), 0};
  if (++misses_ < kTrial) return true;
  misses_ = 0;
  const bool is_useful = std::exchange(hits_, 0) >= kTrial;
  if (!is_useful) rest_.store(kRest, std::memory_order_relaxed);
  return is_useful;
}

void* StreamCache::Allocate(Stream stream, std::uint64_t epoch, std::int64_t bytes) {
  if (!MayServe(stream)) return nullptr;
  const BackoffLock lock(mutex_);
  if (!Serves(stream, epoch)) return nullptr;
  Slot* slot = SlotFor(bytes);
  if (slot == nullptr || slot->count == 0) return nullptr;
  void* const address = slot->addresses[--slot->count];
  counts_.held_bytes -= bytes;
  --counts_.held_count;
  ++counts_.hits;
  ++hits_;
  known_.find(address)->second.is_free = 0;
  return address;
}

StreamCache::FreeResult StreamCache::Free(Stream stream, std::uint64_t epoch, void* address) {
  if (!MayServe(stream)) return FreeResult::kUnknown;
  const BackoffLock lock(mutex_);
  if (!Serves(stream, epoch)) return FreeResult::kUnknown;
  const auto found = known_.find(address);
  if (found == known_.end() || found->second.is_free != 0) return FreeResult::kUnknown;
  const auto bytes = static_cast<std::int64_t>(found->second.bytes);
  Slot* slot = SlotFor(bytes);
  if (slot == nullptr || slot->count == kDepth ||
      counts_.held_bytes + bytes > service_.most_bytes) {
    known_.erase(found);
    return FreeResult::kForgotten;
  }
  found->second.is_free = 1;
  slot->bytes = bytes;
  slot->addresses[slot->count++] = address;
  counts_.held_bytes += bytes;
  ++counts_.held_count;
  return FreeResult::kTaken;
}

bool StreamCache::Forget(Stream stream, const void* address) {
  if (!MayServe(stream)) return true;
  const BackoffLock lock(mutex_);
  const auto found = known_.find(address);
  if (found == known_.end()) return true;
  if (found->second.is_free != 0) return false;
  known_.erase(found);
  return true;
}

bool StreamCache::Holds(Stream stream, const void* address) const {
  if (!MayServe(stream)) return false;
  const BackoffLock lock(mutex_);
  const auto found = known_.find(address);
  return found != known_.end() && found->second.is_free != 0;
}

StreamCache::Leftover StreamCache::Close() {
  const BackoffLock lock(mutex_);
  return CloseLocked();
}

StreamCache::Leftover StreamCache::Pause() {
  const BackoffLock lock(mutex_);
  ++pauses_;
  return CloseLocked();
}

void StreamCache::Resume() {
  const BackoffLock lock(mutex_);
  --pauses_;
}

StreamCache::Leftover StreamCache::CloseLocked() {
  Leftover left{service_.stream, {}};
  if (service_.stream.id == 0) return left;
  for (Slot& slot : *slots_) {
    for (; slot.count > 0; --slot.count) left.addresses.push_back(slot.addresses[slot.count - 1]);
  }
  slots_.reset();
  service_ = {};
  serving_.store(0, std::memory_order_relaxed);
  known_.clear();
  counts_.held_bytes = 0;
  counts_.held_count = 0;
  return left;
}

StreamCache::Counts StreamCache::counts() const {
  const BackoffLock lock(mutex_);
  return counts_;
}

std::size_t StreamCache::HomeOf(std::int64_t bytes) {
  constexpr int kBits = std::bit_width(kSlots - 1);
  return static_cast<std::uint64_t>(bytes) * 0x9E3779B97F4A7C15 >> (64 - kBits);
}

StreamCache::Slot* StreamCache::SlotFor(std::int64_t bytes) {
  Slot* empty = nullptr;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    Slot& slot = (*slots_)[(HomeOf(bytes) + probe) % kSlots];
    if (slot.bytes == bytes && slot.count > 0) return &slot;
    if (slot.count == 0 && empty == nullptr) empty = &slot;
  }
  return empty;
}

}  // namespace tidepool::pool
