// SPDX-License-Identifier: Apache-2.0
// The memory of a graph, or of a torch.cuda.MemPool. It takes segments and keeps them, so a graph
// finds its memory at the same addresses at each launch. A block that was freed on a stream serves
// only requests of that stream: the pool needs no events, which a capture would record.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_PRIVATE_POOL_H_
#define TIDEPOOL_BINDINGS_SUPPORT_PRIVATE_POOL_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace tidepool::bindings {

// Not thread-safe.
class PrivatePool {
 public:
  struct Block {
    std::size_t bytes = 0;
    bool is_live = false;
    void* stream = nullptr;
  };
  struct Segment {
    std::size_t bytes = 0;
    void* stream = nullptr;
  };
  // All blocks by address. A segment begins where `segments` says so.
  struct State {
    std::map<char*, Segment> segments;
    std::map<char*, Block> blocks;
  };

  static constexpr std::size_t kAlignment = 512;
  static std::size_t Rounded(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // Returns the bytes of a new segment for a request. Small requests share segments. The sizes are
  // those of PyTorch's allocator, so graphs take about the memory that they take there.
  static std::size_t SegmentBytes(std::size_t bytes) {
    constexpr std::size_t kMiB = 1 << 20;
    if (bytes <= kMiB) return 2 * kMiB;
    if (bytes < 10 * kMiB) return 20 * kMiB;
    return (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  }

  // Takes the smallest free block that serves the request; null if no block does. O(log blocks).
  char* Take(std::size_t bytes, void* stream) {
    const auto found = free_.lower_bound({stream, bytes, nullptr});
    if (found == free_.end() || std::get<0>(*found) != stream) return nullptr;
    char* const address = std::get<2>(*found);
    if (is_whole_ && std::get<1>(*found) != bytes) return nullptr;
    free_.erase(found);
    Block& block = state_.blocks[address];
    if (block.bytes > bytes) {
      AddFree(address + bytes, {block.bytes - bytes, false, stream});
      block.bytes = bytes;
    }
    block.is_live = true;
    return address;
  }

  void AddSegment(void* address, std::size_t bytes, void* stream) {
    auto* const begin = static_cast<char*>(address);
    state_.segments[begin] = {bytes, stream};
    AddFree(begin, {bytes, false, stream});
  }

  // Frees a live block, and joins it with free neighbours of its segment. O(log blocks).
  void Free(void* address) {
    auto block = state_.blocks.find(static_cast<char*>(address));
    block->second.is_live = false;
    const auto next = std::next(block);
    if (next != state_.blocks.end() && Joins(*next)) {
      free_.erase({next->second.stream, next->second.bytes, next->first});
      block->second.bytes += next->second.bytes;
      state_.blocks.erase(next);
    }
    if (block != state_.blocks.begin() && !state_.segments.contains(block->first)) {
      const auto previous = std::prev(block);
      if (!previous->second.is_live) {
        free_.erase({previous->second.stream, previous->second.bytes, previous->first});
        previous->second.bytes += block->second.bytes;
        state_.blocks.erase(block);
        block = previous;
      }
    }
    free_.insert({block->second.stream, block->second.bytes, block->first});
  }

  // Removes the segments without live blocks, and returns them.
  std::vector<std::pair<char*, Segment>> TakeIdle() {
    std::vector<std::pair<char*, Segment>> idle;
    for (const auto& [address, segment] : state_.segments) {
      const Block& first = state_.blocks[address];
      if (!first.is_live && first.bytes == segment.bytes) idle.emplace_back(address, segment);
    }
    for (const auto& [address, segment] : idle) {
      free_.erase({segment.stream, segment.bytes, address});
      state_.blocks.erase(address);
      state_.segments.erase(address);
    }
    return idle;
  }

  const State& state() const { return state_; }

  // Goes back to an earlier state. Segments that came later become free blocks.
  void Restore(const State& earlier) {
    const std::map<char*, Segment> segments = state_.segments;
    state_ = earlier;
    free_.clear();
    for (const auto& [address, block] : state_.blocks) {
      if (!block.is_live) free_.insert({block.stream, block.bytes, address});
    }
    for (const auto& [address, segment] : segments) {
      if (!state_.segments.contains(address)) AddSegment(address, segment.bytes, segment.stream);
    }
  }

  // Blocks are not split from now on.
  void KeepWhole() { is_whole_ = true; }
  bool is_whole() const { return is_whole_; }
  bool is_empty() const { return state_.segments.empty(); }

 private:
  // Returns whether a block is free and the end of its segment does not lie before it.
  bool Joins(const std::pair<char* const, Block>& block) const {
    return !block.second.is_live && !state_.segments.contains(block.first);
  }
  void AddFree(char* address, Block block) {
    free_.insert({block.stream, block.bytes, address});
    state_.blocks[address] = block;
  }

  State state_;
  std::set<std::tuple<void*, std::size_t, char*>> free_;
  bool is_whole_ = false;
};

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_PRIVATE_POOL_H_
