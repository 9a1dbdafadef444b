// SPDX-License-Identifier: Apache-2.0
#include "bindings/cnmem/status.h"

namespace tidepool::cnmem {

cnmemStatus_t CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return CNMEM_STATUS_SUCCESS;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
      return CNMEM_STATUS_INVALID_ARGUMENT;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
      return CNMEM_STATUS_OUT_OF_MEMORY;
    default:
      return CNMEM_STATUS_CUDA_ERROR;
  }
}

}  // namespace tidepool::cnmem
