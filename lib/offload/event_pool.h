// Events that are used again: to create one costs a call of the driver.
#ifndef TIDEPOOL_LIB_OFFLOAD_EVENT_POOL_H_
#define TIDEPOOL_LIB_OFFLOAD_EVENT_POOL_H_

#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"

namespace tidepool::offload {

class EventPool;

// An event of a pool, which has it back in the end. Empty when default-made.
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

// Thread-safe. Outlives its events.
class EventPool {
 public:
  explicit EventPool(Device& device) : device_(device) {}
  ~EventPool() {
    // What the device does not take back is its own loss.
    for (const Event event : free_) device_.DestroyEvent(event).IgnoreError();
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  absl::StatusOr<PooledEvent> Take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        const Event event = free_.back();
        free_.pop_back();
        return PooledEvent(this, event);
      }
    }
    const absl::StatusOr<Event> event = device_.CreateEvent();
    if (!event.ok()) return event.status();
    return PooledEvent(this, *event);
  }
  // One that marks what is queued on `stream` so far.
  absl::StatusOr<PooledEvent> Record(Stream stream) {
    absl::StatusOr<PooledEvent> event = Take();
    if (!event.ok()) return event;
    if (absl::Status status = device_.RecordEvent(event->get(), stream); !status.ok()) {
      return status;
    }
    return event;
  }
  void Return(Event event) {
    const std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<Event> free_;
};

inline PooledEvent::~PooledEvent() {
  if (pool_ != nullptr) pool_->Return(event_);
}

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_OFFLOAD_EVENT_POOL_H_
