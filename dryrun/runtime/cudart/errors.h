// SPDX-License-Identifier: Apache-2.0
// Errors by number. The runtime and the driver use the same numbers.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_ERRORS_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_ERRORS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"

namespace tidepool::cudart_host {

// Return the names and the description of an error, or null for an unknown number.
const char* RuntimeNameOf(int error);
const char* DriverNameOf(int error);
const char* DescriptionOf(int error);

// Translates a status of the host device to CUDA's error: ResourceExhausted to out of memory,
// NotFound to `not_found`.
cudaError_t ErrorOf(const absl::Status& status, cudaError_t not_found);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_ERRORS_H_
