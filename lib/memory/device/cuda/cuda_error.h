// SPDX-License-Identifier: Apache-2.0
// CUDA's errors as statuses.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_ERROR_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "lib/memory/device/cuda/call_text.h"

namespace tidepool::cuda {

// Returns the error of `call`, a call with its arguments. Clears the runtime's last error if it is
// the same.
absl::Status StatusOf(cudaError_t error, const std::string& call);
// Returns the error of a call of the driver. Its errors have the same numbers, and leave no last
// error.
absl::Status StatusOfDriver(int error, const std::string& name, const std::string& words,
                            const std::string& call);

// Builds the text of the call only if it failed.
template <typename... Arguments>
absl::Status Check(cudaError_t error, const char* function, const Arguments&... arguments) {
  if (error == cudaSuccess) return absl::OkStatus();
  return StatusOf(error, CallText(function, arguments...));
}

// Makes a call, and repeats it once if it fails. For destructors, which cannot report an error.
template <typename Call>
void TryTwice(Call call) {
  if (call() == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  if (call() != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CUDA_ERROR_H_
