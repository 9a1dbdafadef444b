// SPDX-License-Identifier: Apache-2.0
// A slow and obvious model of PyTorch's caching allocator: segments are lists of blocks, and every
// question looks at all of them. The oracle of lib/trace/caching_allocator.
#ifndef TIDEPOOL_TESTS_SUPPORT_SLOW_CACHING_ALLOCATOR_H_
#define TIDEPOOL_TESTS_SUPPORT_SLOW_CACHING_ALLOCATOR_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tidepool/trace/caching_allocator.h"

namespace tidepool::testing {

class SlowCachingAllocator {
 public:
  static constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  enum class State { kFree, kAllocated, kUnmapped };
  struct Block {
    std::int64_t address;
    std::int64_t bytes;
    State state;
    std::int64_t born = 0;
  };
  struct Segment {
    std::uint32_t stream;
    bool is_small;
    std::int64_t address;
    std::list<Block> blocks;
  };

  SlowCachingAllocator(const CachingAllocatorSettings& settings, std::int64_t memory,
                       SegmentOrder order = SegmentOrder::kAscending)
      : settings_(settings), memory_(memory), order_(order) {}

  // Returns whether the request was served.
  bool Allocate(std::uint32_t id, std::int64_t bytes, std::uint32_t stream) {
    const std::int64_t size = Round(bytes);
    const bool small = size <= kMiB;
    std::optional<Found> found = Find(size, small, stream);
    if (!found) {
      if (Collects()) Collect();
      found = Obtain(size, small, stream);
    }
    if (!found && ReleaseOversize(size, small, stream)) found = Obtain(size, small, stream);
    if (!found) {
      ReleaseAll();
      found = Obtain(size, small, stream);
    }
    if (!found) return false;
    auto [segment, block] = *found;
    const std::int64_t rest = block->bytes - size;
    const bool splits = small || settings_.expandable_segments
                            ? rest >= 512
                            : size < settings_.max_split_bytes && rest > kMiB;
    if (splits) {
      segment->blocks.insert(std::next(block),
                             {block->address + size, rest, State::kFree, searches_[small]});
      block->bytes = size;
    }
    block->state = State::kAllocated;
    live_[id] = *found;
    return true;
  }

  void Free(std::uint32_t id) {
    auto [segment, block] = live_.at(id);
    live_.erase(id);
    block->state = State::kFree;
    block->born = searches_[segment->is_small];
    Merge(*segment, State::kFree);
  }

  void ReleaseAll() {
    for (const bool small : {false, true}) {
      for (const Found& found : FreeBlocks(small, std::nullopt)) {
        if (settings_.expandable_segments) {
          Unmap(found);
        } else if (found.first->blocks.size() == 1) {
          Release(found.first);
        }
      }
    }
  }

  std::int64_t reserved() const { return reserved_; }
  std::int64_t allocated() const {
    std::int64_t bytes = 0;
    for (const auto& [id, found] : live_) bytes += found.second->bytes;
    return bytes;
  }
  const std::list<Segment>& segments() const { return segments_; }

 private:
  using Found = std::pair<std::list<Segment>::iterator, std::list<Block>::iterator>;

  std::int64_t Up(std::int64_t bytes, std::int64_t unit) const {
    return (bytes + unit - 1) / unit * unit;
  }

  std::int64_t Round(std::int64_t bytes) const {
    bytes += settings_.padding_bytes;
    if (bytes < 512) return 512;
    std::int64_t power = 1;
    int log = 0;
    for (; 2 * power <= bytes; power *= 2) ++log;
    const std::int64_t divisions =
        settings_.roundup_power2_divisions[static_cast<std::size_t>(std::clamp(log - 20, 0, 15))];
    return Up(bytes, divisions > 1 && bytes > 512 * divisions ? power / divisions : 512);
  }

  std::int64_t SegmentBytes(std::int64_t size) const {
    if (size <= kMiB) return 2 * kMiB;
    return size < 10 * kMiB ? settings_.large_segment_bytes : Up(size, 2 * kMiB);
  }

  std::int64_t GranuleOf(bool small) const {
    return small ? 2 * kMiB : settings_.large_segment_bytes;
  }

  bool Collects() const {
    return settings_.memory_fraction > 0 && settings_.garbage_collection_threshold > 0;
  }
  std::int64_t Allowed() const {
    return static_cast<std::int64_t>(settings_.memory_fraction * static_cast<double>(memory_));
  }

