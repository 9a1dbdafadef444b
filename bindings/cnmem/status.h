// Statuses as CNMeM's.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STATUS_H_
#define TIDEPOOL_BINDINGS_CNMEM_STATUS_H_

#include "absl/status/status.h"
#include "bindings/cnmem/include/cnmem.h"

namespace tidepool::cnmem {

// What the caller gave that cannot be is InvalidArgument, FailedPrecondition or NotFound; memory
// that is not there ResourceExhausted or DeadlineExceeded; all else went wrong in CUDA.
cnmemStatus_t CodeOf(const absl::Status& status);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STATUS_H_
