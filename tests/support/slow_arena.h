// SPDX-License-Identifier: Apache-2.0
// The oracle of the placement engine: a sorted list of blocks with linear scans, written to be
// obviously right.
#ifndef TIDEPOOL_TESTS_SUPPORT_SLOW_ARENA_H_
#define TIDEPOOL_TESTS_SUPPORT_SLOW_ARENA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tidepool/placement.h"

namespace tidepool::testing {

class SlowArena {
 public:
  SlowArena(std::int64_t capacity, std::int64_t alignment, std::string policy)
      : alignment_(alignment), policy_(std::move(policy)) {
    if (capacity / alignment * alignment > 0)
      blocks_.push_back({0, capacity / alignment * alignment, false});
  }

  // Returns the offset, or -1.
  std::int64_t Allocate(std::int64_t bytes, Hint hint) {
    bytes = (bytes + alignment_ - 1) / alignment_ * alignment_;
    const bool high_end = policy_ == "high-end-offload" && hint == Hint::kOffloadable;
    const int chosen = Choose(bytes, high_end);
    if (chosen < 0) return -1;
    const Block block = blocks_[chosen];
    const std::int64_t offset = high_end ? block.offset + block.bytes - bytes : block.offset;
    blocks_.erase(blocks_.begin() + chosen);
    int at = chosen;
    if (offset > block.offset) Insert(at++, {block.offset, offset - block.offset, false});
    Insert(at++, {offset, bytes, true});
    const std::int64_t end = block.offset + block.bytes;
    if (end > offset + bytes) Insert(at, {offset + bytes, end - offset - bytes, false});
    return offset;
  }

  void Free(std::int64_t offset) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].offset == offset && blocks_[i].used) blocks_[i].used = false;
    }
    for (std::size_t i = 0; i + 1 < blocks_.size();) {
      if (blocks_[i].used || blocks_[i + 1].used) {
        ++i;
      } else {
        blocks_[i].bytes += blocks_[i + 1].bytes;
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }

  std::int64_t LargestFree() const {
    std::int64_t largest = 0;
    for (const Block& block : blocks_) {
      if (!block.used) largest = std::max(largest, block.bytes);
    }
    return largest;
  }

 private:
  struct Block {
    std::int64_t offset;
    std::int64_t bytes;
    bool used;
  };

  void Insert(int at, Block block) { blocks_.insert(blocks_.begin() + at, block); }

  int Choose(std::int64_t bytes, bool high_end) const {
    int first = -1;
    int last = -1;
    int exact = -1;
    int smallest = -1;
    for (int i = 0; i < static_cast<int>(blocks_.size()); ++i) {
      const Block& block = blocks_[i];
      if (block.used || block.bytes < bytes) continue;
      if (first < 0) first = i;
      last = i;
      if (exact < 0 && block.bytes == bytes) exact = i;
      if (smallest < 0 || block.bytes < blocks_[smallest].bytes) smallest = i;
    }
    if (high_end) return last;
    if (policy_ == "first-fit") return first;
    if (policy_ == "exact-fit-first") return exact >= 0 ? exact : first;
    return smallest;
  }

  std::int64_t alignment_;
  std::string policy_;
  std::vector<Block> blocks_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_SLOW_ARENA_H_
