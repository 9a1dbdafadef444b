// SPDX-License-Identifier: Apache-2.0
// Work of the stand-ins for CUDA's libraries, in the order of a stream.
#ifndef TIDEPOOL_DRYRUN_STREAM_WORK_H_
#define TIDEPOOL_DRYRUN_STREAM_WORK_H_

#include <cuda_runtime_api.h>

#include <functional>

namespace tidepool::cudart_host {

// Queues work that runs on the host, on the thread of the stream. A stream that is captured gets it
// into its graph, and then it runs in each launch. Returns false where the runtime refuses.
// Thread-safe.
bool QueueWork(cudaStream_t stream, std::function<void()> work);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_STREAM_WORK_H_
