// SPDX-License-Identifier: Apache-2.0
// Events that are used again: creating an event costs a call of the driver.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_EVENT_POOL_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_EVENT_POOL_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/device.h"

namespace tidepool::offload {

class EventPool;

// An event that goes back to its pool on destruction. Empty by default.
class PooledEvent {
 public:
  PooledEvent() = default;
  PooledEvent(EventPool* pool, Event event) : pool_(pool), event_(event) {}
  ~PooledEvent();
  PooledEvent(PooledEvent&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), event_(std::exchange(other.event_, {})) {}
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(event_, other.event_);
    return *this;
  }

  Event get() const { return event_; }

 private:
  EventPool* pool_ = nullptr;
  Event event_;
};

// Events of a kind. Thread-safe. Outlives its events.
class EventPool {
 public:
  EventPool(Device& device, EventKind kind) : device_(device), kind_(kind) {}
  ~EventPool() {
    // An event that the device refuses to destroy is lost: no caller could act on the error.
    for (const Event event : free_) device_.DestroyEvent(event).IgnoreError();
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Returns a free event, or creates one; the device's error when it cannot.
  absl::StatusOr<PooledEvent> Take() {
    if (const std::optional<Event> event = TakeFree()) return PooledEvent(this, *event);
    const absl::StatusOr<Event> event = device_.CreateEvent(kind_);
    if (!event.ok()) return event.status();
    return PooledEvent(this, *event);
  }
  // Returns an event recorded after the work that is queued on `stream` now.
  absl::StatusOr<PooledEvent> Record(Stream stream) {
    absl::StatusOr<PooledEvent> event = Take();
    if (!event.ok()) return event;
    if (absl::Status status = device_.RecordEvent(event->get(), stream); !status.ok()) {
      return status;
    }
    return event;
  }
  void Return(Event event) {
    const locks::MutexLock lock(&mutex_);
    free_.push_back(event);
  }

 private:
  std::optional<Event> TakeFree() {
    const locks::MutexLock lock(&mutex_);
    if (free_.empty()) return std::nullopt;
    const Event event = free_.back();
    free_.pop_back();
    return event;
  }

  Device& device_;
  const EventKind kind_;
  locks::Mutex mutex_;
  std::vector<Event> free_ ABSL_GUARDED_BY(mutex_);
};

inline PooledEvent::~PooledEvent() {
  if (pool_ != nullptr) pool_->Return(event_);
}

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_EVENT_POOL_H_
