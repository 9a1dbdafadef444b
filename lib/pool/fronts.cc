// The pool and its front caches: their blocks are used to the books, and free to everybody else.
#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

bool PoolImpl::EmptyFronts() {
  if (own_fronts_ == nullptr) return false;
  bool held_any = false;
  for (FrontCache& front : *own_fronts_) held_any |= EmptyFront(front);
  return held_any;
}

bool PoolImpl::EmptyFront(FrontCache& front) {
  Stream stream;
  const std::vector<FrontCache::Block> held = front.Close(stream);
  for (const FrontCache::Block& block : held) {
    Tickets tickets;
    if (Timeline* timeline = order_.Known(stream)) {
      tickets.push_back(StreamOrder::NextTicket(*timeline));
    }
    FreeWithTickets(arena_.blocks().Find(addresses_.OffsetOf(block.address)), tickets);
    --stats_.live_count;
  }
  return !held.empty();
}

bool PoolImpl::TakeFromFront(BlockId block) {
  if (own_fronts_ == nullptr) return true;
  const Stream stream = allocated_on_[block];
  const blocks::BlockMap& blocks = arena_.blocks();
  return own_fronts_->Of(stream).Forget(stream, addresses_.AddressOf(blocks.offset(block)),
                                        blocks.bytes(block));
}

bool PoolImpl::IsInFront(BlockId block) const {
  const blocks::BlockMap& blocks = arena_.blocks();
  return own_fronts_ != nullptr &&
         own_fronts_->Of(allocated_on_[block])
             .Holds(allocated_on_[block], addresses_.AddressOf(blocks.offset(block)),
                    blocks.bytes(block));
}

}  // namespace tidepool::pool
