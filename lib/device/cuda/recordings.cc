// SPDX-License-Identifier: Apache-2.0
// Creates native events without timing, and keeps them until the pool is destroyed.
#include "lib/device/cuda/recordings.h"

#include "lib/device/cuda/cuda_error.h"
#include "lib/device/cuda/driver.h"

namespace tidepool::cuda {
namespace {

// Returns the driver's functions that record a context, or null where it lacks them.
const ContextDriver* FindContextDriver() {
  static const absl::StatusOr<ContextDriver> driver = ContextDriver::Load();
  return driver.ok() ? &*driver : nullptr;
}

}  // namespace

NativeEventPool::~NativeEventPool() {
  for (const cudaEvent_t event : idle_) {
    TryTwice([&] { return cudaEventDestroy(event); });
  }
}

absl::StatusOr<cudaEvent_t> NativeEventPool::Take() {
  {
    const locks::MutexLock lock(&mutex_);
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

void NativeEventPool::Return(cudaEvent_t event) {
  const locks::MutexLock lock(&mutex_);
  idle_.push_back(event);
}

absl::StatusOr<SharedRecording> MakeRecording(NativeEventPool& pool) {
  const absl::StatusOr<cudaEvent_t> event = pool.Take();
  if (!event.ok()) return event.status();
  return std::make_shared<Recording>(&pool, *event);
}

absl::Status Record(const Recording& recording, cudaStream_t stream) {
  return Check(cudaEventRecord(recording.event(), stream), "cudaEventRecord", recording.event(),
               stream);
}

absl::Status RecordAll(const Recording& recording) {
  const ContextDriver* const driver = FindContextDriver();
  if (driver == nullptr) return Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  CUcontext context = nullptr;
  const CUresult got = driver->get_current(&context);
  if (got != CUDA_SUCCESS) return Check(static_cast<cudaError_t>(got), "cuCtxGetCurrent");
  return Check(static_cast<cudaError_t>(driver->record_event(context, recording.event())),
               "cuCtxRecordEvent", context, recording.event());
}

absl::StatusOr<bool> HasFinished(const SharedRecording& recording) {
  if (recording == nullptr) return true;
  const cudaError_t error = cudaEventQuery(recording->event());
  if (error == cudaSuccess) return true;
  if (error != cudaErrorNotReady) return Check(error, "cudaEventQuery", recording->event());
  static_cast<void>(cudaGetLastError());  // drivers before 580 keep it as the last error
  return false;
}

}  // namespace tidepool::cuda
