// SPDX-License-Identifier: Apache-2.0
// The functions of versioned.h under the names that programs for CUDA 13 call.
#include <cuda_runtime_api.h>

#include "dryrun/runtime/cudart/own_stream.h"
#include "dryrun/runtime/cudart/versioned.h"

using tidepool::cudart_host::OrOwn;

extern "C" {

int cudartHostRuntimeVersion() { return CUDART_VERSION; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return cudartHostGetDeviceProperties(properties, device);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return cudartHostPointerGetAttributes(attributes, address);
}

cudaError_t cudaMemPrefetchAsync(const void* address, size_t bytes, cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream) {
  return cudartHostMemPrefetchAsync(address, bytes, location, flags, stream);
}

cudaError_t cudaMemPrefetchAsync_ptsz(const void* address, size_t bytes, cudaMemLocation location,
                                      unsigned int flags, cudaStream_t stream) {
  return cudartHostMemPrefetchAsync(address, bytes, location, flags, OrOwn(stream));
}

cudaError_t cudaMemAdvise(const void* address, size_t bytes, cudaMemoryAdvise /*advice*/,
                          cudaMemLocation /*location*/) {
  return cudartHostMemAdvise(address, bytes);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  return cudartHostStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count);
}

cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                          unsigned long long* id, cudaGraph_t* graph,
                                          const cudaGraphNode_t** dependencies,
                                          const cudaGraphEdgeData** edges, size_t* count) {
  return cudaStreamGetCaptureInfo(OrOwn(stream), status, id, graph, dependencies, edges, count);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData* edges, size_t* count) {
  return cudartHostGraphNodeGetDependencies(node, dependencies, edges, count);
}

}  // extern "C"
