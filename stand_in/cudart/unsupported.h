// SPDX-License-Identifier: Apache-2.0
// Without CUDA's own headers, which declare the functions that unsupported.cc defines otherwise.
#ifndef TIDEPOOL_STAND_IN_CUDART_UNSUPPORTED_H_
#define TIDEPOOL_STAND_IN_CUDART_UNSUPPORTED_H_

namespace tidepool::cudart_host {

// Ends an unsupported call in the same way as every other failed call. Returns the error.
int RefuseUnsupported(const char* function);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_STAND_IN_CUDART_UNSUPPORTED_H_
