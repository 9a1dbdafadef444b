// SPDX-License-Identifier: Apache-2.0
// Refuses calls in the order in which CUDA checks.
#include "dryrun/runtime/cudart/call.h"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "dryrun/runtime/cudart/unsupported.h"

namespace tidepool::cudart_host {
namespace {

std::atomic<bool> is_child_of_context{false};

}  // namespace

void BindContext(StandInDevice& device) {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { is_child_of_context = true; });
  ThisThread().bound = device.ordinal();
  device.MakeContext();
}

cudaError_t RefuseForked() {
  return is_child_of_context ? cudaErrorInitializationError : cudaSuccess;
}

cudaError_t Refusal(const char* function, Needs needs) {
  if (ThisThread().is_in_host_function) return cudaErrorNotPermitted;
  Runtime& runtime = Runtime::Get();
  if (runtime.has_ended()) return cudaErrorCudartUnloading;
  const int ordered = runtime.counts.Enter(function);
  if (ordered != 0) return static_cast<cudaError_t>(ordered);
  if (needs == Needs::kNothing) return cudaSuccess;
  if (RefuseForked() != cudaSuccess) return RefuseForked();
  if (needs == Needs::kDevice) {
    return ThisThread().current() < runtime.device_count() ? cudaSuccess : cudaErrorNoDevice;
  }
  const std::shared_ptr<StandInDevice> device = runtime.CurrentDevice();
  if (device == nullptr) return cudaErrorNoDevice;
  if (needs == Needs::kBoundContext && ThisThread().bound == ThreadState::kNone) {
    return cudaErrorDeviceUninitialized;
  }
  BindContext(*device);
  return static_cast<cudaError_t>(device->broken_with());
}

int RefuseUnsupported(const char* function, std::atomic<bool>& was_said) {
  if (!was_said.exchange(true)) {
    std::fprintf(stderr, "cudart_host: %s is not supported by this stand-in for the CUDA runtime\n",
                 function);
  }
  return Call(function, Needs::kNothing, [](Runtime&) { return cudaErrorNotSupported; });
}

cudaError_t RefuseUnknownStream(const char* function, cudaStream_t handle) {
  if (Runtime::Get().config().dies_of_destroyed_streams == 0) return cudaErrorInvalidResourceHandle;
  std::fprintf(stderr, "cudart_host: %s: stream %p does not exist: a GPU's driver may crash here\n",
               function, static_cast<void*>(handle));
  std::abort();
}

// Work that is not ready is no error to a GPU's runtime: it is not the last error afterwards.
cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) ThisThread().last_error = error;
  return error;
}

}  // namespace tidepool::cudart_host
