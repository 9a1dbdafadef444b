// SPDX-License-Identifier: Apache-2.0
// Allocating and freeing: a place, and a line for those who have none.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/pinned/pinned_pool_impl.h"

namespace tidepool::pinned {

absl::StatusOr<void*> PinnedPoolImpl::Allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const pool::BackoffLock lock(locks_.books);
  if (bytes > static_cast<std::size_t>(options_.max_bytes)) return Refuse(bytes);
  absl::StatusOr<void*> address = nullptr;
  if (!queue_.IsClosed()) {
    address = TryAllocate(static_cast<std::int64_t>(bytes));
    if (!address.ok()) return address;  // counted
  }
  if (*address == nullptr) {
    absl::Status status = Refuse(bytes);
    if (!queue_.IsClosed()) return status;
    return absl::ResourceExhaustedError(
        "out of pinned memory: what is free is kept for an allocation that has waited long, "
        "expected the caller to wait too (AllocateBlocking) or to free more");
  }
  if (!queue_.empty()) {
    queue_.CountOvertake();
    ServeWaiting();  // the pool may have grown
  }
  return address;
}

// A waiter looks for memory by itself when it comes, whenever it is called, and on its deadline.
absl::StatusOr<void*> PinnedPoolImpl::AllocateBlocking(std::size_t bytes, absl::Time deadline) {
  if (bytes == 0) return nullptr;
  const pool::BackoffLock lock(locks_.books);
  if (bytes > static_cast<std::size_t>(options_.max_bytes)) return Refuse(bytes);
  pool::Waiter waiter({static_cast<std::int64_t>(bytes), Hint::kResident, {}});
  auto address = queue_.Wait(
      waiter, deadline, locks_.books, [&] { return Look(waiter); }, [this] { ++stats_.blocked; });
  ServeWaiting();  // the pool may have grown, or the line be open again
  return address.has_value() ? *std::move(address) : TooLate(waiter);
}

// Of the waiter's own thread.
absl::StatusOr<void*> PinnedPoolImpl::Look(const pool::Waiter& waiter) {
  absl::StatusOr<void*> address = TryAllocate(waiter.wanted.bytes, &waiter);
  const bool has_room = !address.ok() || *address != nullptr;
  const bool may_come_again = waiter.is_called || !queue_.MayServe(&waiter);
  // When nothing is live no free will come.
  if (has_room || may_come_again || stats_.live_count > 0) return address;
  return Refuse(static_cast<std::size_t>(waiter.wanted.bytes));
}

absl::Status PinnedPoolImpl::TooLate(const pool::Waiter& waiter) {
  ++stats_.failures;
  return absl::DeadlineExceededError(absl::StrCat(
      "no room for ", waiter.wanted.bytes, " bytes of pinned memory until the deadline, ",
      arena_.blocks().live_bytes(), " live, expected frees: the budget is ", options_.max_bytes));
}

// Called whenever a waiter may find room that it did not find before.
void PinnedPoolImpl::ServeWaiting() {
  if (queue_.empty()) return;
  queue_.ServeAll([this](pool::Waiter& waiter) { Serve(waiter); });
}

// Serves it from what is free. Pinning takes long, and is left to the waiter's own thread.
void PinnedPoolImpl::Serve(pool::Waiter& waiter) {
  if (waiter.is_looking) return waiter.CallThread();
  if (void* const address = TryPlace(waiter.wanted.bytes)) {
    waiter.result = address;
  } else if (options_.may_grow || stats_.live_count == 0) {
    waiter.CallThread();
  }
}

// Null when there is no room, or when what is free is kept for a waiter that is before `waiter`.
absl::StatusOr<void*> PinnedPoolImpl::TryAllocate(std::int64_t bytes, const pool::Waiter* waiter) {
  if (void* const address = TryPlace(bytes)) return address;
  const pool::MemoryLock memory(locks_);
  if (!queue_.MayServe(waiter)) return nullptr;
  // Other threads may have made room meanwhile.
  if (void* const address = TryPlace(bytes)) return address;
  const std::int64_t held = regions_.segments().held_bytes();
  const absl::StatusOr<Placement> placement = Grow(arena_.Rounded(bytes));
  if (placement.ok() && placement->block != kNoBlock && queue_.MayServe(waiter)) {
    return Take(*placement, bytes);
  }
  if (regions_.segments().held_bytes() != held) ServeWaiting();  // others may have room now
  if (placement.ok()) return nullptr;
  ++stats_.failures;
  return placement.status();
}

