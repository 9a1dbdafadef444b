// SPDX-License-Identifier: Apache-2.0
// The frame of every function of the stand-in. It counts the call, lets it fail on order, and
// refuses it in host functions and on broken devices. It also keeps the error as the thread's last
// error.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_CALL_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_CALL_H_

#include <cuda_runtime_api.h>

#include "dryrun/runtime/cudart/runtime.h"

namespace tidepool::cudart_host {

// The part of the runtime that a call needs.
enum class Needs : char {
  kNothing,       // works on a broken device and without devices
  kDevice,        // works on a broken device
  kContext,       // binds the context to the thread
  kBoundContext,  // a call of the driver: does not bind it
};

// Binds the context of the current device to the calling thread, and makes it if need be. Processes
// that are forked from now on cannot use the device.
void BindContext(StandInDevice& device);
// Returns cudaErrorInitializationError in a process that was forked from one with a context, as an
// H200 did, and else cudaSuccess.
cudaError_t RefuseForked();
// Returns the error that refuses the call, or cudaSuccess.
cudaError_t Refusal(const char* function, Needs needs);
// Stores an error as the calling thread's last error, and returns it.
cudaError_t Remember(cudaError_t error);

// Refuses a call on a stream that does not exist. Ends the process if the stand-in is configured
// so.
cudaError_t RefuseUnknownStream(const char* function, cudaStream_t handle);

// Runs `body` with the runtime, unless the call is refused. `body` returns an error.
template <typename Body>
cudaError_t Call(const char* function, Needs needs, Body body) {
  const cudaError_t refusal = Refusal(function, needs);
  return Remember(refusal != cudaSuccess ? refusal : body(Runtime::Get()));
}

// Runs `body` with the runtime and a stream, unless the call is refused or the stream is unknown.
// No capture of a blocking stream survives the call on the legacy stream, unless it asks for
// captures.
template <typename Body>
cudaError_t AskForCapture(const char* function, cudaStream_t handle, Body body) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) -> cudaError_t {
    const std::optional<StreamRef> stream = runtime.FindStream(handle);
    if (!stream.has_value()) return RefuseUnknownStream(function, handle);
    if (stream->device->broken_with() != 0) {
      return static_cast<cudaError_t>(stream->device->broken_with());
    }
    return body(runtime, *stream);
  });
}
template <typename Body>
cudaError_t CallOnStream(const char* function, cudaStream_t handle, Body body) {
  return AskForCapture(function, handle, [&](Runtime& runtime, const StreamRef& stream) {
    const cudaError_t refusal = runtime.captures.RefuseLegacy(stream);
    return refusal != cudaSuccess ? refusal : body(runtime, stream);
  });
}

// Captures work in a captured stream, and queues it in all others. `work` queues it on the stream
// that it is given.
template <typename Work>
cudaError_t QueueOrCapture(Runtime& runtime, const StreamRef& stream, cudaGraphNodeType type,
                           Work work) {
  const std::optional<cudaError_t> captured = runtime.captures.Add(stream, type, work);
  return captured.has_value() ? *captured : work(runtime, stream);
}

// Records the work of all streams of the current device.
cudaError_t RecordContext(Runtime& runtime, cudaEvent_t handle);

// Runs `body` as Call does, unless a capture prohibits calls that may wait.
template <typename Body>
cudaError_t CallOutsideCaptures(const char* function, Body body) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) -> cudaError_t {
    const cudaError_t refusal = runtime.captures.RefuseUnsafe();
    return refusal != cudaSuccess ? refusal : body(runtime);
  });
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_CALL_H_
