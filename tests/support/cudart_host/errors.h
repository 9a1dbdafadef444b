// Errors by number: those of the runtime and of the driver have the same ones.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_ERRORS_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_ERRORS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"

namespace tidepool::cudart_host {

// Null for a number that is none.
const char* RuntimeNameOf(int error);
const char* DriverNameOf(int error);
const char* WordsFor(int error);

// What CUDA says where the host device says `status`: ResourceExhausted is no memory, NotFound is
// `not_found`.
cudaError_t ErrorOf(const absl::Status& status, cudaError_t not_found);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_ERRORS_H_
