// SPDX-License-Identifier: Apache-2.0
// Keeps native events until their pool is destroyed. Guards each event by a lock of its own:
// recording calls CUDA, and must not block other events.
#include "lib/memory/device/cuda/cuda_events.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/cuda/cuda_error.h"
#include "lib/memory/device/cuda/driver.h"
#include "lib/memory/device/peers.h"

namespace tidepool::cuda {
namespace {

// Returns the driver's functions that record a context, or null where it lacks them.
const ContextDriver* FindContextDriver() {
  static const absl::StatusOr<ContextDriver> driver = ContextDriver::Load();
  return driver.ok() ? &*driver : nullptr;
}

constexpr unsigned FlagsOf(EventKind kind) {
  switch (kind) {
    case EventKind::kOrder:
      break;
    case EventKind::kWaited:
      return cudaEventDisableTiming | cudaEventBlockingSync;
    case EventKind::kTimed:
      return cudaEventDefault;
  }
  return cudaEventDisableTiming;
}

bool IsTimed(const SharedRecording& recording) {
  return recording != nullptr && recording->kind() == EventKind::kTimed;
}

absl::Status NoEvent(Event event) {
  return absl::NotFoundError(absl::StrCat("the device has no event ", event.id));
}

using CudaEventPeers = device::Peers<CudaEvents>;

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
  const unsigned flags = FlagsOf(kind_);
  absl::Status status =
      Check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags", flags);
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

absl::StatusOr<SharedRecording> RecordAll(NativeEventPool& pool) {
  const ContextDriver* const driver = FindContextDriver();
  if (driver == nullptr) {
    absl::Status status = Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (!status.ok()) return status;
    return SharedRecording();
  }
  absl::StatusOr<SharedRecording> all = MakeRecording(pool);
  if (!all.ok()) return all;
  const absl::StatusOr<CUcontext> context = BindContext(driver->get_current);
  if (!context.ok()) return context.status();
  absl::Status status =
      Check(static_cast<cudaError_t>(driver->record_event(*context, (*all)->event())),
            "cuCtxRecordEvent", *context, (*all)->event());
  if (!status.ok()) return status;
  return all;
}

absl::StatusOr<bool> HasFinished(const SharedRecording& recording) {
  if (recording == nullptr) return true;
  const cudaError_t error = cudaEventQuery(recording->event());
  if (error == cudaSuccess) return true;
  if (error != cudaErrorNotReady) return Check(error, "cudaEventQuery", recording->event());
  static_cast<void>(cudaGetLastError());  // drivers before 580 keep it as the last error
  return false;
}

absl::StatusOr<double> SecondsBetween(const SharedRecording& first, const SharedRecording& second) {
  const absl::Status no_time = absl::FailedPreconditionError(
      "an event has no time, expected timed events that were reached");
  if (!IsTimed(first) || !IsTimed(second)) return no_time;
  float milliseconds = 0;
  const cudaError_t error = cudaEventElapsedTime(&milliseconds, first->event(), second->event());
  if (error == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return no_time;
  }
  absl::Status status = Check(error, "cudaEventElapsedTime", first->event(), second->event());
  if (!status.ok()) return status;
  return static_cast<double>(milliseconds) / 1e3;
}

CudaEvents::CudaEvents(NativeEventPools* pools) : pools_(*pools) {
  CudaEventPeers::OfProcess().Add(this);
}

CudaEvents::~CudaEvents() { CudaEventPeers::OfProcess().Remove(this); }

Event CudaEvents::Create(EventKind kind) {
  const locks::MutexLock lock(&mutex_);
  const std::uint64_t name = names_.Next();
  states_.emplace(name, std::make_shared<State>(pools_.of(kind)));
  return {.id = name};
}

absl::Status CudaEvents::Destroy(Event event) {
  const locks::MutexLock lock(&mutex_);
  return states_.erase(event.id) == 1 ? absl::OkStatus() : NoEvent(event);
}

absl::Status CudaEvents::SetShared(Event event, SharedRecording recording) {
  const absl::StatusOr<std::shared_ptr<State>> state = Find(event);
  if (!state.ok()) return state.status();
  const locks::MutexLock lock(&(*state)->mutex);
  (*state)->recording = std::move(recording);
  return absl::OkStatus();
}

absl::StatusOr<SharedRecording> CudaEvents::Get(Event event) const {
  const absl::StatusOr<std::shared_ptr<State>> state = Find(event);
  if (!state.ok()) return state.status();
  const locks::MutexLock lock(&(*state)->mutex);
  return (*state)->recording;
}

absl::StatusOr<SharedRecording> CudaEvents::GetOfAny(Event event) const {
  absl::StatusOr<SharedRecording> own = Get(event);
  if (own.ok()) return own;
  return CudaEventPeers::OfProcess().Ask([&](const CudaEvents& other) { return other.Get(event); },
                                         std::move(own));
}

absl::StatusOr<std::shared_ptr<CudaEvents::State>> CudaEvents::Find(Event event) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = states_.find(event.id);
  if (found == states_.end()) return NoEvent(event);
  return found->second;
}

}  // namespace tidepool::cuda
