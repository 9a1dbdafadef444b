// SPDX-License-Identifier: Apache-2.0
// Caching allocator: the order of attempts for a request, as in DeviceCachingAllocator::malloc, and
// the order in which PyTorch gives cached memory back: as much as asked for, all, or the memory
// that was unused for long.
#include "lib/trace/caching_allocator/caching_allocator.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/trace/caching_allocator/device_memory.h"
#include "lib/trace/caching_allocator/expandable_segments.h"
#include "lib/trace/caching_allocator/heap.h"
#include "tidepool/trace/caching_allocator.h"

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

// Releases cached blocks of max_split_bytes or more of a stream and pool, until `bytes` were
// released. Returns false if they have less; they may have been released all the same.
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

// Releases all segments without live allocations, and all granules of expandable segments.
void ReleaseAll(Heap& heap, DeviceMemory& memory) {
  ReleasePool(heap, memory, false);
  ReleasePool(heap, memory, true);
}

// Releases the large segments without allocations that were unused longer than the average, until
// the memory taken is below the threshold or nothing is left. Does nothing below the threshold.
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

}  // namespace

CachingAllocator::Request CachingAllocator::RequestFor(std::int64_t bytes,
                                                       std::uint32_t stream) const {
  const std::int64_t rounded = RoundedBytes(bytes);
  return {rounded, stream, IsSmall(rounded)};
}

// Returns the smallest free block that is large enough. A block at the end of an expandable segment
// counts with all addresses into which it can grow, so that other blocks are filled first.
BlockId CachingAllocator::FindFree(const Request& request) const {
  const auto& free = heap_.pool(request.is_small).free;
  auto at = free.lower_bound({.stream = request.stream, .bytes = request.bytes});
  if (at == free.end() || at->stream != request.stream) return kNoBlock;
  if (settings_.expandable_segments) {
    for (auto next = std::next(at); next != free.end() && next->stream == request.stream &&
                                    ReachOf(heap_, next->id) < ReachOf(heap_, at->id);
         ++next) {
      at = next;
    }
  }
  return Suits(request, heap_.block(at->id)) ? at->id : kNoBlock;
}

// Blocks of max_split_bytes or more are kept for requests of nearly their size.
bool CachingAllocator::Suits(const Request& request, const Block& block) const {
  if (request.bytes < settings_.max_split_bytes) return block.bytes < settings_.max_split_bytes;
  return block.bytes < request.bytes + settings_.max_non_split_rounding_bytes;
}

BlockId CachingAllocator::NewSegment(const Request& request) {
  Block block;
  block.bytes = SegmentBytes(request.bytes, settings_);
  if (!memory_.Take(block.bytes)) return kNoBlock;
  block.address = memory_.addresses().Take(block.bytes);
  block.stream = request.stream;
  block.is_small = request.is_small;
  return heap_.AddSegment(block);
}

BlockId CachingAllocator::FromDevice(const Request& request) {
  const std::int64_t segment = SegmentBytes(request.bytes, settings_);
  if (!memory_.limit().IsAllowed(memory_.reserved() + segment)) return kNoBlock;
  if (!settings_.expandable_segments) return NewSegment(request);
  const std::int64_t granule = Granule(request.is_small, settings_);
  return Expand(heap_, memory_, {request.stream, request.is_small, granule}, request.bytes);
}

BlockId CachingAllocator::AfterRelease(const Request& request) {
  BlockId id = kNoBlock;
  if (ReleaseOversize(heap_, memory_, settings_, request.stream, request.is_small, request.bytes)) {
    id = FromDevice(request);
  }
  if (id != kNoBlock) return id;
  ReleaseCached();
  ++retries_;
  return FromDevice(request);
}

// Returns the part of a block that a request uses; the rest stays free.
std::int64_t CachingAllocator::BytesToUse(const Request& request, const Block& block) const {
  const std::int64_t rest = block.bytes - request.bytes;
  const bool divides = block.is_small || block.is_expandable
                           ? rest >= kGrain
                           : request.bytes < settings_.max_split_bytes && rest > kMostSmall;
  return divides ? request.bytes : block.bytes;
}

BlockId CachingAllocator::Allocate(std::int64_t bytes, std::uint32_t stream) {
  const Request request = RequestFor(bytes, stream);
  if (memory_.limit().CollectsGarbage()) ++heap_.pool(request.is_small).searches;
  BlockId id = FindFree(request);
  if (id == kNoBlock) {
    if (memory_.limit().CollectsGarbage()) CollectGarbage(heap_, memory_);
    id = FromDevice(request);
  }
  if (id == kNoBlock) id = AfterRelease(request);
  if (id == kNoBlock) return kNoBlock;
  heap_.Allocate(id, BytesToUse(request, heap_.block(id)));
  allocated_ += heap_.block(id).bytes;
  return id;
}

void CachingAllocator::Free(BlockId id) {
  allocated_ -= heap_.block(id).bytes;
  heap_.Free(id);
}

void CachingAllocator::ReleaseCached() { ReleaseAll(heap_, memory_); }

bool CachingAllocator::MayDependOnMemory(std::int64_t bytes, std::uint32_t stream) const {
  const Request request = RequestFor(bytes, stream);
  if (FindFree(request) != kNoBlock) return false;
  if (settings_.memory_fraction > 0) return true;
  // An expandable segment may need granules before and after the request.
  const std::int64_t most = request.bytes + 2 * Granule(request.is_small, settings_);
  return memory_.reserved() + most > memory_.limit().memory_bytes();
}

}  // namespace tidepool::caching_allocator
