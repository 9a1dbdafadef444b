// SPDX-License-Identifier: Apache-2.0
// The memory of a pool: the block of each datum. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_DEVICE_MEMORY_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_DEVICE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/memory/blocks/arena.h"
#include "tidepool/training/graph.h"

namespace tidepool::simulate {

class DeviceMemory {
 public:
  // `graph` outlives the memory. The size and the alignment must suit an arena.
  DeviceMemory(const TaskGraph& graph, std::int64_t bytes, std::int64_t alignment,
               std::unique_ptr<PlacementPolicy> policy)
      : graph_(graph),
        policy_(std::move(policy)),
        arena_(bytes, alignment, *policy_),
        blocks_(graph.data.size(), kNoBlock) {}

  std::int64_t Rounded(std::int64_t bytes) const { return arena_.Rounded(bytes); }

  // Returns kNoBlock when no block fits.
  BlockId Take(std::int64_t bytes, Hint hint) {
    if (Rounded(bytes) > arena_.blocks().capacity() || !arena_.blocks().HasNames()) return kNoBlock;
    return arena_.AllocateBlock(bytes, hint);
  }
  // Takes `bytes` at an offset. Returns kNoBlock unless they are free.
  BlockId TakeAt(std::int64_t offset, std::int64_t bytes) {
    const BlockId free = arena_.blocks().Covering(offset, Rounded(bytes));
    if (free == kNoBlock || !arena_.blocks().HasNames()) return kNoBlock;
    return arena_.Take(Placement::At(free, offset), Rounded(bytes));
  }
  // Returns whether the block of `data`, which has one, overlaps `bytes` from `offset` on.
  bool IsWithin(std::size_t data, std::int64_t offset, std::int64_t bytes) const {
    const std::int64_t begin = arena_.blocks().offset(blocks_[data]);
    return begin < offset + Rounded(bytes) && offset < begin + arena_.blocks().bytes(blocks_[data]);
  }
  std::int64_t OffsetOf(BlockId block) const { return arena_.blocks().offset(block); }
  void Give(BlockId block) { arena_.FreeBlock(block); }

  bool Holds(std::size_t data) const { return blocks_[data] != kNoBlock; }
  void SetBlock(std::size_t data, BlockId block) { blocks_[data] = block; }
  void GiveData(std::size_t data) { Give(std::exchange(blocks_[data], kNoBlock)); }

  std::int64_t high_water() const { return arena_.high_water(); }

  // Returns "the largest free block has 1.0 MiB of 2.0 GiB; 5 data hold 1.9 GiB: 'a' 1.0 GiB, ...",
  // with at most the three largest.
  std::string Account() const;

 private:
  const TaskGraph& graph_;
  std::unique_ptr<PlacementPolicy> policy_;
  blocks::Arena arena_;
  std::vector<BlockId> blocks_;  // by data; kNoBlock: not on the device
};

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_DEVICE_MEMORY_H_
