// SPDX-License-Identifier: Apache-2.0
// The events of a device, by name, and the recorded native event of each.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_EVENTS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_EVENTS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/cuda/recordings.h"
#include "lib/memory/device/name_source.h"
#include "tidepool/device.h"

namespace tidepool::cuda {

// Thread-safe. The pools outlive it. All functions answer NotFound for an unknown event.
class CudaEvents {
 public:
  explicit CudaEvents(NativeEventPools* pools);
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  Event Create(EventKind kind);
  absl::Status Destroy(Event event);
  // Calls `record` with a native event that is in no other use. If it succeeds, the event stands
  // for that recording from then on.
  template <typename Function>
  absl::Status Set(Event event, Function record) {
    const absl::StatusOr<std::shared_ptr<State>> state = Find(event);
    if (!state.ok()) return state.status();
    const locks::MutexLock lock(&(*state)->mutex);
    SharedRecording& current = (*state)->recording;
    const bool is_own = current != nullptr && current->kind() == (*state)->pool.kind();
    if (is_own && current.use_count() == 1) return record(*current);
    absl::StatusOr<SharedRecording> fresh = MakeRecording((*state)->pool);
    if (!fresh.ok()) return fresh.status();
    absl::Status status = record(**fresh);
    if (status.ok()) current = *std::move(fresh);
    return status;
  }
  // Lets the event stand for a recording that other events may share.
  absl::Status SetShared(Event event, SharedRecording recording);
  absl::StatusOr<SharedRecording> Get(Event event) const;
  // Returns the same, also for an event of another CUDA device.
  absl::StatusOr<SharedRecording> GetOfAny(Event event) const;

 private:
  struct State {
    explicit State(NativeEventPool& its_pool) : pool(its_pool) {}

    NativeEventPool& pool;
    locks::Mutex mutex;
    SharedRecording recording ABSL_GUARDED_BY(mutex);
  };

  absl::StatusOr<std::shared_ptr<State>> Find(Event event) const;

  NativeEventPools& pools_;
  mutable locks::Mutex mutex_;
  device::NameSource names_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint64_t, std::shared_ptr<State>> states_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_EVENTS_H_
