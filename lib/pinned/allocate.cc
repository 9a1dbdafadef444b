// Allocating and freeing: a place, and a line for those who have none.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/pinned/pinned_pool_impl.h"

namespace tidepool::pinned {

absl::StatusOr<void*> PinnedPoolImpl::Allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  if (bytes > static_cast<std::size_t>(options_.max_bytes)) return Refuse(bytes);
  if (line_.IsClosed()) {
    Refuse(bytes).IgnoreError();
    return absl::ResourceExhaustedError(
        "out of pinned memory: what is free is kept for an allocation that has waited long, "
        "expected the caller to wait too (AllocateBlocking) or to free more");
  }
  absl::StatusOr<void*> address = TryAllocate(static_cast<std::int64_t>(bytes));
  if (!address.ok()) return address;  // counted
  if (*address == nullptr) return Refuse(bytes);
  if (!line_.empty()) {
    line_.CountOvertake();
    ServeWaiting();  // the pool may have grown
  }
  return address;
}

absl::StatusOr<void*> PinnedPoolImpl::AllocateBlocking(std::size_t bytes, absl::Time deadline) {
  if (bytes == 0) return nullptr;
  std::unique_lock lock(mutex_);
  if (bytes > static_cast<std::size_t>(options_.max_bytes)) return Refuse(bytes);
  pool::Waiter waiter(static_cast<std::int64_t>(bytes), Hint::kResident, Stream{});
  if (!line_.IsClosed()) Serve(waiter);
  if (!waiter.result.has_value()) {
    if (absl::Status status = WaitInLine(waiter, deadline, lock); !status.ok()) return status;
  } else if (waiter.result->ok() && !line_.empty()) {
    line_.CountOvertake();
    ServeWaiting();  // the pool may have grown
  }
  return *std::move(waiter.result);
}

absl::Status PinnedPoolImpl::WaitInLine(pool::Waiter& waiter, absl::Time deadline,
                                        std::unique_lock<pool::BackoffMutex>& lock) {
  ++stats_.blocked;
  if (line_.Wait(waiter, deadline, lock)) return absl::OkStatus();
  ServeWaiting();
  ++stats_.failures;
  return absl::DeadlineExceededError(absl::StrCat(
      "no room for ", waiter.bytes, " bytes of pinned memory until the deadline, ",
      arena_.blocks().live_bytes(), " live, expected frees: the budget is ", options_.max_bytes));
}

void PinnedPoolImpl::ServeWaiting() {
  if (line_.empty()) return;
  line_.ServeAll([this](pool::Waiter& waiter) { Serve(waiter); });
}

// Leaves the result empty when there is no room yet.
void PinnedPoolImpl::Serve(pool::Waiter& waiter) {
  absl::StatusOr<void*> address = TryAllocate(waiter.bytes);
  if (address.ok() && *address == nullptr) {
    // When nothing is live no free will come.
    if (stats_.live_count == 0) waiter.result = Refuse(static_cast<std::size_t>(waiter.bytes));
    return;
  }
  waiter.result = std::move(address);
}

absl::StatusOr<void*> PinnedPoolImpl::TryAllocate(std::int64_t bytes) {
  blocks::BlockMap& blocks = arena_.blocks();
  const Request request{arena_.Rounded(bytes), Hint::kResident};
  if (!blocks.HasNames()) {
    growth_error_ = absl::StrCat("an arena has at most ", blocks.max_blocks(), " blocks");
    return nullptr;
  }
  Placement placement = arena_.Place(request, blocks);
  if (placement.block == kNoBlock) {
    const absl::StatusOr<Placement> grown = Grow(request.bytes);
    if (!grown.ok()) {
      ++stats_.failures;
      return grown.status();
    }
    if (grown->block == kNoBlock) return nullptr;
    placement = *grown;
  }
  const BlockId block = arena_.Take(placement, request.bytes);
  if (block >= asked_.size()) asked_.resize(2 * std::size_t{block} + 1);
  asked_[block] = bytes;
  stats_.asked_bytes += bytes;
  stats_.peak_asked_bytes = std::max(stats_.peak_asked_bytes, stats_.asked_bytes);
  ++stats_.allocations;
  ++stats_.live_count;
  return addresses_.AddressOf(blocks.offset(block));
}

absl::Status PinnedPoolImpl::Free(void* address) {
  if (address == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
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
