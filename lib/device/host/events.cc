// SPDX-License-Identifier: Apache-2.0
// An event is a variable, and a position is its value. A waiter copies the value, so recording the
// event again does not affect it.
#include "lib/device/host/events.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/device/peers.h"

namespace tidepool::host {
namespace {

absl::Status NoEvent(Event event) {
  return absl::NotFoundError(absl::StrCat("the device has no event ", event.id));
}

using EventPeers = device::Peers<Events>;

}  // namespace

Events::Events() { EventPeers::OfProcess().Add(this); }

Events::~Events() { EventPeers::OfProcess().Remove(this); }

Event Events::Create() {
  const locks::MutexLock lock(&mutex_);
  const std::uint64_t name = names_.Next();
  positions_[name] = QueuePosition();
  return {.id = name};
}

absl::Status Events::Destroy(Event event) {
  const locks::MutexLock lock(&mutex_);
  return positions_.erase(event.id) == 1 ? absl::OkStatus() : NoEvent(event);
}

absl::Status Events::Set(Event event, QueuePosition position) {
  const locks::MutexLock lock(&mutex_);
  const auto found = positions_.find(event.id);
  if (found == positions_.end()) return NoEvent(event);
  found->second = std::move(position);
  return absl::OkStatus();
}

absl::StatusOr<QueuePosition> Events::Get(Event event) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = positions_.find(event.id);
  if (found == positions_.end()) return NoEvent(event);
  return found->second;
}

absl::StatusOr<QueuePosition> Events::GetOfAny(Event event) const {
  absl::StatusOr<QueuePosition> own = Get(event);
  if (own.ok()) return own;
  return EventPeers::OfProcess().Ask([&](const Events& other) { return other.Get(event); },
                                     std::move(own));
}

}  // namespace tidepool::host
