// Creates native events without timing, and keeps them until the pool is destroyed.
#include "lib/device/cuda/marks.h"

#include "lib/device/cuda/cuda_error.h"

namespace tidepool::cuda {

EventPool::~EventPool() {
  for (const cudaEvent_t event : idle_) {
    TryTwice([&] { return cudaEventDestroy(event); });
  }
}

absl::StatusOr<cudaEvent_t> EventPool::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      const cudaEvent_t event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  absl::Status status = Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                              "cudaEventCreateWithFlags", "cudaEventDisableTiming");
  if (!status.ok()) return status;
  return event;
}

void EventPool::Return(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(event);
}

absl::StatusOr<SharedMark> TakeMark(EventPool& pool) {
  const absl::StatusOr<cudaEvent_t> event = pool.Take();
  if (!event.ok()) return event.status();
  return std::make_shared<Mark>(&pool, *event);
}

absl::Status RecordMark(const Mark& mark, cudaStream_t stream) {
  return Check(cudaEventRecord(mark.event(), stream), "cudaEventRecord", mark.event(), stream);
}

absl::StatusOr<bool> IsOver(const SharedMark& mark) {
  if (mark == nullptr) return true;
  const cudaError_t error = cudaEventQuery(mark->event());
  if (error == cudaSuccess) return true;
  absl::Status status = Check(error, "cudaEventQuery", mark->event());
  if (error == cudaErrorNotReady) return false;
  return status;
}

}  // namespace tidepool::cuda
