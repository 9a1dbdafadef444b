// Allocating: a place, what must be waited for, and a line for those who have none.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/pool/out_of_memory.h"
#include "lib/pool/pool_impl.h"
#include "lib/pool/wait_avoiding_blocks.h"

namespace tidepool::pool {

absl::StatusOr<void*> PoolImpl::Allocate(std::size_t bytes, Stream stream, Hint hint) {
  if (bytes == 0) return nullptr;
  Lock lock(mutex_);
  if (bytes > MostBytes() || line_.IsClosed()) [[unlikely]]
    return RefuseUnasked(bytes, hint, stream);
  absl::StatusOr<void*> address = TryAllocate(static_cast<std::int64_t>(bytes), hint, stream, lock);
  if (!address.ok()) [[unlikely]]
    return address;
  if (*address == nullptr) [[unlikely]]
    return Refuse(bytes, hint, stream);
  if (!line_.empty()) [[unlikely]] {
    line_.CountOvertake();
    ServeWaiting();  // the pool may have grown
  }
  return address;
}

absl::StatusOr<void*> PoolImpl::AllocateFromFree(std::int64_t bytes, Stream stream, Hint hint) {
  const std::lock_guard lock(mutex_);
  if (line_.IsClosed() || BeginsIteration()) return nullptr;
  absl::StatusOr<void*> address = TryPlace(bytes, hint, stream);
  if (!line_.empty() && address.ok() && *address != nullptr) [[unlikely]]
    line_.CountOvertake();
  return address;
}

// A request that is too large, or that comes while the line is closed.
absl::Status PoolImpl::RefuseUnasked(std::size_t bytes, Hint hint, Stream stream) {
  if (absl::Status status = FindStream(stream).status(); !status.ok()) return status;
  absl::Status refusal = Refuse(bytes, hint, stream);
  if (bytes > MostBytes()) return refusal;
  return absl::ResourceExhaustedError(
      "out of memory: what is free is kept for an allocation that has waited long; wait too "
      "(AllocateBlocking), or free more");
}

// A waiter looks for memory by itself when it comes, whenever it is called, and on its deadline.
absl::StatusOr<void*> PoolImpl::AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                                 absl::Time deadline) {
  if (bytes == 0) return nullptr;
  Lock lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  if (bytes > MostBytes()) return Refuse(bytes, hint, stream);
  if (line_.empty() && !BeginsIteration()) {
    absl::StatusOr<void*> address = TryPlace(static_cast<std::int64_t>(bytes), hint, stream);
    if (!address.ok() || *address != nullptr) return address;
  }
  Waiter waiter(static_cast<std::int64_t>(bytes), hint, stream);
  auto address = line_.Wait(
      waiter, deadline, lock, [&] { return Look(waiter, lock); }, [this] { ++stats_.blocked; });
  ServeWaiting();  // the pool may have grown, or the line be open again
  return address.has_value() ? *std::move(address) : TooLate(waiter);
}

// Of the waiter's own thread.
absl::StatusOr<void*> PoolImpl::Look(const Waiter& waiter, Lock& lock) {
  absl::StatusOr<void*> address =
      TryAllocate(waiter.bytes, waiter.hint, waiter.stream, lock, &waiter);
  const bool has_room = !address.ok() || *address != nullptr;
  const bool may_come_again = waiter.is_called || !line_.MayServe(&waiter);
  // When nothing is live no free will come.
  if (has_room || may_come_again || stats_.live_count > 0) return address;
  return Refuse(static_cast<std::size_t>(waiter.bytes), waiter.hint, waiter.stream);
}

absl::Status PoolImpl::TooLate(const Waiter& waiter) {
  Refuse(static_cast<std::size_t>(waiter.bytes), waiter.hint, waiter.stream).IgnoreError();
  return absl::DeadlineExceededError(
      absl::StrCat("no room for ", waiter.bytes, " bytes until the deadline, ",
                   arena_.blocks().live_bytes(), " live, the budget is ", options_.max_bytes));
}

// Called whenever a waiter may find room that it did not find before.
void PoolImpl::ServeWaiting() {
  if (line_.empty()) return;
  line_.ServeAll([this](Waiter& waiter) { Serve(waiter); });
}

// Serves it from what is free. Growth may wait for the device, and is left to the waiter's own
// thread.
void PoolImpl::Serve(Waiter& waiter) {
  if (waiter.is_looking || BeginsIteration()) return waiter.Call();
  absl::StatusOr<void*> address = TryPlace(waiter.bytes, waiter.hint, waiter.stream);
  if (!address.ok() || *address != nullptr) {
    waiter.result = std::move(address);
  } else if (MayGrow(Rounded(waiter.bytes)) || stats_.live_count == 0) {
    waiter.Call();
  }
}

// Null when there is no room, or when what is free is kept for a waiter that is before `waiter`.
absl::StatusOr<void*> PoolImpl::TryAllocate(std::int64_t bytes, Hint hint, Stream stream,
                                            Lock& lock, const Waiter* waiter) {
  const std::int64_t held = HeldBytes();
  absl::StatusOr<void*> address = PlaceOrGrow(bytes, hint, stream, lock, waiter);
  const bool is_served = address.ok() && *address != nullptr;
  if (!is_served && HeldBytes() != held) ServeWaiting();  // others may have room now
  return address;
}

