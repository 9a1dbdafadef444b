// SPDX-License-Identifier: Apache-2.0
// Releases: the order in which PyTorch gives cached memory back.
#include "lib/trace/caching_allocator/releases.h"

#include <algorithm>
#include <vector>

#include "lib/trace/caching_allocator/expandable_segments.h"

namespace tidepool::caching_allocator {
namespace {

void ReleaseSegment(Heap& heap, DeviceMemory& memory, BlockId id) {
  const Block& segment = heap.block(id);
  memory.GiveBack(segment.bytes);
  memory.addresses().GiveBack(segment.address, segment.bytes);
  heap.RemoveSegment(id);
}

// Returns the names of the blocks of which memory can be released. Releases change the index.
std::vector<BlockId> Releasable(const Heap& heap, bool is_small) {
  std::vector<BlockId> ids;
  const Pool& pool = heap.pool(is_small);
  if (pool.releasable == 0) return ids;
  for (const BlockKey& key : pool.free) {
    if (heap.IsReleasable(heap.block(key.id))) ids.push_back(key.id);
  }
  return ids;
}

void ReleasePool(Heap& heap, DeviceMemory& memory, bool is_small) {
  for (const BlockId id : Releasable(heap, is_small)) {
    if (heap.block(id).is_expandable) {
      UnmapBlock(heap, memory, id);
    } else {
      ReleaseSegment(heap, memory, id);
    }
  }
}

// Releases blocks of at least `least` bytes of a stream, largest first, until `bytes` were
// released. Returns whether they were.
bool ReleaseLargest(Heap& heap, DeviceMemory& memory, bool is_small, std::uint32_t stream,
                    std::int64_t least, std::int64_t bytes) {
  const auto& free = heap.pool(is_small).free;
  std::vector<BlockId> largest;
  for (auto above = free.lower_bound({.stream = stream, .bytes = INT64_MAX});
       bytes > 0 && above != free.begin();) {
    --above;
    if (above->stream != stream || above->bytes < least) break;
    if (!heap.IsReleasable(heap.block(above->id))) continue;
    largest.push_back(above->id);
    bytes -= above->bytes;
  }
  for (const BlockId id : largest) ReleaseSegment(heap, memory, id);
  return bytes <= 0;
}

std::int64_t AgeOf(const Pool& pool, const Block& block) {
  return pool.searches - block.searches_before;
}

}  // namespace

bool ReleaseOversize(Heap& heap, DeviceMemory& memory, const CachingAllocatorSettings& settings,
                     std::uint32_t stream, bool is_small, std::int64_t bytes) {
  // Granules of expandable segments are only released all together.
  if (settings.max_split_bytes >= kMostCachingMemory || settings.expandable_segments) return false;
  const auto& free = heap.pool(is_small).free;
  const std::int64_t wanted = std::max(bytes, settings.max_split_bytes);
  for (auto fits = free.lower_bound({.stream = stream, .bytes = wanted});
       fits != free.end() && fits->stream == stream; ++fits) {
    if (!heap.IsReleasable(heap.block(fits->id))) continue;
    ReleaseSegment(heap, memory, fits->id);
    return true;
  }
  return ReleaseLargest(heap, memory, is_small, stream, settings.max_split_bytes, wanted);
}

void ReleaseAll(Heap& heap, DeviceMemory& memory) {
  ReleasePool(heap, memory, false);
  ReleasePool(heap, memory, true);
}

void CollectGarbage(Heap& heap, DeviceMemory& memory) {
  if (memory.limit().IsBelowThreshold(memory.reserved())) return;
  const Pool& pool = heap.pool(false);
  std::vector<BlockId> left = Releasable(heap, false);
  std::erase_if(left, [&](BlockId id) { return heap.block(id).is_expandable; });
  std::int64_t total_age = 0;
  for (const BlockId id : left) total_age += AgeOf(pool, heap.block(id));
  while (!left.empty() && !memory.limit().IsBelowThreshold(memory.reserved())) {
    const double average = static_cast<double>(total_age) / static_cast<double>(left.size());
    const auto old = std::stable_partition(left.begin(), left.end(), [&](BlockId id) {
      return static_cast<double>(AgeOf(pool, heap.block(id))) < average;
    });
    for (auto at = old; at != left.end(); ++at) {
      total_age -= AgeOf(pool, heap.block(*at));
      ReleaseSegment(heap, memory, *at);
    }
    left.erase(old, left.end());
  }
}

}  // namespace tidepool::caching_allocator
