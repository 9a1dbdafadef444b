// SPDX-License-Identifier: Apache-2.0
// An event is a variable, and a position is its value. A waiter copies the value, so recording the
// event again does not affect it.
#include "lib/memory/device/host/events.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/peers.h"

namespace tidepool::host {
namespace {

absl::Status NoEvent(Event event) {
  return absl::NotFoundError(absl::StrCat("the device has no event ", event.id));
}

using EventPeers = device::Peers<Events>;

}  // namespace

Events::Events() { EventPeers::OfProcess().Add(this); }

Events::~Events() { EventPeers::OfProcess().Remove(this); }

Event Events::Create(EventKind kind) {
  const locks::MutexLock lock(&mutex_);
  const std::uint64_t name = names_.Next();
  states_[name].kind = kind;
  return {.id = name};
}

absl::Status Events::Destroy(Event event) {
  const locks::MutexLock lock(&mutex_);
  return states_.erase(event.id) == 1 ? absl::OkStatus() : NoEvent(event);
}

absl::StatusOr<EventKind> Events::KindOf(Event event) const {
  const absl::StatusOr<State> state = Find(event);
  if (!state.ok()) return state.status();
  return state->kind;
}

absl::Status Events::Set(Event event, QueuePosition position,
                         std::shared_ptr<const ReachedTime> reached) {
  const locks::MutexLock lock(&mutex_);
  const auto found = states_.find(event.id);
  if (found == states_.end()) return NoEvent(event);
  found->second.position = std::move(position);
  found->second.reached = std::move(reached);
  return absl::OkStatus();
}

absl::StatusOr<QueuePosition> Events::Get(Event event) const {
  absl::StatusOr<State> state = Find(event);
  if (!state.ok()) return state.status();
  return std::move(state->position);
}

absl::StatusOr<WorkQueue::Clock::time_point> Events::TimeOf(Event event) const {
  const absl::StatusOr<State> state = Find(event);
  if (!state.ok()) return state.status();
  if (state->reached != nullptr && state->position.IsReached()) return state->reached->time;
  return absl::FailedPreconditionError(
      absl::StrCat("event ", event.id, " has no time, expected a timed event that was reached"));
}

absl::StatusOr<Events::State> Events::Find(Event event) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = states_.find(event.id);
  if (found == states_.end()) return NoEvent(event);
  return found->second;
}

absl::StatusOr<QueuePosition> Events::GetOfAny(Event event) const {
  absl::StatusOr<QueuePosition> own = Get(event);
  if (own.ok()) return own;
  return EventPeers::OfProcess().Ask([&](const Events& other) { return other.Get(event); },
                                     std::move(own));
}

}  // namespace tidepool::host
