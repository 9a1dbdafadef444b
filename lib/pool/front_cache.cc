// A small table of stacks: the slots that a size may use are a few neighbours.
#include "lib/pool/front_cache.h"

#include <algorithm>
#include <utility>

namespace tidepool::pool {

void FrontCache::Know(const Service& service, void* address, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (service_.stream.id == 0) service_ = service;
  if (Serves(service.stream)) live_[address] = bytes;
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
  live_.clear();
  counts_.held_bytes = 0;
  counts_.held_count = 0;
  return blocks;
}

void* FrontCache::Allocate(Stream stream, std::uint64_t epoch, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!Serves(stream, epoch)) return nullptr;
  Slot* slot = SlotFor(bytes);
  if (slot == nullptr || slot->count == 0) return nullptr;
  void* const address = slot->addresses[--slot->count];
  counts_.held_bytes -= bytes;
  --counts_.held_count;
  ++counts_.allocations;
  live_.emplace(address, bytes);
  return address;
}

bool FrontCache::Free(Stream stream, std::uint64_t epoch, void* address) {
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
  const std::lock_guard lock(mutex_);
  return !Serves(stream) || live_.erase(address) > 0 || !HoldsLocked(address, bytes);
}

bool FrontCache::Holds(Stream stream, const void* address, std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return Serves(stream) && HoldsLocked(address, bytes);
}

bool FrontCache::HoldsLocked(const void* address, std::int64_t bytes) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    const auto end = slot.addresses.begin() + static_cast<std::ptrdiff_t>(slot.count);
    return slot.bytes == bytes && std::find(slot.addresses.begin(), end, address) != end;
  });
}

FrontCache::Counts FrontCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

FrontCache::Slot* FrontCache::SlotFor(std::int64_t bytes) {
  const auto hash = static_cast<std::uint64_t>(bytes) * 0x9E3779B97F4A7C15;
  Slot* empty = nullptr;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slots_[((hash >> 57) + probe) % kSlots];
    if (slot.bytes == bytes && slot.count > 0) return &slot;
    if (slot.count == 0 && empty == nullptr) empty = &slot;
  }
  return empty;
}

}  // namespace tidepool::pool
