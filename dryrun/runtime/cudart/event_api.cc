// SPDX-License-Identifier: Apache-2.0
// Events. A recording is an event of the host device, which knows its time. Where work has assumed
// times, these are the clock: programs that choose by measured times then choose the same in each
// run.
#include <cuda_runtime_api.h>
#include <pthread.h>

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/errors.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {
namespace {

constexpr unsigned kEventFlags =
    cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

// The assumed time of a record with timing: no interval of the clock is empty.
constexpr std::int64_t kRecordNanoseconds = 1000;

std::shared_ptr<EventState> Find(Runtime& runtime, cudaEvent_t handle) {
  return runtime.events.Find(reinterpret_cast<std::uintptr_t>(handle)).value_or(nullptr);
}

std::shared_ptr<Recorded> LastOf(EventState& event) {
  const locks::MutexLock lock(&event.mutex);
  return event.last;
}

// Returns whether the calling thread is PyTorch's watchdog. It asks each 0.1 s whether collectives
// have ended, to let go of their tensors, so the answer must not depend on the pace of this host.
bool IsWatchdog() {
  static thread_local const bool is_watchdog = [] {
    std::array<char, 16> name = {};
    return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
           std::string_view(name.data()) == "pt_nccl_watchdg";
  }();
  return is_watchdog;
}

// A host that launches nothing while it is asked is no longer ahead of its device: it waits for
// something else, or ends.
bool HasEndedForWatchdog(EventState& event, Recorded& recorded) {
  constexpr int kQuestions = 10;
  const DeviceClock& clock = event.device->clock();
  if (clock.HasEndedForHost(recorded.assumed_ns)) return true;
  const std::int64_t launches = clock.launches();
  const locks::MutexLock lock(&event.mutex);
  recorded.questions = launches == recorded.launches ? recorded.questions + 1 : 1;
  recorded.launches = launches;
  return recorded.questions > kQuestions;
}

std::shared_ptr<CapturedRecord> CapturedOf(EventState& event) {
  const locks::MutexLock lock(&event.mutex);
  return event.captured;
}

cudaError_t Create(const char* function, cudaEvent_t* handle, unsigned flags) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) {
    if (handle == nullptr || (flags & ~kEventFlags) != 0 ||
        ((flags & cudaEventInterprocess) != 0 && (flags & cudaEventDisableTiming) == 0)) {
      return cudaErrorInvalidValue;
    }
    auto event = std::make_shared<EventState>();
    event->device = runtime.CurrentDevice();
    event->flags = flags;
    *handle = reinterpret_cast<cudaEvent_t>(runtime.events.Add(std::move(event)));
    return cudaSuccess;
  });
}

// Calls `body` with an event, if it exists and was not last recorded in a capture.
template <typename Body>
cudaError_t CallOnEvent(const char* function, cudaEvent_t handle, Body body) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) -> cudaError_t {
    const std::shared_ptr<EventState> event = Find(runtime, handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->device->broken_with() != 0) {
      return static_cast<cudaError_t>(event->device->broken_with());
    }
    const std::shared_ptr<CapturedRecord> captured = CapturedOf(*event);
    if (captured != nullptr) return runtime.captures.RefuseQuery(*captured);
    const cudaError_t refusal = runtime.captures.RefuseUnsafe();
    return refusal != cudaSuccess ? refusal : body(*event);
  });
}

bool IsTimed(const EventState& event) { return (event.flags & cudaEventDisableTiming) == 0; }

absl::StatusOr<std::shared_ptr<Recorded>> NewRecording(std::shared_ptr<StandInDevice> device,
                                                       const EventState& event) {
  const absl::StatusOr<Event> native =
      device->host().CreateEvent(IsTimed(event) ? EventKind::kTimed : EventKind::kOrder);
  if (!native.ok()) return native.status();
  auto recorded = std::make_shared<Recorded>();
  recorded->device = std::move(device);
  recorded->event = *native;
  return recorded;
}

void SetLast(EventState& event, std::shared_ptr<Recorded> recorded) {
  const locks::MutexLock lock(&event.mutex);
  event.last.swap(recorded);
  event.captured = nullptr;
}

cudaError_t Record(Runtime& runtime, const StreamRef& stream, cudaEvent_t handle) {
  const std::shared_ptr<EventState> event = Find(runtime, handle);
  if (event == nullptr || event->device != stream.device) return cudaErrorInvalidResourceHandle;
  std::shared_ptr<CapturedRecord> captured = runtime.captures.Record(stream);
  if (captured != nullptr) {
    const locks::MutexLock lock(&event->mutex);
    event->captured = std::move(captured);
    return cudaSuccess;
  }
  const absl::StatusOr<std::shared_ptr<Recorded>> recorded = NewRecording(stream.device, *event);
  if (!recorded.ok()) return ErrorOf(recorded.status(), cudaErrorUnknown);
  const bool has_assumed_time = runtime.config().assumed_bytes_per_second != 0;
  DeviceClock& clock = stream.device->clock();
  if (has_assumed_time && IsTimed(*event)) {
    clock.Pause(stream.stream.id, stream.kind, kRecordNanoseconds);
  }
  (*recorded)->assumed_ns = clock.EndOf(stream.stream.id, stream.kind);
  const absl::Status status =
      stream.Enqueue([&] { return stream.host().RecordEvent((*recorded)->event, stream.stream); });
  if (!status.ok()) return ErrorOf(status, cudaErrorInvalidResourceHandle);
  SetLast(*event, *recorded);
  return cudaSuccess;
}