  // Returns the free blocks of a pool by stream, size and address.
  std::vector<Found> FreeBlocks(bool small, std::optional<std::uint32_t> stream) {
    std::vector<Found> found;
    for (auto segment = segments_.begin(); segment != segments_.end(); ++segment) {
      if (segment->is_small != small || (stream && segment->stream != *stream)) continue;
      for (auto block = segment->blocks.begin(); block != segment->blocks.end(); ++block) {
        if (block->state == State::kFree) found.emplace_back(segment, block);
      }
    }
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
      return std::tuple(a.first->stream, a.second->bytes, a.second->address) <
             std::tuple(b.first->stream, b.second->bytes, b.second->address);
    });
    return found;
  }

  static std::int64_t Reach(const Found& found) {
    const auto next = std::next(found.second);
    const bool grows = next != found.first->blocks.end() && next->state == State::kUnmapped;
    return found.second->bytes + (grows ? next->bytes : 0);
  }

  std::optional<Found> Find(std::int64_t size, bool small, std::uint32_t stream) {
    if (Collects()) ++searches_[small];
    std::vector<Found> fits = FreeBlocks(small, stream);
    std::erase_if(fits, [&](const Found& found) { return found.second->bytes < size; });
    if (fits.empty()) return std::nullopt;
    std::size_t i = 0;
    if (settings_.expandable_segments) {
      while (i + 1 < fits.size() && Reach(fits[i + 1]) < Reach(fits[i])) ++i;
    }
    const std::int64_t bytes = fits[i].second->bytes;
    const std::int64_t split = settings_.max_split_bytes;
    if (size < split && bytes >= split) return std::nullopt;
    if (size >= split && bytes >= size + settings_.max_non_split_rounding_bytes)
      return std::nullopt;
    return fits[i];
  }

  std::optional<Found> Obtain(std::int64_t size, bool small, std::uint32_t stream) {
    const std::int64_t bytes = SegmentBytes(size);
    if (settings_.memory_fraction > 0 && reserved_ + bytes > Allowed()) return std::nullopt;
    if (settings_.expandable_segments) return Expand(size, small, stream);
    if (reserved_ + bytes > memory_) return std::nullopt;
    reserved_ += bytes;
    const std::int64_t address =
        order_ == SegmentOrder::kFalling ? HighestAddress(bytes) : LowestAddress(bytes);
    segments_.push_back(
        {stream, small, address, {{address, bytes, State::kFree, searches_[small]}}});
    const auto segment = std::prev(segments_.end());
    return Found(segment, segment->blocks.begin());
  }

  std::int64_t LowestAddress(std::int64_t bytes) const {
    std::map<std::int64_t, std::int64_t> ends;
    for (const Segment& segment : segments_) {
      ends[segment.address] =
          Up(segment.blocks.back().address + segment.blocks.back().bytes, 2 * kMiB);
    }
    std::int64_t at = 0;
    for (const auto& [begin, end] : ends) {
      if (begin - at >= bytes) break;
      at = end;
    }
    return at;
  }

  std::int64_t HighestAddress(std::int64_t bytes) const {
    std::map<std::int64_t, std::int64_t> begins;
    for (const Segment& segment : segments_) {
      const auto& last = segment.blocks.back();
      begins[Up(last.address + last.bytes - segment.address, 2 * kMiB) + segment.address] =
          segment.address;
    }
    std::int64_t at = std::int64_t{1} << 60;
    for (auto used = begins.rbegin(); used != begins.rend(); ++used) {
      if (at - used->first >= Up(bytes, 2 * kMiB)) break;
      at = used->second;
    }
    return at - Up(bytes, 2 * kMiB);
  }

  std::optional<Found> Expand(std::int64_t size, bool small, std::uint32_t stream) {
    std::optional<Found> place = Room(size, small, stream);
    if (!place) {
      const std::int64_t granule = GranuleOf(small);
      const std::int64_t bytes = (std::int64_t{1} << 50) / granule * granule;
      segments_.push_back({stream, small, 0, {{0, bytes, State::kUnmapped}}});
      place = Found(std::prev(segments_.end()), segments_.back().blocks.begin());
    }
    auto [segment, block] = *place;
    const std::int64_t at = block->address;
    while (true) {
      block = std::find_if(segment->blocks.begin(), segment->blocks.end(), [&](const Block& b) {
        return b.address <= at && at < b.address + b.bytes;
      });
      if (block->state == State::kFree && block->bytes >= size) return Found(segment, block);
      const std::int64_t missing = block->state == State::kFree ? size - block->bytes : size;
      if (block->state == State::kFree) ++block;
      if (!Map(*segment, block, std::min(missing, block->bytes))) return std::nullopt;
    }
  }

  // Finds the first run of free and unmapped blocks, with an unmapped one first or second, that has
  // room.
  std::optional<Found> Room(std::int64_t size, bool small, std::uint32_t stream) {
    for (auto segment = segments_.begin(); segment != segments_.end(); ++segment) {
      if (segment->is_small != small || segment->stream != stream) continue;
      for (auto block = segment->blocks.begin(); block != segment->blocks.end(); ++block) {
        if (block->state != State::kUnmapped) continue;
        auto first = block;
        if (first != segment->blocks.begin() && std::prev(first)->state == State::kFree) --first;
        std::int64_t room = 0;
        for (auto at = first; at != segment->blocks.end() && at->state != State::kAllocated; ++at) {
          room += at->bytes;
        }
        if (room >= size) return Found(segment, first);
      }
    }
    return std::nullopt;
  }

  bool Map(Segment& segment, std::list<Block>::iterator block, std::int64_t bytes) {
    bytes = Up(bytes, GranuleOf(segment.is_small));
    if (reserved_ + bytes > memory_) return false;
    reserved_ += bytes;
    if (block->bytes > bytes) {
      segment.blocks.insert(std::next(block),
                            {block->address + bytes, block->bytes - bytes, State::kUnmapped});
    }
    block->bytes = bytes;
    block->state = State::kFree;
    Merge(segment, State::kFree);
    return true;
  }

  void Unmap(const Found& found) {
    auto [segment, block] = found;
    const std::int64_t granule = GranuleOf(segment->is_small);
    const std::int64_t begin = Up(block->address, granule);
    const std::int64_t end = (block->address + block->bytes) / granule * granule;
    if (begin >= end) return;
    const std::int64_t last = block->address + block->bytes;
    reserved_ -= end - begin;
    if (begin > block->address) {
      segment->blocks.insert(block, {block->address, begin - block->address, State::kFree});
    }
    if (last > end) segment->blocks.insert(std::next(block), {end, last - end, State::kFree});
    *block = {begin, end - begin, State::kUnmapped};
    Merge(*segment, State::kUnmapped);
    if (segment->blocks.size() == 1) segments_.erase(segment);
  }

  // Joins neighbours of a state.
  void Merge(Segment& segment, State state) {
    for (auto block = segment.blocks.begin(); std::next(block) != segment.blocks.end();) {
      const auto next = std::next(block);
      if (block->state != state || next->state != state) {
        ++block;
        continue;
      }
      block->bytes += next->bytes;
      block->born = searches_[segment.is_small];
      segment.blocks.erase(next);
    }
  }

  void Release(std::list<Segment>::iterator segment) {
    reserved_ -= segment->blocks.front().bytes;
    segments_.erase(segment);
  }

  bool ReleaseOversize(std::int64_t size, bool small, std::uint32_t stream) {
    if (settings_.expandable_segments || settings_.max_split_bytes >= kMostCachingMemory)
      return false;
    const std::int64_t wanted = std::max(size, settings_.max_split_bytes);
    const std::vector<Found> free = FreeBlocks(small, stream);
    for (const Found& found : free) {
      if (found.second->bytes < wanted) continue;
      Release(found.first);
      return true;
    }
    std::int64_t released = 0;
    for (auto found = free.rbegin(); found != free.rend() && released < wanted; ++found) {
      if (found->second->bytes < settings_.max_split_bytes) break;
      released += found->second->bytes;
      Release(found->first);
    }
    return released >= wanted;
  }

  void Collect() {
    const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                     static_cast<double>(Allowed()));
    std::vector<Found> whole = FreeBlocks(false, std::nullopt);
    std::erase_if(whole, [&](const Found& found) {
      return settings_.expandable_segments || found.first->blocks.size() > 1;
    });
    while (reserved_ > threshold && !whole.empty()) {
      double sum = 0;
      for (const Found& found : whole) sum += static_cast<double>(Age(found));
      const double average = sum / static_cast<double>(whole.size());
      std::vector<Found> young;
      for (const Found& found : whole) {
        if (static_cast<double>(Age(found)) < average) {
          young.push_back(found);
        } else {
          Release(found.first);
        }
      }
      whole = young;
    }
  }
  std::int64_t Age(const Found& found) const { return searches_[0] - found.second->born; }

  CachingAllocatorSettings settings_;
  std::int64_t memory_;
  SegmentOrder order_;
  std::int64_t reserved_ = 0;
  std::list<Segment> segments_;
  std::map<std::uint32_t, Found> live_;
  std::int64_t searches_[2] = {0, 0};  // of the pool of large blocks, and of small ones
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_SLOW_CACHING_ALLOCATOR_H_
