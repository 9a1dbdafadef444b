// SPDX-License-Identifier: Apache-2.0
// Whether CUDA still exists as it was: a process that ends, or that resets its device, has freed
// all memory already.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_CUDA_END_H_
#define TIDEPOOL_BINDINGS_SUPPORT_CUDA_END_H_

#include "tidepool/pool.h"

namespace tidepool::bindings {

// Returns whether CUDA has shut down. In a process that ends, CUDA may do so before the program's
// destructors run.
bool HasCudaEnded();

// Returns whether the device was reset after the pool took its memory. No handle of the device is
// valid any more: the pool and its device must never be destroyed, because CUDA may have given
// their handles and addresses to other objects. False for a pool without memory.
bool WasDeviceReset(const Pool& pool);

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_CUDA_END_H_
