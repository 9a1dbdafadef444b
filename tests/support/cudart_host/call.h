// How every function of the stand-in begins and ends: it is counted and told to fail, refused on a
// device that is broken and in a host function, and its error is the thread's last.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CALL_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CALL_H_

#include <cuda_runtime_api.h>

#include "tests/support/cudart_host/runtime.h"

namespace tidepool::cudart_host {

enum class Needs : char {
  kNothing,  // works on a broken device and without any
  kDevice,   // works on a broken device
  kContext,
};

cudaError_t Refusal(const char* function, Needs needs);
cudaError_t Remember(cudaError_t error);

// `body` is given the runtime and returns an error.
template <typename Body>
cudaError_t Call(const char* function, Needs needs, Body body) {
  const cudaError_t refusal = Refusal(function, needs);
  return Remember(refusal != cudaSuccess ? refusal : body(Runtime::Get()));
}

// The same, where `body` needs a stream.
template <typename Body>
cudaError_t CallOnStream(const char* function, cudaStream_t handle, Body body) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) -> cudaError_t {
    const std::optional<StreamRef> stream = runtime.FindStream(handle);
    if (!stream.has_value()) return cudaErrorInvalidResourceHandle;
    if (stream->device->broken_with() != 0) {
      return static_cast<cudaError_t>(stream->device->broken_with());
    }
    return body(runtime, *stream);
  });
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CALL_H_
