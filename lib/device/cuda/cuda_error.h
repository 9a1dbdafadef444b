// CUDA's errors as statuses.
#ifndef TIDEPOOL_LIB_DEVICE_CUDA_CUDA_ERROR_H_
#define TIDEPOOL_LIB_DEVICE_CUDA_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "lib/device/cuda/call_text.h"

namespace tidepool::cuda {

// `call` is the call with its arguments. Takes the runtime's last error away if it is this one.
absl::Status StatusOf(cudaError_t error, const std::string& call);
// Of a function of the driver, whose errors have the same numbers and leave nothing behind.
absl::Status StatusOfDriver(int error, const std::string& name, const std::string& words,
                            const std::string& call);

// The text of the call is put together only when it failed.
template <typename... Arguments>
absl::Status Check(cudaError_t error, const char* function, const Arguments&... arguments) {
  if (error == cudaSuccess) return absl::OkStatus();
  return StatusOf(error, CallText(function, arguments...));
}

// For who can report to nobody: what fails is tried once more.
template <typename Call>
void TryTwice(Call call) {
  if (call() == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  if (call() != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_DEVICE_CUDA_CUDA_ERROR_H_
