// Freeing: what the memory must be kept for, and who is to be told that it is none of ours.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

absl::Status PoolImpl::Free(void* address, Stream stream) {
  if (address == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  return FreeLive(address, **timeline);
}

absl::Status PoolImpl::FreeOwn(void* address, Stream stream) {
  if (address == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  if (order_.begun() > 1) {
    const BlockId block = arena_.blocks().Find(addresses_.OffsetOf(address));
    if (block != kNoBlock && !(allocated_on_[block] == stream)) {
      return absl::FailedPreconditionError(absl::StrCat("the allocation is one of stream ",
                                                        allocated_on_[block].id,
                                                        ", expected one of stream ", stream.id));
    }
  }
  return FreeLive(address, **timeline);
}

absl::StatusOr<Stream> PoolImpl::AllocatedOn(const void* address) {
  const std::lock_guard lock(mutex_);
  const BlockId block = arena_.blocks().Find(addresses_.OffsetOf(address));
  if (block == kNoBlock) return NotLive(address);
  return allocated_on_[block];
}

absl::Status PoolImpl::FreeLive(const void* address, Timeline& timeline) {
  if (!TakeBack(address, timeline)) return NotLive(address);
  if (options_.recorder != nullptr) options_.recorder->Free(address, timeline.stream);
  ++stats_.frees;
  --stats_.live_count;
  ServeWaiting();
  return absl::OkStatus();
}

void PoolImpl::FreeCached(absl::Span<void* const> addresses, Stream stream) {
  const std::lock_guard lock(mutex_);
  Timeline* const timeline = order_.Known(stream);
  for (const void* address : addresses) {
    Tickets tickets;
    if (timeline != nullptr) tickets.push_back(StreamOrder::NextTicket(*timeline));
    FreeWithTickets(arena_.blocks().Find(addresses_.OffsetOf(address)), tickets);
    ++stats_.frees;
    --stats_.live_count;
  }
  ServeWaiting();
}

// False, and nothing changes, when no live allocation begins at `address`.
bool PoolImpl::TakeBack(const void* address, Timeline& timeline) {
  if (!crossing_ && iterations_ == nullptr) return arena_.Free(addresses_.OffsetOf(address));
  const BlockId block = arena_.blocks().Find(addresses_.OffsetOf(address));
  if (block == kNoBlock) return false;
  if (iterations_ != nullptr) iterations_->OnFree(block, timeline.index);
  if (crossing_) {
    FreeWithTickets(block, TakeTickets(block, timeline));
  } else {
    arena_.FreeBlock(block);
  }
  return true;
}

absl::Status PoolImpl::RecordUse(void* address, Stream stream) {
  if (address == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  const BlockId block = arena_.blocks().Find(addresses_.OffsetOf(address));
  if (block == kNoBlock) return NotLive(address);
  if (!crossing_) BeginCrossing({});  // the free may come from another stream
  auto& uses = uses_[block];
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
  return absl::OkStatus();
}

// What the memory of `block`, which `timeline` frees, must be kept for.
Tickets PoolImpl::TakeTickets(BlockId block, Timeline& timeline) {
  Tickets tickets = {StreamOrder::NextTicket(timeline)};
  const auto add = [&](Stream user) {
    Timeline* known = order_.Known(user);
    if (known != nullptr && known != &timeline) {
      tickets.push_back(StreamOrder::NextTicket(*known));
    }
  };
  // Who frees need not have waited for what the stream of the allocation was made to wait for.
  if (behind_others_[block]) add(allocated_on_[block]);
  if (uses_.empty()) return tickets;
  const auto uses = uses_.find(block);
  if (uses == uses_.end()) return tickets;
  for (const Stream user : uses->second) add(user);
  uses_.erase(uses);
  return tickets;
}

void PoolImpl::FreeWithTickets(BlockId block, const Tickets& tickets) {
  const blocks::BlockMap& blocks = arena_.blocks();
  const BlockId before = FreeOrNone(blocks.Previous(block));
  const BlockId after = FreeOrNone(blocks.Next(block));
  const std::int64_t begin = blocks.offset(block);
  const std::int64_t end = begin + blocks.bytes(block);
  const BlockId merged = arena_.FreeBlock(block);
  tickets_.Merge(before, begin, end, tickets, after, merged,
                 tickets.empty() ? 0 : order_.Recorded(tickets.front()));
}

BlockId PoolImpl::FreeOrNone(BlockId block) const {
  return block == kNoBlock || arena_.blocks().used(block) ? kNoBlock : block;
}

absl::Status DoubleFreeError(const void* address) {
  return absl::InvalidArgumentError(
      absl::StrCat("address 0x", absl::Hex(reinterpret_cast<std::uintptr_t>(address)),
                   " is free already, expected a live allocation: a double free?"));
}

absl::Status PoolImpl::NotLive(const void* address) const {
  const auto where = absl::Hex(reinterpret_cast<std::uintptr_t>(address));
  const std::int64_t offset = addresses_.OffsetOf(address);
  const blocks::BlockMap& blocks = arena_.blocks();
  if (offset < 0 || offset >= blocks.capacity()) {
    return absl::InvalidArgumentError(
        absl::StrCat("address 0x", where, " is none of this pool, expected a live allocation"));
  }
  const BlockId id = BlockAt(offset);
  if (blocks.excluded(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("address 0x", where, " was given back, expected a live allocation"));
  }
  if (!blocks.used(id)) return DoubleFreeError(address);
  return absl::InvalidArgumentError(
      absl::StrCat("address 0x", where, " is ", offset - blocks.offset(id),
                   " bytes inside a live allocation, expected its beginning"));
}

// From now on memory crosses between streams: what is free so far may be in use by the work so far.
void PoolImpl::BeginCrossing(Stream newest) {
  crossing_ = true;
  has_crossed_.store(true, std::memory_order_relaxed);
  const Tickets tickets = order_.TicketsOfAllBut(newest);
  const blocks::BlockMap& blocks = arena_.blocks();
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.used(id)) continue;
    tickets_.Merge(kNoBlock, blocks.offset(id), blocks.offset(id) + blocks.bytes(id), tickets,
                   kNoBlock, id, UINT64_MAX);
  }
}

}  // namespace tidepool::pool
