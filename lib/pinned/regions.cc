// To touch memory is what takes long when it is pinned, and threads share it; so the device finds
// every page there when it is told.
#include "lib/pinned/regions.h"

#include <chrono>
#include <cstdio>
#include <iterator>

#include "lib/pinned/host_memory.h"

namespace tidepool::pinned {

using pool::Range;

Regions::~Regions() {
  absl::Status first_error;
  for (const auto& [begin, region] : regions_) {
    if (!device_.UnregisterHostMemory(region.address).ok()) {
      absl::Status status = device_.UnregisterHostMemory(region.address);
      first_error.Update(status);
      if (!status.ok()) continue;
    }
    UnmapMemory(region.address, region.end - begin);
  }
  if (!first_error.ok()) {
    std::fprintf(stderr, "tidepool: a pinned pool cannot give its memory back: %s\n",
                 first_error.ToString().c_str());
  }
}

absl::StatusOr<Range> Regions::Take(std::int64_t bytes) {
  const auto begun = std::chrono::steady_clock::now();
  const absl::StatusOr<void*> address = Pin(bytes);
  if (!address.ok()) return address.status();
  ++pins_;
  pin_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun).count();
  const std::int64_t begin = LowestPlace(bytes);
  const Range region = {begin, begin + bytes};
  regions_[begin] = {region.end, *address};
  addresses_.Add(region, static_cast<char*>(*address));
  held_bytes_ += bytes;
  return region;
}

absl::StatusOr<void*> Regions::Pin(std::int64_t bytes) {
  absl::StatusOr<void*> address = MapMemory(bytes, pages_);
  if (!address.ok()) return address;
  absl::Status status = TouchMemory(*address, bytes, pages_);
  if (status.ok()) status = device_.RegisterHostMemory(*address, bytes);
  if (status.ok()) return address;
  UnmapMemory(*address, bytes);
  return status;
}

std::int64_t Regions::LowestPlace(std::int64_t bytes) const {
  std::int64_t begin = 0;
  for (const auto& [next, region] : regions_) {
    if (next - begin >= bytes + fence_bytes_) break;
    begin = region.end + fence_bytes_;
  }
  return begin;
}

absl::Status Regions::GiveBack(const Range& region) {
  const auto found = regions_.find(region.begin);
  void* const address = found->second.address;
  if (absl::Status status = device_.UnregisterHostMemory(address); !status.ok()) return status;
  regions_.erase(found);
  addresses_.Remove(region);
  held_bytes_ -= region.bytes();
  UnmapMemory(address, region.bytes());
  return absl::OkStatus();
}

bool Regions::Cover(const Range& range) const {
  const auto next = regions_.upper_bound(range.begin);
  return next != regions_.begin() && range.end <= std::prev(next)->second.end;
}

}  // namespace tidepool::pinned
