// The functions about errors. They are never counted nor told to fail, so that a program can
// always find out what happened.
#include <cuda_runtime_api.h>

#include <utility>

#include "tests/support/cudart_host/errors.h"
#include "tests/support/cudart_host/runtime.h"

using tidepool::cudart_host::Runtime;
using tidepool::cudart_host::ThisThread;

namespace {

// What cannot be taken back is returned again and again.
int StickyError() {
  const auto device = Runtime::Get().CurrentDevice();
  return device == nullptr ? 0 : device->broken_with();
}

const char* OrUnrecognized(const char* text) {
  return text == nullptr ? "unrecognized error code" : text;
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError() {
  const int last = std::exchange(ThisThread().last_error, 0);
  const int sticky = StickyError();
  return static_cast<cudaError_t>(sticky != 0 ? sticky : last);
}

cudaError_t cudaPeekAtLastError() {
  const int sticky = StickyError();
  return static_cast<cudaError_t>(sticky != 0 ? sticky : ThisThread().last_error);
}

const char* cudaGetErrorName(cudaError_t error) {
  return OrUnrecognized(tidepool::cudart_host::RuntimeNameOf(error));
}

const char* cudaGetErrorString(cudaError_t error) {
  return OrUnrecognized(tidepool::cudart_host::WordsFor(error));
}

}  // extern "C"