absl::StatusOr<void*> PoolImpl::PlaceOrGrow(std::int64_t bytes, Hint hint, Stream stream,
                                            Lock& lock, const Waiter* waiter) {
  if (BeginsIteration()) BeginIteration(lock);
  if (!line_.MayServe(waiter)) return nullptr;
  absl::StatusOr<void*> address = TryPlace(bytes, hint, stream);
  if (!address.ok() || *address != nullptr) return address;
  const Request request{Rounded(bytes), hint};
  const absl::StatusOr<Placement> placement = Grow(request, stream, lock);
  if (!placement.ok()) return placement.status();
  if (placement->block == kNoBlock || !line_.MayServe(waiter)) return nullptr;
  const absl::StatusOr<Timeline*> timeline = order_.Find(stream);
  return timeline.ok() ? Take(*placement, request, bytes, **timeline) : timeline.status();
}

// Serves a request from what is free. Null when there is no room.
absl::StatusOr<void*> PoolImpl::TryPlace(std::int64_t bytes, Hint hint, Stream stream) {
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  if (!arena_.blocks().HasNames()) [[unlikely]]
    return nullptr;
  const Request request{Rounded(bytes), hint};
  const Placement placement = Place(request, **timeline);
  if (placement.block == kNoBlock) return nullptr;
  return Take(placement, request, bytes, **timeline);
}

// A request of `asked_bytes` gets its place, which is free.
absl::StatusOr<void*> PoolImpl::Take(const Placement& placement, const Request& request,
                                     std::int64_t asked_bytes, Timeline& timeline) {
  blocks::BlockMap& blocks = arena_.blocks();
  bool behind_others = false;
  if (crossing_) {
    const std::int64_t begin = blocks.OffsetOf(placement, request.bytes);
    const absl::StatusOr<bool> awaited =
        AwaitTickets(placement.block, begin, begin + request.bytes, timeline);
    if (!awaited.ok()) return awaited.status();
    behind_others = *awaited;
  }
  const BlockId block = arena_.Take(placement, request.bytes);
  if (crossing_) {
    const std::int64_t begin = blocks.offset(block);
    tickets_.Take(placement.block, begin, begin + request.bytes, FreeOrNone(blocks.Previous(block)),
                  FreeOrNone(blocks.Next(block)));
  }
  if (block >= allocated_on_.size()) {
    allocated_on_.resize(2 * std::size_t{block} + 1);
    behind_others_.resize(allocated_on_.size());
  }
  allocated_on_[block] = timeline.stream;
  if (crossing_) behind_others_[block] = behind_others;
  ++stats_.allocations;
  ++stats_.live_count;
  if (iterations_ != nullptr) {
    iterations_->OnAllocate(block, request.bytes, blocks.live_bytes() - request.bytes,
                            timeline.index);
  }
  void* const address = addresses_.AddressOf(blocks.offset(block));
  if (options_.recorder != nullptr) {
    options_.recorder->Allocate(address, asked_bytes, request.hint, timeline.stream);
  }
  return address;
}

Placement PoolImpl::Place(const Request& request, Timeline& timeline) {
  blocks::BlockMap& blocks = arena_.blocks();
  if (!crossing_ && !options_.remap) return arena_.Place(request, blocks);
  WaitAvoidingBlocks preferred(blocks, tickets_, order_, timeline);
  if (!options_.remap) return arena_.Place(request, preferred);
  GranuleBlocks fitting(crossing_ ? static_cast<FreeBlocks&>(preferred) : blocks, blocks, granules_,
                        device_.granularity());
  return fitting.Adjusted(arena_.Place(request, fitting), request.bytes);
}

// Whether work of others may still run, before whatever the stream is given from here on.
absl::StatusOr<bool> PoolImpl::AwaitTickets(BlockId block, std::int64_t begin, std::int64_t end,
                                            Timeline& timeline) {
  absl::Status status;
  bool behind_others = false;
  tickets_.ForEach(block, begin, end, [&](const Ticket& ticket) {
    if (order_.MustWait(timeline, ticket)) {
      const absl::StatusOr<bool> waits = order_.Await(timeline, ticket);
      status = waits.status();
      if (!waits.ok()) return false;
      if (*waits) CountWait(timeline, ticket);
    }
    behind_others |= ticket.timeline != timeline.index && order_.MayRun(ticket);
    return true;
  });
  if (!status.ok()) return status;
  return behind_others;
}

void PoolImpl::CountWait(const Timeline& timeline, const Ticket& ticket) {
  ++stats_.stream_waits;
  if (iterations_ != nullptr) iterations_->OnWait(timeline.index, ticket.timeline);
  if (options_.recorder != nullptr) {
    options_.recorder->Wait(timeline.stream, order_.StreamOf(ticket));
  }
}

absl::Status PoolImpl::Refuse(std::size_t bytes, Hint hint, Stream stream) {
  ++stats_.failures;
  const auto recorded = std::min(bytes, static_cast<std::size_t>(kMaxRequestBytes));
  if (options_.recorder != nullptr) {
    options_.recorder->Failure(static_cast<std::int64_t>(recorded), hint, stream);
  }
  return OutOfMemory(bytes, StatsLocked(), growth_error_);
}

}  // namespace tidepool::pool
