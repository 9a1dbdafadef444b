// SPDX-License-Identifier: Apache-2.0
// WaitAvoidingBlocks: the free blocks as a stream prefers them.
//
// Among blocks of about the size that fits best, the answer is a block that needs no wait of the
// stream. Questions about addresses get the block map's answers: an order of addresses leaves
// no choice.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_WAIT_AVOIDING_BLOCKS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_WAIT_AVOIDING_BLOCKS_H_

#include <cstdint>

#include "lib/memory/blocks/block_map.h"
#include "lib/memory/pool/stream_order.h"
#include "lib/memory/pool/ticket_lists.h"
#include "tidepool/placement.h"

namespace tidepool::pool {

class WaitAvoidingBlocks final : public FreeBlocks {
 public:
  WaitAvoidingBlocks(blocks::BlockMap& blocks, const TicketLists& tickets, const StreamOrder& order,
                     const StreamClock& clock)
      : blocks_(blocks), tickets_(tickets), order_(order), clock_(clock) {}

  BlockId SmallestFit(std::int64_t bytes) override {
    return Prefer(blocks_.SmallestFit(bytes), bytes, bytes / kSlack);
  }
  BlockId ExactFit(std::int64_t bytes) override {
    return Prefer(blocks_.ExactFit(bytes), bytes, 0);
  }
  BlockId LowestFit(std::int64_t bytes) override { return blocks_.LowestFit(bytes); }
  BlockId HighestFit(std::int64_t bytes) override { return blocks_.HighestFit(bytes); }
  BlockId Covering(std::int64_t offset, std::int64_t bytes, Clue* clue) override {
    return blocks_.Covering(offset, bytes, clue);
  }

 private:
  // A block may be larger than the best fit by 1/kSlack of the request.
  static constexpr std::int64_t kSlack = 8;
  static constexpr int kMostTries = 8;

  BlockId Prefer(BlockId best, std::int64_t bytes, std::int64_t slack) {
    BlockId block = best;
    for (int tries = 0; tries < kMostTries && block != kNoBlock; ++tries) {
      if (blocks_.bytes(block) > blocks_.bytes(best) + slack) break;
      if (!MustWaitFor(block, bytes)) return block;
      block = blocks_.NextBySize(block);
    }
    return best;
  }

  bool MustWaitFor(BlockId block, std::int64_t bytes) const {
    const std::int64_t begin = blocks_.offset(block);
    return !tickets_.ForEach(block, begin, begin + bytes, [&](const Ticket& ticket) {
      return !order_.MustWait(clock_, ticket);
    });
  }

  blocks::BlockMap& blocks_;
  const TicketLists& tickets_;
  const StreamOrder& order_;
  const StreamClock& clock_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_WAIT_AVOIDING_BLOCKS_H_
