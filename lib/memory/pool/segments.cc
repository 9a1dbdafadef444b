// SPDX-License-Identifier: Apache-2.0
// A new segment gets the lowest offsets that fit.
#include "lib/memory/pool/segments.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tidepool::pool {

// With a fence each, segments take twice their bytes at most. Placing each at the lowest offsets
// needs at most this factor more: J. M. Robson, "Worst case fragmentation of first fit and best fit
// storage allocation strategies", The Computer Journal 20 (1977).
std::int64_t Segments::OffsetBytes(std::int64_t bytes, std::int64_t fence_bytes) {
  const std::int64_t times =
      2 * (std::bit_width(static_cast<std::uint64_t>(bytes / fence_bytes)) + 2);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return bytes > kMost / times ? kMost : bytes * times;
}

Range Segments::Add(void* address, std::int64_t bytes) {
  const std::int64_t begin = LowestOffset(bytes);
  const Range segment = {begin, begin + bytes};
  segments_[begin] = {segment.end, address};
  addresses_.Add(segment, static_cast<char*>(address));
  held_bytes_ += bytes;
  return segment;
}

std::int64_t Segments::LowestOffset(std::int64_t bytes) const {
  std::int64_t begin = 0;
  for (const auto& [next, segment] : segments_) {
    if (next - begin >= bytes + fence_bytes_) break;
    begin = segment.end + fence_bytes_;
  }
  return begin;
}

void* Segments::Hide(const Range& segment) {
  Segment& hidden = segments_.at(segment.begin);
  hidden.is_hidden = true;
  ++hidden_count_;
  addresses_.Remove(segment);
  return hidden.address;
}

void Segments::Show(const Range& segment) {
  Segment& shown = segments_.at(segment.begin);
  shown.is_hidden = false;
  --hidden_count_;
  addresses_.Add(segment, static_cast<char*>(shown.address));
}

void Segments::Remove(const Range& segment) {
  segments_.erase(segment.begin);
  --hidden_count_;
  held_bytes_ -= segment.bytes();
}

std::int64_t Segments::BytesIn(const Range& range) const {
  std::int64_t bytes = 0;
  for (const auto& [begin, segment] : segments_) {
    if (segment.is_hidden) continue;
    bytes +=
        std::max<std::int64_t>(0, std::min(segment.end, range.end) - std::max(begin, range.begin));
  }
  return bytes;
}

std::int64_t Segments::FenceBytesBefore(std::int64_t end) const {
  std::int64_t bytes = 0;
  for (const auto& [begin, segment] : segments_) bytes += segment.end < end ? fence_bytes_ : 0;
  return bytes;
}

}  // namespace tidepool::pool
