// One direction of copies: a stream, a ring of slots and an event a slot.
#ifndef TIDEPOOL_LIB_PIPELINE_COPY_LANE_H_
#define TIDEPOOL_LIB_PIPELINE_COPY_LANE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/host/staging_ring.h"

namespace tidepool::pipeline {

// All but Wait is called by one thread at a time.
class CopyLane {
 public:
  static absl::StatusOr<std::unique_ptr<CopyLane>> Create(Device& device, PinnedPool& staging,
                                                          CopyDirection direction,
                                                          const StagingRingOptions& options);
  // Nothing is under way.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  // Whether the slot whose turn it is is free.
  bool HasSlot();
  StagingSlot TakeSlot();
  void ReleaseSlot(const StagingSlot& slot);

  // Lets copies that are queued from here on wait for what `gate` stands for.
  absl::Status WaitFor(Event gate) { return device_.WaitEvent(stream_, gate); }
  // Queues a copy of `bytes` bytes between the slot and the device. `is_under_way`: whether one was
  // queued, be it with an error, and is to be waited for.
  absl::Status Copy(const StagingSlot& slot, std::byte* device_memory, std::int64_t bytes,
                    bool& is_under_way);
  // Whether the copy that was queued last for the slot is known to be over.
  bool IsOver(const StagingSlot& slot) const;
  // Waits for the copy that was queued last for the slot. After an error nothing uses the slot,
  // unless IsBroken. Thread-safe.
  absl::Status Wait(const StagingSlot& slot);
  // The device failed, and failed again when it was asked once more: nobody knows what its copies
  // still do. Thread-safe.
  bool IsBroken() const { return is_broken_.load(std::memory_order_acquire); }

 private:
  CopyLane(Device& device, CopyDirection direction) : device_(device), direction_(direction) {}
  Event EventOf(const StagingSlot& slot) const {
    return events_[static_cast<std::size_t>(slot.index)];
  }
  bool IsMarked(const StagingSlot& slot) const {
    return is_marked_[static_cast<std::size_t>(slot.index)] != 0;
  }
  // After an error: waits until nothing is under way any more.
  void Drain();

  Device& device_;
  const CopyDirection direction_;
  Stream stream_;
  std::unique_ptr<StagingRing> ring_;
  std::vector<Event> events_;  // one a slot
  // Whether it stands for the copy that was queued last for the slot. No vector of bits: threads
  // look at one slot while others copy to another.
  std::vector<char> is_marked_;
  std::optional<StagingSlot> next_;
  std::atomic<bool> is_broken_ = false;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_PIPELINE_COPY_LANE_H_
