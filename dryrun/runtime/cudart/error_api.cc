// SPDX-License-Identifier: Apache-2.0
// The functions that query errors. They are never counted and never fail on order, so that a
// program can always find out the cause of a failure.
#include <cuda_runtime_api.h>

#include <utility>

#include "dryrun/runtime/cudart/errors.h"
#include "dryrun/runtime/cudart/runtime.h"

using tidepool::cudart_host::Runtime;
using tidepool::cudart_host::ThisThread;

namespace {

// Returns the error of a broken device. It cannot be cleared, so every call returns it.
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
  return OrUnrecognized(tidepool::cudart_host::DescriptionOf(error));
}

}  // extern "C"
