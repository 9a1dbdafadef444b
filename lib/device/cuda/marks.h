// Marks: native events in use, and those that wait for use.
#ifndef TIDEPOOL_LIB_DEVICE_CUDA_MARKS_H_
#define TIDEPOOL_LIB_DEVICE_CUDA_MARKS_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidepool::cuda {

// Keeps native events for the next who needs one. Thread-safe. The device is current in every call.
class EventPool {
 public:
  EventPool() = default;
  // When all have come back.
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  absl::StatusOr<cudaEvent_t> Take();
  void Return(cudaEvent_t event);

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> idle_;
};

// What was recorded once. It is never recorded anew as long as several have it, so who waits keeps
// what it found.
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

// Null stands for nothing: what is over.
using SharedMark = std::shared_ptr<Mark>;

absl::StatusOr<SharedMark> TakeMark(EventPool& pool);
absl::Status RecordMark(const Mark& mark, cudaStream_t stream);
absl::StatusOr<bool> IsOver(const SharedMark& mark);

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_DEVICE_CUDA_MARKS_H_