// Serves a request from what is free. Null when there is no room.
void* PinnedPoolImpl::TryPlace(std::int64_t bytes) {
  blocks::BlockMap& blocks = arena_.blocks();
  if (!blocks.HasNames()) return nullptr;
  const Request request{arena_.Rounded(bytes), Hint::kResident};
  const Placement placement = arena_.Place(request, blocks);
  return placement.block == kNoBlock ? nullptr : Take(placement, bytes);
}

// A request of `bytes` gets its place, which is free.
void* PinnedPoolImpl::Take(const Placement& placement, std::int64_t bytes) {
  const BlockId block = arena_.Take(placement, arena_.Rounded(bytes));
  if (block >= asked_.size()) asked_.resize(2 * std::size_t{block} + 1);
  asked_[block] = bytes;
  stats_.asked_bytes += bytes;
  stats_.peak_asked_bytes = std::max(stats_.peak_asked_bytes, stats_.asked_bytes);
  ++stats_.allocations;
  ++stats_.live_count;
  return addresses_.AddressOf(arena_.blocks().offset(block));
}

absl::Status PinnedPoolImpl::Free(void* address) {
  if (address == nullptr) return absl::OkStatus();
  const pool::BackoffLock lock(locks_.books);
  const std::int64_t offset = addresses_.OffsetOf(address);
  const BlockId block = offset < 0 ? kNoBlock : arena_.blocks().Find(offset);
  if (block == kNoBlock) return NotLive(address);
  stats_.asked_bytes -= asked_[block];
  ++stats_.frees;
  --stats_.live_count;
  arena_.FreeBlock(block);
  ServeWaiting();
  return absl::OkStatus();
}

absl::Status PinnedPoolImpl::NotLive(const void* address) const {
  const auto where = absl::Hex(reinterpret_cast<std::uintptr_t>(address));
  const std::int64_t offset = addresses_.OffsetOf(address);
  if (offset < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("address 0x", where, " is none of this pinned pool, expected a live buffer"));
  }
  const blocks::BlockMap& blocks = arena_.blocks();
  BlockId id = blocks.First();
  while (blocks.offset(id) + blocks.bytes(id) <= offset) id = blocks.Next(id);
  if (!blocks.used(id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address 0x", where, " is free already, expected a live buffer: a double free?"));
  }
  return absl::InvalidArgumentError(absl::StrCat("address 0x", where, " is ",
                                                 offset - blocks.offset(id),
                                                 " bytes inside a live buffer, expected its "
                                                 "beginning"));
}

absl::Status PinnedPoolImpl::Refuse(std::size_t bytes) {
  ++stats_.failures;
  const PinnedPoolStats stats = StatsLocked();
  const auto help = [&]() -> std::string {
    if (bytes > static_cast<std::size_t>(stats.max_bytes)) {
      return "it can never fit, expected at most max_bytes";
    }
    if (!growth_error_.empty()) return growth_error_;
    const std::int64_t missing =
        static_cast<std::int64_t>(bytes) - (stats.max_bytes - stats.live_bytes);
    if (missing > 0) {
      return absl::StrCat("expected ", missing, " more bytes to be free, or a larger max_bytes");
    }
    return "enough is free, expected it in one piece: free a neighbour of the largest hole, or "
           "raise max_bytes";
  };
  return absl::ResourceExhaustedError(absl::StrCat(
      "out of pinned memory: ", bytes, " bytes asked for, ", stats.live_bytes, " live in ",
      stats.live_count, " buffers, ", stats.reserved_bytes, " pinned, the largest hole is ",
      stats.largest_hole_bytes, ", the budget is ", stats.max_bytes, "; ", help()));
}

}  // namespace tidepool::pinned
