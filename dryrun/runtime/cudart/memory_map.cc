// SPDX-License-Identifier: Apache-2.0
// Keeps the regions ordered by address.
#include "dryrun/runtime/cudart/memory_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tidepool::cudart_host {
namespace {

std::uintptr_t Number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::uintptr_t EndOf(const Region& region) {
  return Number(region.address) + static_cast<std::uintptr_t>(region.bytes);
}

bool IsAccessible(const Region& region) {
  return region.kind != MemoryKind::kMapped || (region.access >> region.device->ordinal() & 1) != 0;
}

}  // namespace

bool MemoryMap::Insert(Region region) {
  const locks::MutexLock lock(&mutex_);
  const std::uintptr_t begin = Number(region.address);
  if (OverlapsLocked(begin, region.bytes)) return false;
  locked_bytes_ += LockedBytes(region);
  regions_.emplace(begin, std::move(region));
  return true;
}

std::optional<Region> MemoryMap::Remove(const void* address,
                                        std::initializer_list<MemoryKind> kinds) {
  const locks::MutexLock lock(&mutex_);
  const auto found = regions_.find(Number(address));
  if (found == regions_.end()) return std::nullopt;
  if (std::find(kinds.begin(), kinds.end(), found->second.kind) == kinds.end()) return std::nullopt;
  std::optional<Region> region = std::move(found->second);
  locked_bytes_ -= LockedBytes(*region);
  regions_.erase(found);
  return region;
}

std::optional<Region> MemoryMap::Find(const void* address) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = Holding(Number(address));
  if (found == regions_.end()) return std::nullopt;
  return found->second;
}

Region MemoryMap::Classify(const void* address, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  const std::uintptr_t begin = Number(address);
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(bytes);
  const Region invalid = {.kind = MemoryKind::kInvalid};
  auto region = Holding(begin);
  if (region == regions_.end()) return OverlapsLocked(begin, bytes) ? invalid : Region{};
  const Region first = region->second;
  while (IsAccessible(region->second)) {
    const std::uintptr_t covered = EndOf(region->second);
    if (covered >= end) return first;
    ++region;
    if (region == regions_.end() || region->first != covered ||
        region->second.kind != MemoryKind::kMapped || first.kind != MemoryKind::kMapped ||
        region->second.device != first.device) {
      return invalid;
    }
  }
  return invalid;
}

std::vector<Region> MemoryMap::Cover(const void* address, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  const std::uintptr_t end = Number(address) + static_cast<std::uintptr_t>(bytes);
  std::vector<Region> regions;
  std::uintptr_t covered = Number(address);
  for (auto region = regions_.find(covered); region != regions_.end(); ++region) {
    if (region->first != covered) return {};
    regions.push_back(region->second);
    covered = EndOf(region->second);
    if (covered >= end) break;
  }
  if (covered != end) regions.clear();
  return regions;
}

bool MemoryMap::Overlaps(const void* address, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  return OverlapsLocked(Number(address), bytes);
}

void MemoryMap::SetAccess(const void* address, std::uint64_t given, std::uint64_t taken) {
  const locks::MutexLock lock(&mutex_);
  const auto found = regions_.find(Number(address));
  if (found != regions_.end()) found->second.access = (found->second.access & ~taken) | given;
}

std::int64_t MemoryMap::CountIf(bool (*predicate)(const Region&)) const {
  const locks::MutexLock lock(&mutex_);
  return std::count_if(regions_.begin(), regions_.end(),
                       [&](const auto& entry) { return predicate(entry.second); });
}

MemoryMap::Regions::const_iterator MemoryMap::Holding(std::uintptr_t address) const {
  const auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return regions_.end();
  const auto region = std::prev(after);
  return address < EndOf(region->second) ? region : regions_.end();
}

bool MemoryMap::OverlapsLocked(std::uintptr_t begin, std::int64_t bytes) const {
  if (Holding(begin) != regions_.end()) return true;
  const auto after = regions_.upper_bound(begin);
  return after != regions_.end() && after->first - begin < static_cast<std::uintptr_t>(bytes);
}

}  // namespace tidepool::cudart_host