absl::Status QueueWait(const StreamRef& stream, const std::shared_ptr<Recorded>& recorded) {
  if (recorded->device == stream.device) {
    stream.device->clock().Wait(stream.stream.id, stream.kind, recorded->assumed_ns);
    return stream.host().WaitEvent(stream.stream, recorded->event);
  }
  return stream.host().CallHost(stream.stream, [recorded] {
    recorded->device->host().SynchronizeEvent(recorded->event).IgnoreError();
  });
}

cudaError_t Elapsed(const Runtime& runtime, const EventState& first, const Recorded* start,
                    const EventState& second, const Recorded* end, float* milliseconds) {
  if (!IsTimed(first) || !IsTimed(second) || start == nullptr || end == nullptr ||
      first.device != second.device) {
    return cudaErrorInvalidResourceHandle;
  }
  HostDevice& host = first.device->host();
  if (!host.QueryEvent(start->event).value_or(false) ||
      !host.QueryEvent(end->event).value_or(false)) {
    return cudaErrorNotReady;
  }
  if (runtime.config().assumed_bytes_per_second != 0) {
    *milliseconds =
        static_cast<float>(static_cast<double>(end->assumed_ns - start->assumed_ns) / 1e6);
    return cudaSuccess;
  }
  const absl::StatusOr<double> seconds = host.SecondsBetween(start->event, end->event);
  *milliseconds = static_cast<float>(seconds.value_or(0) * 1e3);
  return ErrorOf(seconds.status(), cudaErrorInvalidResourceHandle);
}

}  // namespace

// An event without timing stands for the work of all streams of its device.
cudaError_t RecordContext(Runtime& runtime, cudaEvent_t handle) {
  const std::shared_ptr<EventState> event = Find(runtime, handle);
  const std::shared_ptr<StandInDevice> device = runtime.CurrentDevice();
  if (event == nullptr || event->device != device) return cudaErrorInvalidResourceHandle;
  const cudaError_t refusal = runtime.captures.RefuseContext(*device);
  if (refusal != cudaSuccess) return refusal;
  const absl::StatusOr<std::shared_ptr<Recorded>> recorded = NewRecording(device, *event);
  if (!recorded.ok()) return ErrorOf(recorded.status(), cudaErrorUnknown);
  (*recorded)->assumed_ns = device->clock().end();
  const absl::Status status = device->host().RecordAll((*recorded)->event);
  if (!status.ok()) return ErrorOf(status, cudaErrorUnknown);
  SetLast(*event, *recorded);
  return cudaSuccess;
}

}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) { return Create(__func__, event, 0); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return Create(__func__, event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return Call(__func__, Needs::kDevice, [&](Runtime& runtime) {
    return runtime.events.Remove(reinterpret_cast<std::uintptr_t>(handle)).has_value()
               ? cudaSuccess
               : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    return Record(runtime, stream, event);
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned int flags) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    return flags == 0 ? Record(runtime, stream, event) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int flags) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    const std::shared_ptr<EventState> event = Find(runtime, event_handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    const auto captured = runtime.captures.Wait(stream, CapturedOf(*event).get());
    if (captured.has_value()) return *captured;
    const std::shared_ptr<Recorded> recorded = LastOf(*event);
    if (recorded == nullptr) return cudaSuccess;
    return ErrorOf(stream.Enqueue([&] { return QueueWait(stream, recorded); }),
                   cudaErrorInvalidResourceHandle);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return CallOnEvent(__func__, handle, [](EventState& event) {
    const std::shared_ptr<Recorded> recorded = LastOf(event);
    if (recorded == nullptr) return cudaSuccess;
    const bool has_ended = event.device->host().QueryEvent(recorded->event).value_or(false) &&
                           (!IsWatchdog() || HasEndedForWatchdog(event, *recorded));
    return has_ended ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return CallOnEvent(__func__, handle, [](EventState& event) {
    const std::shared_ptr<Recorded> recorded = LastOf(event);
    if (recorded == nullptr) return cudaSuccess;
    if ((event.flags & cudaEventBlockingSync) == 0) ++Runtime::Get().spins;
    event.device->clock().WaitOnHost(recorded->assumed_ns);
    const absl::Status status = event.device->host().SynchronizeEvent(recorded->event);
    if (!status.ok()) return ErrorOf(status, cudaErrorInvalidResourceHandle);
    return static_cast<cudaError_t>(event.device->broken_with());
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Call(__func__, Needs::kContext, [&](Runtime& runtime) {
    const std::shared_ptr<EventState> first = Find(runtime, start);
    const std::shared_ptr<EventState> second = Find(runtime, end);
    if (first == nullptr || second == nullptr) return cudaErrorInvalidResourceHandle;
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    return Elapsed(runtime, *first, LastOf(*first).get(), *second, LastOf(*second).get(),
                   milliseconds);
  });
}

}  // extern "C"
