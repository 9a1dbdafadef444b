// A small table of stacks: the slots that a size may use are a few neighbours.
#include "lib/pool/front_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tidepool::pool {

bool FrontCache::Know(const Service& service, void* address, std::int64_t bytes) {
  if (serving_.load(std::memory_order_relaxed) == 0) {
    if (rest_ > 0 && --rest_ > 0) return true;
    const std::lock_guard lock(mutex_);
    service_ = service;
    serving_.store(service.stream.id, std::memory_order_relaxed);
  }
  if (!Serves(service.stream)) return true;
  const std::lock_guard lock(mutex_);
  live_[address] = bytes;
  return ++misses_ < kTrial || EndTrial();
}

bool FrontCache::EndTrial() {
  misses_ = 0;
  const bool is_useful = std::exchange(hits_, 0) >= kTrial;
  if (!is_useful) rest_ = kRest;
  return is_useful;
}

std::vector<FrontCache::Block> FrontCache::Close(Stream& stream) {
  const std::lock_guard lock(mutex_);
  std::vector<Block> blocks;
  for (Slot& slot : slots_) {
    for (; slot.count > 0; --slot.count) {
      blocks.push_back({slot.addresses[slot.count - 1], slot.bytes});
    }
  }
  stream = std::exchange(service_, {}).stream;
  serving_.store(0, std::memory_order_relaxed);
  live_.clear();
  counts_.held_bytes = 0;
  counts_.held_count = 0;
  return blocks;
}

void* FrontCache::Allocate(Stream stream, std::uint64_t epoch, std::int64_t bytes) {
  if (!Serves(stream)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!Serves(stream, epoch)) return nullptr;
  Slot* slot = SlotFor(bytes);
  if (slot == nullptr || slot->count == 0) return nullptr;
  void* const address = slot->addresses[--slot->count];
  counts_.held_bytes -= bytes;
  --counts_.held_count;
  ++counts_.allocations;
  ++hits_;
  live_.emplace(address, bytes);
  return address;
}

bool FrontCache::Free(Stream stream, std::uint64_t epoch, void* address) {
  if (!Serves(stream)) return false;
  const std::lock_guard lock(mutex_);
  if (!Serves(stream, epoch)) return false;
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  const std::int64_t bytes = found->second;
  Slot* slot = SlotFor(bytes);
  if (slot == nullptr || slot->count == kDepth ||
      counts_.held_bytes + bytes > service_.most_bytes) {
    return false;
  }
  live_.erase(found);
  slot->bytes = bytes;
  slot->addresses[slot->count++] = address;
  counts_.held_bytes += bytes;
  ++counts_.held_count;
  ++counts_.frees;
  return true;
}

bool FrontCache::Forget(Stream stream, const void* address, std::int64_t bytes) {
  if (!Serves(stream)) return true;
  const std::lock_guard lock(mutex_);
  return live_.erase(address) > 0 || !HoldsLocked(address, bytes);
}

bool FrontCache::Holds(Stream stream, const void* address, std::int64_t bytes) const {
  if (!Serves(stream)) return false;
  const std::lock_guard lock(mutex_);
  return HoldsLocked(address, bytes);
}

bool FrontCache::HoldsLocked(const void* address, std::int64_t bytes) const {
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const Slot& slot = slots_[(HomeOf(bytes) + probe) % kSlots];
    const auto end = slot.addresses.begin() + static_cast<std::ptrdiff_t>(slot.count);
    if (slot.bytes == bytes && std::find(slot.addresses.begin(), end, address) != end) return true;
  }
  return false;
}

FrontCache::Counts FrontCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::size_t FrontCache::HomeOf(std::int64_t bytes) {
  constexpr int kBits = std::bit_width(kSlots - 1);
  return static_cast<std::uint64_t>(bytes) * 0x9E3779B97F4A7C15 >> (64 - kBits);
}

FrontCache::Slot* FrontCache::SlotFor(std::int64_t bytes) {
  Slot* empty = nullptr;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slots_[(HomeOf(bytes) + probe) % kSlots];
    if (slot.bytes == bytes && slot.count > 0) return &slot;
    if (slot.count == 0 && empty == nullptr) empty = &slot;
  }
  return empty;
}

}  // namespace tidepool::pool
