// Allocating: a place, what must be waited for, and a line for those who have none.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/pool/out_of_memory.h"
#include "lib/pool/pool_impl.h"
#include "lib/pool/wait_avoiding_blocks.h"

namespace tidepool::pool {

absl::StatusOr<void*> PoolImpl::Allocate(std::size_t bytes, Stream stream, Hint hint) {
  if (bytes == 0) return nullptr;
  if (void* const address = AllocateFromFront(bytes, stream)) return address;
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  if (bytes > MostBytes()) return Refuse(bytes, hint, stream);
  if (line_.IsClosed()) {
    Refuse(bytes, hint, stream).IgnoreError();
    return absl::ResourceExhaustedError(
        "out of memory: what is free is kept for an allocation that has waited long; wait too "
        "(AllocateBlocking), or free more");
  }
  absl::StatusOr<void*> address = TryAllocate(static_cast<std::int64_t>(bytes), hint, **timeline);
  if (!address.ok()) return address;
  if (*address == nullptr) return Refuse(bytes, hint, stream);
  if (!line_.empty()) {
    line_.CountOvertake();
    ServeWaiting();  // the pool may have grown
  }
  return address;
}

absl::StatusOr<void*> PoolImpl::AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                                 absl::Time deadline) {
  if (bytes == 0) return nullptr;
  if (void* const address = AllocateFromFront(bytes, stream)) return address;
  std::unique_lock lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  if (bytes > MostBytes()) return Refuse(bytes, hint, stream);
  Waiter waiter(static_cast<std::int64_t>(bytes), hint, stream);
  if (!line_.IsClosed()) Serve(waiter);
  if (!waiter.result.has_value()) {
    if (absl::Status status = WaitInLine(waiter, deadline, lock); !status.ok()) return status;
  } else if (waiter.result->ok() && !line_.empty()) {
    line_.CountOvertake();
  }
  return *std::move(waiter.result);
}

absl::Status PoolImpl::WaitInLine(Waiter& waiter, absl::Time deadline,
                                  std::unique_lock<BackoffMutex>& lock) {
  ++stats_.blocked;
  if (line_.Wait(waiter, deadline, lock)) return absl::OkStatus();
  ServeWaiting();
  Refuse(waiter.bytes, waiter.hint, waiter.stream).IgnoreError();
  return absl::DeadlineExceededError(
      absl::StrCat("no room for ", waiter.bytes, " bytes until the deadline, ",
                   arena_.blocks().live_bytes(), " live, the budget is ", options_.max_bytes));
}

void PoolImpl::ServeWaiting() {
  if (line_.empty()) return;
  line_.ServeAll([this](Waiter& waiter) { Serve(waiter); });
}

// Leaves the result empty when there is no room yet.
void PoolImpl::Serve(Waiter& waiter) {
  const absl::StatusOr<Timeline*> timeline = FindStream(waiter.stream);
  if (!timeline.ok()) {
    waiter.result = timeline.status();
    return;
  }
  absl::StatusOr<void*> address = TryAllocate(waiter.bytes, waiter.hint, **timeline);
  if (address.ok() && *address == nullptr) {
    // When nothing is live no free will come.
    if (stats_.live_count == 0) waiter.result = Refuse(waiter.bytes, waiter.hint, waiter.stream);
    return;
  }
  waiter.result = std::move(address);
}

absl::StatusOr<void*> PoolImpl::TryAllocate(std::int64_t bytes, Hint hint, Timeline& timeline) {
  BlockMap& blocks = arena_.blocks();
  const Request request{Rounded(bytes), hint};
  if (iterations_ != nullptr && iterations_->IsBoundary()) BeginIteration();
  const absl::StatusOr<Placement> placement = PlaceOrGrow(request, timeline);
  if (!placement.ok()) return placement.status();
  if (placement->block == kNoBlock) return nullptr;
  bool behind_others = false;
  if (crossing_) {
    const std::int64_t begin = blocks.OffsetOf(*placement, request.bytes);
    const absl::StatusOr<bool> awaited =
        AwaitTickets(placement->block, begin, begin + request.bytes, timeline);
    if (!awaited.ok()) return awaited.status();
    behind_others = *awaited;
  }
  const BlockId block = arena_.Take(*placement, request.bytes);
  if (crossing_) {
    const std::int64_t begin = blocks.offset(block);
    tickets_.Take(placement->block, begin, begin + request.bytes,
                  FreeOrNone(blocks.Previous(block)), FreeOrNone(blocks.Next(block)));
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
    options_.recorder->Allocate(address, bytes, hint, timeline.stream);
  }
  // Who waits in line must see every free: as long as somebody does, no cache begins.
  if (own_fronts_ != nullptr && line_.empty()) {
    FrontCache& front = own_fronts_->Of(timeline.stream);
    const auto streams = static_cast<std::int64_t>(order_.size());
    const std::int64_t part = streams == 2 ? kFrontPart : kFrontPartOfMany * streams;
    const std::int64_t most_bytes = (blocks.capacity() - blocks.excluded_bytes()) / part;
    if (!front.Know({timeline.stream, fronts_epoch_, most_bytes}, address, request.bytes)) {
      EmptyFront(front);
    }
  }
  return address;
}

absl::StatusOr<Placement> PoolImpl::PlaceOrGrow(const Request& request, Timeline& timeline) {
  if (!arena_.blocks().HasNames()) [[unlikely]] {
    growth_error_ = absl::StrCat("an arena has at most ", arena_.blocks().max_blocks(), " blocks");
    return Placement::None();
  }
  Placement placement = Place(request, timeline);
  if (placement.block != kNoBlock) [[likely]]
    return placement;
  if (EmptyFronts()) {
    placement = Place(request, timeline);
    if (placement.block != kNoBlock) return placement;
  }
  return Grow(request);
}

Placement PoolImpl::Place(const Request& request, Timeline& timeline) {
  BlockMap& blocks = arena_.blocks();
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
