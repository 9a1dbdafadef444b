// SPDX-License-Identifier: Apache-2.0
// Asks CUDA, and clears the errors of its own calls.
#include "bindings/support/cuda_end.h"

#include <cuda_runtime_api.h>

#include <vector>

namespace tidepool::bindings {

bool HasCudaEnded() {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return error == cudaErrorCudartUnloading;
}

bool WasDeviceReset(const Pool& pool) {
  const std::vector<PoolBlock> blocks = pool.Snapshot();
  if (blocks.empty()) return false;
  cudaPointerAttributes attributes = {};
  if (cudaPointerGetAttributes(&attributes, blocks.front().address) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  return attributes.type == cudaMemoryTypeUnregistered;
}

}  // namespace tidepool::bindings
