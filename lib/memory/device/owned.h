// SPDX-License-Identifier: Apache-2.0
// Events and streams with an owner.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_OWNED_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_OWNED_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"

namespace tidepool::device {

// Destroys its event or stream with itself. Empty by default. The device outlives it.
template <typename Name, absl::Status (Device::*kDestroy)(Name)>
class Owned {
 public:
  Owned() = default;
  // Takes `name` of `device` over.
  Owned(Device& device, Name name) : device_(&device), name_(name) {}
  ~Owned() {
    // A name that the device refuses to destroy is lost: no caller could act on the error.
    if (!is_empty()) (device_->*kDestroy)(name_).IgnoreError();
  }
  Owned(Owned&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), name_(std::exchange(other.name_, {})) {}
  Owned& operator=(Owned&& other) noexcept {
    Owned taken = std::move(other);
    std::swap(device_, taken.device_);
    std::swap(name_, taken.name_);
    return *this;
  }

  bool is_empty() const { return device_ == nullptr; }
  // Returns Name() if it is empty.
  Name get() const { return name_; }

 private:
  Device* device_ = nullptr;
  Name name_;
};

// Work that was told to wait for the event still waits for it after its end.
class OwnedEvent : public Owned<Event, &Device::DestroyEvent> {
 public:
  using Owned::Owned;
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

  // Creates the event if it is empty.
  absl::Status Ensure(Device& device, EventKind kind = EventKind::kOrder) {
    if (!is_empty()) return absl::OkStatus();
    absl::StatusOr<OwnedEvent> created = Create(device, kind);
    if (created.ok()) *this = *std::move(created);
    return created.status();
  }
};

// Does not wait: work that was queued on the stream still runs after its end.
class OwnedStream : public Owned<Stream, &Device::DestroyStream> {
 public:
  using Owned::Owned;
  static absl::StatusOr<OwnedStream> Create(Device& device) {
    const absl::StatusOr<Stream> stream = device.CreateStream();
    if (!stream.ok()) return stream.status();
    return OwnedStream(device, *stream);
  }
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_OWNED_H_
