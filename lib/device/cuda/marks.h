// Native events: recordings in use, and idle events that are used again.
#ifndef TIDEPOOL_LIB_DEVICE_CUDA_MARKS_H_
#define TIDEPOOL_LIB_DEVICE_CUDA_MARKS_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidepool::cuda {

// Keeps idle native events for later use. Thread-safe. The device is current in every call.
class EventPool {
 public:
  EventPool() = default;
  // Destroys the idle events. All events have come back by then.
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  absl::StatusOr<cudaEvent_t> Take();
  void Return(cudaEvent_t event);

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> idle_;
};

// A native event that was recorded once. It is not recorded again while it is shared, so a waiter
// keeps the recording that it found.
class Mark {
 public:
  Mark(EventPool* pool, cudaEvent_t event) : pool_(*pool), event_(event) {}
  ~Mark() { pool_.Return(event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  cudaEvent_t event() const { return event_; }

 private:
  EventPool& pool_;
  const cudaEvent_t event_;
};

// A recording, or null: work that has finished.
using SharedMark = std::shared_ptr<Mark>;

absl::StatusOr<SharedMark> TakeMark(EventPool& pool);
absl::Status RecordMark(const Mark& mark, cudaStream_t stream);
absl::StatusOr<bool> IsOver(const SharedMark& mark);

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_DEVICE_CUDA_MARKS_H_
