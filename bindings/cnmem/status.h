// SPDX-License-Identifier: Apache-2.0
// Statuses as codes of CNMeM.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STATUS_H_
#define TIDEPOOL_BINDINGS_CNMEM_STATUS_H_

#include "absl/status/status.h"
#include "bindings/cnmem/include/cnmem.h"

namespace tidepool::cnmem {

// Returns INVALID_ARGUMENT for InvalidArgument, FailedPrecondition and NotFound: the caller's
// arguments are wrong. OUT_OF_MEMORY for ResourceExhausted and DeadlineExceeded. CUDA_ERROR for all
// other errors.
cnmemStatus_t CodeOf(const absl::Status& status);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STATUS_H_
