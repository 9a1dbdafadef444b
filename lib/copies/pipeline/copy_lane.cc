// SPDX-License-Identifier: Apache-2.0
// Copies of one direction: queued on a stream, waited for by the event of their slot.
#include "lib/copies/pipeline/copy_lane.h"

#include <utility>

namespace tidepool::pipeline {

absl::StatusOr<std::unique_ptr<CopyLane>> CopyLane::Create(Device& device, PinnedPool& staging,
                                                           CopyDirection direction,
                                                           const StagingRingOptions& options) {
  std::unique_ptr<CopyLane> lane(new CopyLane(device, direction));
  auto ring = StagingRing::Create(&staging, options);
  if (!ring.ok()) return ring.status();
  lane->ring_ = *std::move(ring);
  absl::StatusOr<device::OwnedStream> stream = device::OwnedStream::Create(device);
  if (!stream.ok()) return stream.status();
  lane->stream_ = *std::move(stream);
  for (std::int64_t i = 0; i < options.slots; ++i) {
    absl::StatusOr<device::OwnedEvent> event =
        device::OwnedEvent::Create(device, EventKind::kWaited);
    if (!event.ok()) return event.status();
    lane->events_.push_back(*std::move(event));
  }
  lane->is_recorded_.resize(lane->events_.size());
  return lane;
}

bool CopyLane::EnsureSlot() {
  if (!next_.has_value()) {
    const absl::StatusOr<StagingSlot> slot = ring_->Acquire(absl::InfinitePast());
    if (slot.ok()) next_ = *slot;
  }
  return next_.has_value();
}

StagingSlot CopyLane::TakeSlot() { return *std::exchange(next_, std::nullopt); }

void CopyLane::ReleaseSlot(const StagingSlot& slot) { ring_->Release(slot.index).IgnoreError(); }

absl::Status CopyLane::Copy(const StagingSlot& slot, std::byte* device_memory, std::int64_t bytes,
                            bool& is_queued) {
  const bool is_to_device = direction_ == CopyDirection::kToDevice;
  std::byte* const to = is_to_device ? device_memory : slot.data;
  const std::byte* const from = is_to_device ? slot.data : device_memory;
  absl::Status status = device_.Copy(to, from, bytes, direction_, stream_.get());
  is_queued = status.ok();
  if (!status.ok()) return status;
  status = device_.RecordEvent(EventOf(slot), stream_.get());
  // Without an event, Wait must drain the whole stream. Copies that were queued later may then wait
  // for the result of this copy (deadlock), so the event is recorded again after an error.
  const bool is_recorded = status.ok() || device_.RecordEvent(EventOf(slot), stream_.get()).ok();
  is_recorded_[static_cast<std::size_t>(slot.index)] = is_recorded ? 1 : 0;
  return status;
}

bool CopyLane::HasFinished(const StagingSlot& slot) const {
  // Wait reports errors of the device.
  return IsRecorded(slot) && device_.QueryEvent(EventOf(slot)).value_or(false);
}

absl::Status CopyLane::Wait(const StagingSlot& slot) {
  if (!IsRecorded(slot)) {
    Drain();
    return absl::OkStatus();
  }
  absl::Status status = device_.SynchronizeEvent(EventOf(slot));
  if (!status.ok() && !device_.SynchronizeEvent(EventOf(slot)).ok()) Drain();
  return status;
}

void CopyLane::Drain() {
  constexpr int kTimes = 2;
  for (int i = 0; i < kTimes; ++i) {
    if (device_.SynchronizeStream(stream_.get()).ok()) return;
  }
  is_broken_.store(true, std::memory_order_release);
}

}  // namespace tidepool::pipeline
