// SPDX-License-Identifier: Apache-2.0
// CUDA's errors as statuses: their codes and their texts.
#include "lib/memory/device/cuda/cuda_error.h"

#include "absl/strings/str_cat.h"

namespace tidepool::cuda {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorInvalidValue:
    case cudaErrorHostMemoryAlreadyRegistered:
      return absl::StatusCode::kInvalidArgument;
    case cudaErrorInvalidResourceHandle:
    case cudaErrorHostMemoryNotRegistered:
      return absl::StatusCode::kNotFound;
    case cudaErrorNotSupported:
      return absl::StatusCode::kUnimplemented;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status StatusOf(cudaError_t error, const std::string& call) {
  std::string text =
      absl::StrCat(call, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
  // Later checks of the last error, by the caller's own code, must not find this error.
  if (cudaPeekAtLastError() == error) static_cast<void>(cudaGetLastError());
  const absl::StatusCode code = CodeOf(error);
  // An error that stays after it was read comes from work on the device: CUDA keeps it until a
  // reset.
  if (code == absl::StatusCode::kInternal && cudaPeekAtLastError() == error) {
    absl::StrAppend(&text, ", and the device stays broken until it is reset");
  }
  return absl::Status(code, text);
}

absl::Status StatusOfDriver(int error, const std::string& name, const std::string& words,
                            const std::string& call) {
  return absl::Status(CodeOf(error), absl::StrCat(call, ": ", name, " (", words, ")"));
}

}  // namespace tidepool::cuda
