// The events of a device, by name, and the recorded native event of each.
#ifndef TIDEPOOL_LIB_DEVICE_CUDA_CUDA_EVENTS_H_
#define TIDEPOOL_LIB_DEVICE_CUDA_CUDA_EVENTS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/cuda/marks.h"
#include "lib/device/names.h"
#include "tidepool/device.h"

namespace tidepool::cuda {

// Thread-safe. The pool outlives it. All functions answer NotFound for an unknown event.
class CudaEvents {
 public:
  explicit CudaEvents(EventPool* pool) : pool_(*pool) {}

  Event Create();
  absl::Status Destroy(Event event);
  // Calls `record` with a native event that is in no other use. If it succeeds, the event stands
  // for that recording from then on.
  template <typename Record>
  absl::Status Set(Event event, Record record) {
    const absl::StatusOr<std::shared_ptr<State>> state = Find(event);
    if (!state.ok()) return state.status();
    const std::lock_guard lock((*state)->mutex);
    SharedMark& current = (*state)->mark;
    if (current != nullptr && current.use_count() == 1) return record(*current);
    absl::StatusOr<SharedMark> fresh = TakeMark(pool_);
    if (!fresh.ok()) return fresh.status();
    absl::Status status = record(**fresh);
    if (status.ok()) current = *std::move(fresh);
    return status;
  }
  // Lets the event stand for a recording that other events may share.
  absl::Status SetShared(Event event, SharedMark mark);
  absl::StatusOr<SharedMark> Get(Event event) const;

 private:
  struct State {
    std::mutex mutex;
    SharedMark mark;
  };

  absl::StatusOr<std::shared_ptr<State>> Find(Event event) const;

  EventPool& pool_;
  mutable std::mutex mutex_;
  device::Names names_;
  absl::flat_hash_map<std::uint64_t, std::shared_ptr<State>> states_;
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_DEVICE_CUDA_CUDA_EVENTS_H_
