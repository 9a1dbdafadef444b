// SPDX-License-Identifier: Apache-2.0
// Functions of the runtime with other types or names before CUDA 13. Here they have the types of
// CUDA 13. The folders cuda_12/ and cuda_13/ define the functions that programs call, in terms of
// these. The driver uses them too. Errors and thread-safety are those of the runtime.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_VERSIONED_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_VERSIONED_H_

#include <cuda_runtime_api.h>

extern "C" {

// Returns the version of the runtime that this library imitates: 1000 times the major plus 10 times
// the minor number.
int cudartHostRuntimeVersion();

cudaError_t cudartHostGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudartHostPointerGetAttributes(cudaPointerAttributes* attributes, const void* address);
cudaError_t cudartHostMemPrefetchAsync(const void* address, size_t bytes, cudaMemLocation location,
                                       unsigned int flags, cudaStream_t stream);
cudaError_t cudartHostMemAdvise(const void* address, size_t bytes);
cudaError_t cudartHostStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                           unsigned long long* id, cudaGraph_t* graph,
                                           const cudaGraphNode_t** dependencies,
                                           const cudaGraphEdgeData** edges, size_t* count);
cudaError_t cudartHostGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                               cudaGraphEdgeData* edges, size_t* count);

}  // extern "C"

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_VERSIONED_H_
