// SPDX-License-Identifier: Apache-2.0
// A lane for the copies of one direction: a stream, a ring of slots, and an event for each slot.
#ifndef TIDEPOOL_LIB_COPIES_PIPELINE_COPY_LANE_H_
#define TIDEPOOL_LIB_COPIES_PIPELINE_COPY_LANE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/memory/device/owned.h"
#include "tidepool/device.h"
#include "tidepool/staging_ring.h"

namespace tidepool::pipeline {

// At most one thread at a time calls functions other than Wait and IsBroken.
class CopyLane {
 public:
  static absl::StatusOr<std::unique_ptr<CopyLane>> Create(Device& device, PinnedPool& staging,
                                                          CopyDirection direction,
                                                          const StagingRingOptions& options);
  // No copy is in flight when it is destroyed.
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  // Keeps the next slot of the ring for TakeSlot. Returns false as long as none is free.
  bool EnsureSlot();
  StagingSlot TakeSlot();
  void ReleaseSlot(const StagingSlot& slot);

  // Makes copies that are queued from now on wait for the work before `gate`.
  absl::Status WaitFor(Event gate) { return device_.WaitEvent(stream_.get(), gate); }
  // Queues a copy of `bytes` bytes between the slot and the device. Sets `is_queued` when a copy
  // was queued, even if an error followed: then it must be waited for.
  absl::Status Copy(const StagingSlot& slot, std::byte* device_memory, std::int64_t bytes,
                    bool& is_queued);
  // Returns whether the copy that was queued last for the slot is known to have finished.
  bool HasFinished(const StagingSlot& slot) const;
  // Waits for the copy that was queued last for the slot. After an error too, no copy accesses the
  // slot any more, unless IsBroken. Thread-safe.
  absl::Status Wait(const StagingSlot& slot);
  // Returns whether the device failed repeatedly when it was asked about its copies. Then they may
  // still access memory. Thread-safe.
  bool IsBroken() const { return is_broken_.load(std::memory_order_acquire); }

 private:
  CopyLane(Device& device, CopyDirection direction) : device_(device), direction_(direction) {}
  Event EventOf(const StagingSlot& slot) const {
    return events_[static_cast<std::size_t>(slot.index)].get();
  }
  bool IsRecorded(const StagingSlot& slot) const {
    return is_recorded_[static_cast<std::size_t>(slot.index)] != 0;
  }
  // Waits, after an error, until no copy is in flight.
  void Drain();

  Device& device_;
  const CopyDirection direction_;
  device::OwnedStream stream_;
  std::unique_ptr<StagingRing> ring_;
  std::vector<device::OwnedEvent> events_;  // by slot
  // By slot: whether the event was recorded after the slot's last copy. Not a vector of bits: a
  // thread may read the element of a slot while another thread writes that of another slot (race).
  std::vector<char> is_recorded_;
  std::optional<StagingSlot> next_;
  std::atomic<bool> is_broken_ = false;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_COPIES_PIPELINE_COPY_LANE_H_
