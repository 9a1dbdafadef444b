// SPDX-License-Identifier: Apache-2.0
// Streams, and host functions in them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/errors.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {
namespace {

std::uintptr_t NumberOf(cudaStream_t stream) { return reinterpret_cast<std::uintptr_t>(stream); }

bool IsDefault(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

cudaError_t Create(const char* function, cudaStream_t* handle, unsigned flags, int priority) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) {
    if (handle == nullptr || (flags & ~cudaStreamNonBlocking) != 0) return cudaErrorInvalidValue;
    const std::shared_ptr<StandInDevice> device = runtime.CurrentDevice();
    const StreamKind kind =
        flags == cudaStreamNonBlocking ? StreamKind::kNonBlocking : StreamKind::kBlocking;
    const absl::StatusOr<Stream> stream = device->CreateStream(kind);
    if (!stream.ok()) return ErrorOf(stream.status(), cudaErrorUnknown);
    *handle = reinterpret_cast<cudaStream_t>(
        runtime.streams.Add({device, *stream, kind, flags, std::clamp(priority, -5, 0)}));
    return cudaSuccess;
  });
}

// Answers a question about a stream. A capture does not survive one about its stream.
template <typename Answer>
cudaError_t AskStream(const char* function, cudaStream_t handle, Answer answer) {
  return CallOnStream(function, handle, [&](Runtime& runtime, const StreamRef& stream) {
    const cudaError_t refusal = runtime.captures.RefuseQuery(stream);
    return refusal != cudaSuccess ? refusal : answer(stream);
  });
}

// A GPU runs kernels of streams side by side, but host functions on one thread.
enum class Runs : char { kAsKernel, kOnHost };

// Runs a host function. As in CUDA, it must not call CUDA.
template <typename Function>
void RunHostFunction(Runs runs, Function function) {
  static locks::Mutex one_at_a_time;
  std::optional<locks::MutexLock> turn;
  const bool has_one_thread = Runtime::Get().config().has_one_host_thread != 0;
  if (runs == Runs::kOnHost && has_one_thread) turn.emplace(&one_at_a_time);
  ThisThread().is_in_host_function = true;
  function();
  ThisThread().is_in_host_function = false;
}

template <typename Function>
cudaError_t QueueHostFunction(const StreamRef& stream, Runs runs, Function function) {
  return ErrorOf(stream.Enqueue([&] {
    return stream.host().CallHost(stream.stream, [=] { RunHostFunction(runs, function); });
  }),
                 cudaErrorInvalidResourceHandle);
}

cudaError_t Launch(const char* name, Runs runs, cudaStream_t handle, cudaHostFn_t function,
                   void* data) {
  return CallOnStream(name, handle, [&](Runtime& runtime, const StreamRef& stream) {
    if (function == nullptr) return cudaErrorInvalidValue;
    return QueueOrCapture(runtime, stream, cudaGraphNodeTypeHost,
                          [=](Runtime&, const StreamRef& on) {
                            return QueueHostFunction(on, runs, [=] { function(data); });
                          });
  });
}

}  // namespace
}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return Create(__func__, stream, 0, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return Create(__func__, stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return Create(__func__, stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return Call(__func__, Needs::kDevice, [&](Runtime& runtime) {
    if (IsDefault(handle)) return cudaErrorInvalidResourceHandle;
    const std::optional<StreamRef> stream = runtime.streams.Remove(NumberOf(handle));
    if (!stream.has_value()) return cudaErrorInvalidResourceHandle;
    runtime.captures.Abandon(runtime, *stream);
    return ErrorOf(stream->device->DestroyStream(stream->stream, stream->kind),
                   cudaErrorInvalidResourceHandle);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return CallOnStream(__func__, handle, [](Runtime& runtime, const StreamRef& stream) {
    cudaError_t refusal = runtime.captures.RefuseQuery(stream);
    if (refusal == cudaSuccess) refusal = runtime.captures.RefuseUnsafe();
    if (refusal != cudaSuccess) return refusal;
    const absl::Status status = stream.device->Synchronize(stream.stream, stream.kind);
    if (!status.ok()) return ErrorOf(status, cudaErrorInvalidResourceHandle);
    stream.device->FreeDueMemory();
    return static_cast<cudaError_t>(stream.device->broken_with());
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return CallOnStream(__func__, handle, [](Runtime& runtime, const StreamRef& stream) {
    const cudaError_t refusal = runtime.captures.RefuseQuery(stream);
    if (refusal != cudaSuccess) return refusal;
    const absl::StatusOr<bool> is_idle = stream.device->IsIdle(stream.stream, stream.kind);
    if (!is_idle.ok()) return ErrorOf(is_idle.status(), cudaErrorInvalidResourceHandle);
    return *is_idle ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  return AskStream(__func__, handle, [&](const StreamRef& stream) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = stream.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return CallOnStream(__func__, handle, [&](Runtime&, const StreamRef& stream) {
    if (priority == nullptr) return cudaErrorInvalidValue;
    *priority = stream.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return AskStream(__func__, handle, [&](const StreamRef& stream) {
    if (id == nullptr) return cudaErrorInvalidValue;
    *id = stream.stream.id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return AskStream(__func__, handle, [&](const StreamRef& stream) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = stream.device->ordinal();
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return Launch(__func__, Runs::kOnHost, handle, function, data);
}

int cudartHostLaunchWork(void* stream, void (*work)(void*), void* data) {
  return Launch(__func__, Runs::kAsKernel, static_cast<cudaStream_t>(stream), work, data);
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                  unsigned int flags) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    if (callback == nullptr || flags != 0) return cudaErrorInvalidValue;
    const cudaError_t refusal = runtime.captures.RefuseQuery(stream);
    if (refusal != cudaSuccess) return refusal;
    return QueueHostFunction(stream, Runs::kOnHost, [=] { callback(handle, cudaSuccess, data); });
  });
}

}  // extern "C"
