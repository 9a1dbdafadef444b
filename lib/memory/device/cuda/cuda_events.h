// SPDX-License-Identifier: Apache-2.0
// The events of a device by name, the native event that each stands for, and idle native events
// that are used again.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_EVENTS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_EVENTS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/name_source.h"
#include "tidepool/device.h"

namespace tidepool::cuda {

// Keeps idle native events of a kind for later use. Thread-safe. The device is current in every
// call.
class NativeEventPool {
 public:
  explicit NativeEventPool(EventKind kind) : kind_(kind) {}
  // Destroys the idle events. All events have come back by then.
  ~NativeEventPool();
  NativeEventPool(const NativeEventPool&) = delete;
  NativeEventPool& operator=(const NativeEventPool&) = delete;

  absl::StatusOr<cudaEvent_t> Take();
  void Return(cudaEvent_t event);
  EventKind kind() const { return kind_; }

 private:
  const EventKind kind_;
  locks::Mutex mutex_;
  std::vector<cudaEvent_t> idle_ ABSL_GUARDED_BY(mutex_);
};

struct NativeEventPools {
  NativeEventPool& of(EventKind kind) {
    return kind == EventKind::kOrder ? order : kind == EventKind::kWaited ? waited : timed;
  }

  NativeEventPool order{EventKind::kOrder};
  NativeEventPool waited{EventKind::kWaited};
  NativeEventPool timed{EventKind::kTimed};
};

// A native event that was recorded once. It is not recorded again while it is shared, so a waiter
// keeps the recording that it found.
class Recording {
 public:
  Recording(NativeEventPool* pool, cudaEvent_t event) : pool_(*pool), event_(event) {}
  ~Recording() { pool_.Return(event_); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  cudaEvent_t event() const { return event_; }
  EventKind kind() const { return pool_.kind(); }

 private:
  NativeEventPool& pool_;
  const cudaEvent_t event_;
};

// A recording, or null: work that has finished.
using SharedRecording = std::shared_ptr<Recording>;

absl::StatusOr<SharedRecording> MakeRecording(NativeEventPool& pool);
absl::Status Record(const Recording& recording, cudaStream_t stream);
// Records the work of all streams of the current device. A driver older than 12.5 cannot: then it
// waits for the device, and returns null. An error, and the end of the captures, while a stream
// captures.
absl::StatusOr<SharedRecording> RecordAll(NativeEventPool& pool);
absl::StatusOr<bool> HasFinished(const SharedRecording& recording);
// FailedPrecondition unless both are of kind kTimed and have finished.
absl::StatusOr<double> SecondsBetween(const SharedRecording& first, const SharedRecording& second);

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
