// SPDX-License-Identifier: Apache-2.0
// The paper's memory manager (section 3.3): virtual allocations in a list of blocks, a free block
// of exactly the size first, else the first that is large enough. Free memory knows from when on it
// is free.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_MEMORY_MAP_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_MEMORY_MAP_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/memory/blocks/block_map.h"
#include "tidepool/placement.h"

namespace tidepool::modnn {

// The owner of a workspace.
inline constexpr std::size_t kWorkspace = std::numeric_limits<std::size_t>::max();

class MemoryMap {
 public:
  using Block = BlockId;

  // `capacity` is a multiple of `alignment`.
  MemoryMap(std::int64_t capacity, std::int64_t alignment);
  // Copies the blocks. The copy knows no times.
  MemoryMap(const MemoryMap& other);
  MemoryMap& operator=(const MemoryMap&) = delete;

  // Returns the block that serves `bytes`, a positive multiple of the alignment, for a datum or a
  // workspace; nothing when no free block is large enough.
  std::optional<Block> Allocate(std::int64_t bytes, std::size_t owner);
  // Frees a block, which operations use until `free_from`.
  void Free(Block block, double free_from);
  // Undoes the last allocation of a block, or one of several.
  void TakeBack(Block block) { blocks_.Free(block); }
  // Forgets times up to `now`: nothing is placed that begins earlier.
  void Forget(double now);

  // Return the time from which on operations before no longer use a range, or that of a block.
  double FreeFrom(std::int64_t begin, std::int64_t end) const;
  double FreeFrom(Block block) const {
    return FreeFrom(Offset(block), Offset(block) + Bytes(block));
  }
  // Returns that of the block in which Allocate would place `bytes`; nothing where it fails.
  std::optional<double> FreeFromFor(std::int64_t bytes);

  // The blocks in address order.
  Block First() const { return blocks_.First(); }
  Block Next(Block block) const { return blocks_.Next(block); }
  bool IsFree(Block block) const { return !blocks_.used(block); }
  std::size_t OwnerOf(Block block) const { return owners_[block]; }
  std::int64_t Offset(Block block) const { return blocks_.offset(block); }
  std::int64_t Bytes(Block block) const { return blocks_.bytes(block); }

  std::int64_t Rounded(std::int64_t bytes) const { return AlignUp(bytes, blocks_.alignment()); }
  std::int64_t capacity() const { return blocks_.capacity(); }

 private:
  struct Pending {
    std::int64_t begin;
    std::int64_t end;
    double free_from;
  };

  Placement Place(std::int64_t bytes);

  blocks::BlockMap blocks_;
  std::shared_ptr<PlacementPolicy> policy_;  // without memory of its own
  std::vector<std::size_t> owners_;          // by block
  std::vector<Pending> pending_;             // of free memory
};

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_MEMORY_MAP_H_
