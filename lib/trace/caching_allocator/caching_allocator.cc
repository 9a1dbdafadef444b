// SPDX-License-Identifier: Apache-2.0
// Caching allocator: the order of attempts for a request, as in DeviceCachingAllocator::malloc.
#include "lib/trace/caching_allocator/caching_allocator.h"

#include "lib/trace/caching_allocator/expandable_segments.h"
#include "lib/trace/caching_allocator/releases.h"

namespace tidepool::caching_allocator {

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
