// Knows nothing of CUDA's own headers, which declare what is defined with it.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_UNSUPPORTED_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_UNSUPPORTED_H_

namespace tidepool::cudart_host {

// Ends a call that is not supported as every other call that fails. Returns the error.
int RefuseUnsupported(const char* function);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_UNSUPPORTED_H_
