// SPDX-License-Identifier: Apache-2.0
// Native events: recordings in use, and idle events that are used again.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_RECORDINGS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_RECORDINGS_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
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

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_RECORDINGS_H_
