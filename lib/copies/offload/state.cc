// SPDX-License-Identifier: Apache-2.0
// Waits for copies and changes, without the offloader's mutex.
#include "lib/copies/offload/state.h"

#include <chrono>

#include "absl/status/status.h"

namespace tidepool::offload {
namespace {

// Time between two queries of a copy by a thread with a deadline.
constexpr std::chrono::microseconds kQueryInterval(100);

}  // namespace

bool OffloaderState::AwaitChange(std::uint64_t seen, locks::SteadyTime deadline) {
  const bool has_changed = changes.Await(mutex, seen, deadline);
  books.CollectEnded();
  return has_changed;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): other threads may drop it meanwhile.
void OffloaderState::AwaitAndSettle(CopyPointer copy) {
  if (copy->predecessor != nullptr) AwaitAndSettle(copy->predecessor);
  if (copy->is_settled) return;
  if (!copy->is_compressed) return AwaitAndSettleRaw(copy);
  while (!copy->has_reported_end) {
    const std::uint64_t seen = changes.count();
    books.CollectEnded();
    if (!copy->has_reported_end) AwaitChange(seen, locks::SteadyTime::max());
  }
  books.Settle(copy, copy->result);
}

void OffloaderState::AwaitAndSettleRaw(const CopyPointer& copy) {
  const bool is_recorded = copies.raw().RecordEnd(*copy).ok();
  mutex.Unlock();
  const absl::Status result = copies.raw().WaitForEnd(*copy, is_recorded);
  mutex.Lock();
  books.CollectEnded();
  books.Settle(copy, result);
}

bool OffloaderState::AwaitAndSettleBy(const CopyPointer& copy, locks::SteadyTime deadline) {
  while (deadline != locks::SteadyTime::max() && !copy->is_settled && !copies.HasFinished(*copy)) {
    if (locks::SteadyNow() >= deadline) return false;
    AwaitChange(changes.count(), locks::SteadyNow() + kQueryInterval);
  }
  AwaitAndSettle(copy);
  return true;
}

}  // namespace tidepool::offload
