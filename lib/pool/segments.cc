// A segment is there or it is not: each of its calls is one of the device, and comes first.
#include "lib/pool/segments.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>

namespace tidepool::pool {

Segments::~Segments() {
  absl::Status first_error;
  for (const auto& [begin, segment] : segments_) {
    if (device_.FreeMemory(segment.address).ok()) continue;
    first_error.Update(device_.FreeMemory(segment.address));
  }
  if (!first_error.ok()) {
    std::fprintf(stderr, "tidepool: a pool cannot give its memory back: %s\n",
                 first_error.ToString().c_str());
  }
}

// With a fence each, segments take twice their bytes at most. The lowest places for them need at
// most so much more: J. M. Robson, "Worst case fragmentation of first fit and best fit storage
// allocation strategies", The Computer Journal 20 (1977).
std::int64_t Segments::OffsetBytes(std::int64_t bytes, std::int64_t fence_bytes) {
  const std::int64_t times =
      2 * (std::bit_width(static_cast<std::uint64_t>(bytes / fence_bytes)) + 2);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return bytes > kMost / times ? kMost : bytes * times;
}

absl::StatusOr<Range> Segments::Take(std::int64_t bytes) {
  const absl::StatusOr<void*> address = device_.AllocateMemory(bytes);
  if (!address.ok()) return address.status();
  const std::int64_t begin = LowestPlace(bytes);
  const Range segment = {begin, begin + bytes};
  segments_[begin] = {segment.end, *address};
  addresses_.Add(segment, static_cast<char*>(*address));
  held_bytes_ += bytes;
  return segment;
}

std::int64_t Segments::LowestPlace(std::int64_t bytes) const {
  std::int64_t begin = 0;
  for (const auto& [next, segment] : segments_) {
    if (next - begin >= bytes + fence_bytes_) break;
    begin = segment.end + fence_bytes_;
  }
  return begin;
}

absl::Status Segments::GiveBack(const Range& segment) {
  const auto found = segments_.find(segment.begin);
  if (absl::Status status = device_.FreeMemory(found->second.address); !status.ok()) return status;
  segments_.erase(found);
  addresses_.Remove(segment);
  held_bytes_ -= segment.bytes();
  return absl::OkStatus();
}

std::int64_t Segments::BytesIn(const Range& range) const {
  std::int64_t bytes = 0;
  for (const auto& [begin, segment] : segments_) {
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
