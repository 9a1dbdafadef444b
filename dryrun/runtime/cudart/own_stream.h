// SPDX-License-Identifier: Apache-2.0
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_OWN_STREAM_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_OWN_STREAM_H_

#include <cuda_runtime_api.h>

namespace tidepool::cudart_host {

// Returns the stream, and the calling thread's own one for null: programs that were compiled with a
// default stream for each thread mean that one.
inline cudaStream_t OrOwn(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_OWN_STREAM_H_
