// SPDX-License-Identifier: Apache-2.0
// An event with an owner.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_OWNED_EVENT_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_OWNED_EVENT_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"

namespace tidepool::device {

// Destroys its event with itself. Empty by default. The device outlives it. Work that was told to
// wait for the event still waits for it.
class OwnedEvent {
 public:
  static absl::StatusOr<OwnedEvent> Create(Device& device, EventKind kind = EventKind::kOrder) {
    const absl::StatusOr<Event> event = device.CreateEvent(kind);
    if (!event.ok()) return event.status();
    return OwnedEvent(device, *event);
  }
  // Returns an event recorded after the work that is queued on `stream` now.
  static absl::StatusOr<OwnedEvent> Record(Device& device, Stream stream) {
    absl::StatusOr<OwnedEvent> event = Create(device);
    if (!event.ok()) return event;
    if (absl::Status status = device.RecordEvent(event->get(), stream); !status.ok()) return status;
    return event;
  }

  OwnedEvent() = default;
  ~OwnedEvent() {
    // An event that the device refuses to destroy is lost: no caller could act on the error.
    if (!is_empty()) device_->DestroyEvent(event_).IgnoreError();
  }
  OwnedEvent(OwnedEvent&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), event_(std::exchange(other.event_, {})) {}
  OwnedEvent& operator=(OwnedEvent&& other) noexcept {
    OwnedEvent taken = std::move(other);
    std::swap(device_, taken.device_);
    std::swap(event_, taken.event_);
    return *this;
  }

  // Creates the event if it is empty.
  absl::Status Ensure(Device& device, EventKind kind = EventKind::kOrder) {
    if (!is_empty()) return absl::OkStatus();
    absl::StatusOr<OwnedEvent> created = Create(device, kind);
    if (created.ok()) *this = *std::move(created);
    return created.status();
  }
  bool is_empty() const { return device_ == nullptr; }
  // Returns Event() if it is empty.
  Event get() const { return event_; }

 private:
  OwnedEvent(Device& device, Event event) : device_(&device), event_(event) {}

  Device* device_ = nullptr;
  Event event_;
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_OWNED_EVENT_H_
