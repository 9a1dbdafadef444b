// SPDX-License-Identifier: Apache-2.0
// Buffers: allocated from free blocks, after growth or after a wait, and freed.
#include <algorithm>
#include <utility>

#include "lib/base/locks/mutex.h"
#include "lib/memory/pinned/pinned_pool_impl.h"
#include "lib/memory/pool/out_of_memory.h"

namespace tidepool::pinned {

absl::StatusOr<void*> PinnedPoolImpl::Allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const pool::BackoffLock lock(locks_.books);
  if (bytes > static_cast<std::size_t>(options_.max_bytes)) return Refuse(bytes);
  if (queue_.IsClosed()) {
    ++stats_.failures;
    return pool::QueueClosed(kPinnedWords);
  }
  absl::StatusOr<void*> address = AllocateOrGrow(static_cast<std::int64_t>(bytes), nullptr);
  if (!address.ok()) return address;
  if (*address == nullptr) return Refuse(bytes);
  if (!queue_.empty()) {
    queue_.CountOvertake();
    ServeWaiting();  // the pool may have grown
  }
  return address;
}

absl::StatusOr<void*> PinnedPoolImpl::AllocateBlocking(std::size_t bytes, absl::Time deadline) {
  if (bytes == 0) return nullptr;
  const pool::BackoffLock lock(locks_.books);
  if (bytes > static_cast<std::size_t>(options_.max_bytes)) return Refuse(bytes);
  pool::Waiter waiter({static_cast<std::int64_t>(bytes), Hint::kResident, {}});
  const auto look = [&] { return locks_.books.AssertHeld(), Look(waiter); };
  const auto make_room = [](bool /*is_last*/) { return false; };
  const auto sleeps = [&, has_slept = false]() mutable {
    locks_.books.AssertHeld();
    stats_.blocked += std::exchange(has_slept, true) ? 0 : 1;
    return locks::SteadyTime::max();
  };
  auto address =
      queue_.Wait(waiter, {locks::ToSteady(deadline)}, locks_.books, look, make_room, sleeps);
  ServeWaiting();  // the pool may have grown, or the queue be open again
  if (address.has_value()) return *std::move(address);
  ++stats_.failures;
  return pool::DeadlinePassed(waiter.wanted.bytes, Occupancy());
}

// Called by the waiter's own thread.
absl::StatusOr<void*> PinnedPoolImpl::Look(const pool::Waiter& waiter) {
  absl::StatusOr<void*> address = AllocateOrGrow(waiter.wanted.bytes, &waiter);
  const bool has_room = !address.ok() || *address != nullptr;
  if (has_room || !queue_.IsHopeless(waiter, stats_.live_count > 0)) return address;
  return Refuse(static_cast<std::size_t>(waiter.wanted.bytes));
}

// Called whenever a waiter may find room that it did not find before.
void PinnedPoolImpl::ServeWaiting() {
  queue_.ServeAll([this](pool::Waiter& waiter) { locks_.books.AssertHeld(), Serve(waiter); });
}

// Serves a waiter from free blocks. Pinning takes long, and is left to the waiter's own thread.
void PinnedPoolImpl::Serve(pool::Waiter& waiter) {
  if (void* const address = TryAllocate(waiter.wanted.bytes)) {
    waiter.result = address;
  } else if (options_.may_grow || stats_.live_count == 0) {
    waiter.AlertAndWake();
  }
}

absl::StatusOr<void*> PinnedPoolImpl::AllocateOrGrow(std::int64_t bytes,
                                                     const pool::Waiter* waiter) {
  if (void* const address = TryAllocate(bytes)) return address;
  // A thread that pins memory holds the lock of the memory for long, so a request that may not grow
  // the pool does not wait for it. While nothing is live a waiter does: no free can make room then,
  // and that thread can.
  const bool awaits_pins = waiter != nullptr && stats_.live_count == 0;
  if (!MayGrow(arena_.Rounded(bytes)) && !awaits_pins) return nullptr;
  const pool::MemoryLock memory(locks_);
  const std::int64_t held = regions_.held_bytes();
  absl::StatusOr<void*> address = GrowAndAllocate(bytes, waiter);
  if (!address.ok()) ++stats_.failures;
  const bool is_served = address.ok() && *address != nullptr;
  if (!is_served && regions_.held_bytes() != held) ServeWaiting();  // others may have room now
  return address;
}

absl::StatusOr<void*> PinnedPoolImpl::GrowAndAllocate(std::int64_t bytes,
                                                      const pool::Waiter* waiter) {
  if (!queue_.MayServe(waiter)) return nullptr;
  // Other threads may have made room while this thread waited for the lock.
  if (void* const address = TryAllocate(bytes)) return address;
  const absl::StatusOr<Placement> grown = Grow(arena_.Rounded(bytes));
  if (!grown.ok()) return grown.status();
  if (grown->block == kNoBlock || !queue_.MayServe(waiter)) return nullptr;
  return Take(*grown, bytes);
}

// Serves a request from the free blocks.
void* PinnedPoolImpl::TryAllocate(std::int64_t bytes) {
  blocks::BlockMap& blocks = arena_.blocks();
  if (!blocks.HasNames()) return nullptr;
  const Request request{arena_.Rounded(bytes), Hint::kResident};
  const Placement placement = arena_.Place(request, blocks);
  return placement.block == kNoBlock ? nullptr : Take(placement, bytes);
}

// Makes free memory the buffer of a request. Returns its address.
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
  const BlockId block = arena_.blocks().Find(addresses_.OffsetOf(address));
  if (block == kNoBlock) {
    return pool::NotLiveError(address, addresses_, arena_.blocks(), kPinnedWords);
  }
  stats_.asked_bytes -= asked_[block];
  ++stats_.frees;
  --stats_.live_count;
  arena_.FreeBlock(block);
  ServeWaiting();
  return absl::OkStatus();
}

absl::Status PinnedPoolImpl::Refuse(std::size_t bytes) {
  ++stats_.failures;
  return pool::OutOfMemory(bytes, Occupancy(), growth_error_, kPinnedWords);
}

}  // namespace tidepool::pinned
