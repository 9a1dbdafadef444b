// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/pool/shared_room.h"

#include <algorithm>

#include "lib/memory/pool/pool_impl.h"

namespace tidepool::pool {
namespace {

// Lets a pool lend unused memory above its least: `bytes`, or a piece that is larger. Returns the
// bytes.
std::int64_t Borrow(PoolImpl& pool, std::int64_t bytes) {
  const std::int64_t least = pool.taker().least_bytes();
  for (;; bytes *= 2) {
    const std::int64_t held = pool.taker().held_bytes();
    const std::int64_t kept = std::max(least, held - std::min(bytes, held));
    const std::int64_t lent = held > least ? pool.LendUnused(kept).value_or(0) : 0;
    if (lent > 0 || kept == least) return lent;
  }
}

}  // namespace

void SharedRoom::Add(PoolImpl& region) {
  if (!has_regions_.exchange(true)) store_.Limit(budget_bytes_);
  const locks::MutexLock lock(&adding_);
  pools_.push_back(&region);
}

std::vector<PoolImpl*> SharedRoom::Pools() const {
  const locks::MutexLock lock(&adding_);
  return pools_;
}

void SharedRoom::ForgetWanted(const PoolImpl& wanting) { store_.TakeMissing(wanting.taker()); }

// Asks again after the wait: others may have freed memory meanwhile.
bool SharedRoom::MakeRoom(const PoolImpl& wanting, absl::Status& waited) {
  if (wanting.taker().is_full()) return false;
  const std::int64_t missing = store_.TakeMissing(wanting.taker());
  if (BorrowFromOthers(wanting, missing)) return true;
  if (store_.lent_bytes() == 0) return false;
  waited = store_.AwaitLent();
  return BorrowFromOthers(wanting, missing);
}

bool SharedRoom::BorrowFromOthers(const PoolImpl& wanting, std::int64_t missing_bytes) {
  std::int64_t lent = 0;
  for (PoolImpl* const pool : Pools()) {
    if (lent >= missing_bytes) break;
    if (pool != &wanting) lent += Borrow(*pool, missing_bytes - lent);
  }
  return lent > 0;
}

// Without live memory no further free comes, and each waiter must find that out.
void SharedRoom::AlertWaiters() {
  ++alerts_;
  const std::int64_t room = RoomLeft();
  for (PoolImpl* const pool : Pools()) pool->AlertOwnWaitersByFree(room);
  WakeNext();
}

std::int64_t SharedRoom::RoomLeft() const {
  std::int64_t live_bytes = 0;
  for (const PoolImpl* const pool : Pools()) live_bytes += pool->AwakeLiveBytes();
  return live_bytes == 0 ? std::numeric_limits<std::int64_t>::max()
                         : store_.limit_bytes() - live_bytes;
}

void SharedRoom::AlertAllWaiters() { Alert(std::numeric_limits<std::int64_t>::max()); }

void SharedRoom::AlertWaitersBelow(int priority) { Alert(priority); }

void SharedRoom::Alert(std::int64_t below) {
  ++alerts_;
  for (PoolImpl* const pool : Pools()) pool->AlertOwnWaiters(below);
  WakeNext();
}

// A free that this does not see yet alerts waiters after it, and counts that before.
void SharedRoom::WakeNext() {
  const std::uint64_t alerts = alerts_.load();
  const std::int64_t room = RoomLeft();
  PoolImpl* first = nullptr;
  int highest = 0;
  for (PoolImpl* const pool : Pools()) {
    const std::optional<int> priority = pool->FirstAlertedWaiter(room, alerts);
    if (!priority.has_value() || (first != nullptr && *priority <= highest)) continue;
    first = pool;
    highest = *priority;
  }
  if (first != nullptr) first->WakeFirstWaiter();
}

bool SharedRoom::HasAlertedWaiterAbove(int priority) const {
  return std::ranges::any_of(
      Pools(), [priority](const PoolImpl* pool) { return pool->HasAlertedWaiterAbove(priority); });
}

bool SharedRoom::MayFree(const PoolImpl& pool) const {
  return growing_.load() > 0 || std::ranges::any_of(Pools(), [&pool](const PoolImpl* other) {
           return other != &pool && other->AwakeLiveBytes() > 0;
         });
}

}  // namespace tidepool::pool
