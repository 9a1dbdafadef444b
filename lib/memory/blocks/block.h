// SPDX-License-Identifier: Apache-2.0
// One block of an arena, in 16 bytes: with a hundred thousand blocks, the touched cache lines are
// the cost of an operation. A block ends where the next one begins, so its size is not stored.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_BLOCK_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_BLOCK_H_

#include <cstdint>

#include "tidepool/placement.h"

namespace tidepool::blocks {

class Block {
 public:
  Block(std::int64_t offset, bool used, BlockId previous_block, BlockId next_block)
      : previous(previous_block),
        next(next_block),
        offset_and_used_(offset << 1 | (used ? 1 : 0)) {}

  std::int64_t offset() const { return offset_and_used_ >> 1; }
  bool used() const { return (offset_and_used_ & 1) != 0; }
  void set_used() { offset_and_used_ |= 1; }
  void set_free() { offset_and_used_ &= ~std::int64_t{1}; }

  BlockId previous;  // neighbours in address order
  BlockId next;

 private:
  // Not bit fields: the compiler writes those byte by byte, and the next load of the whole word
  // would wait for the store.
  std::int64_t offset_and_used_;
};
static_assert(sizeof(Block) == 16);

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_BLOCK_H_
