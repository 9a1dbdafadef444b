// SPDX-License-Identifier: Apache-2.0
// The functions of versioned.h under the names and with the types that programs for CUDA 12 call.
// The headers of CUDA 13 declare some of these names with other types, so the functions have names
// of their own for the compiler.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>

#include "dryrun/runtime/cudart/cuda_12/types.h"
#include "dryrun/runtime/cudart/own_stream.h"
#include "dryrun/runtime/cudart/versioned.h"

namespace tidepool::cudart_host::cuda_12 {
namespace {

constexpr int kVersion = 12090;
constexpr int kHostDevice = -1;  // cudaCpuDeviceId

DeviceProperties In12(const cudaDeviceProp& from) {
  DeviceProperties to = {};
  static_assert(sizeof(to.name) == sizeof(from.name));
  std::memcpy(to.name, from.name, sizeof(to.name));
  std::memcpy(to.maxThreadsDim, from.maxThreadsDim, sizeof(to.maxThreadsDim));
  std::memcpy(to.maxGridSize, from.maxGridSize, sizeof(to.maxGridSize));
  to.uuid = from.uuid;
  to.totalGlobalMem = from.totalGlobalMem;
  to.sharedMemPerBlock = from.sharedMemPerBlock;
  to.regsPerBlock = from.regsPerBlock;
  to.warpSize = from.warpSize;
  to.memPitch = from.memPitch;
  to.maxThreadsPerBlock = from.maxThreadsPerBlock;
  to.totalConstMem = from.totalConstMem;
  to.major = from.major;
  to.minor = from.minor;
  to.textureAlignment = from.textureAlignment;
  to.deviceOverlap = 1;
  to.multiProcessorCount = from.multiProcessorCount;
  to.integrated = from.integrated;
  to.canMapHostMemory = from.canMapHostMemory;
  to.concurrentKernels = from.concurrentKernels;
  to.pciBusID = from.pciBusID;
  to.asyncEngineCount = from.asyncEngineCount;
  to.unifiedAddressing = from.unifiedAddressing;
  to.l2CacheSize = from.l2CacheSize;
  to.maxThreadsPerMultiProcessor = from.maxThreadsPerMultiProcessor;
  to.streamPrioritiesSupported = from.streamPrioritiesSupported;
  to.sharedMemPerMultiprocessor = from.sharedMemPerMultiprocessor;
  to.regsPerMultiprocessor = from.regsPerMultiprocessor;
  to.managedMemory = from.managedMemory;
  to.concurrentManagedAccess = from.concurrentManagedAccess;
  to.canUseHostPointerForRegisteredMem = from.canUseHostPointerForRegisteredMem;
  to.cooperativeLaunch = from.cooperativeLaunch;
  to.sharedMemPerBlockOptin = from.sharedMemPerBlockOptin;
  to.maxBlocksPerMultiProcessor = from.maxBlocksPerMultiProcessor;
  to.reservedSharedMemPerBlock = from.reservedSharedMemPerBlock;
  to.hostRegisterSupported = from.hostRegisterSupported;
  to.memoryPoolsSupported = from.memoryPoolsSupported;
  return to;
}

cudaMemLocation Place(int device) {
  cudaMemLocation place = {};
  place.type = device == kHostDevice ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  place.id = device == kHostDevice ? 0 : device;
  return place;
}

}  // namespace

extern "C" {

// Gives a function the name that programs call.
#define TIDEPOOL_NAMED(name) __asm__(#name)

cudaError_t GetDeviceProperties(DeviceProperties*, int) TIDEPOOL_NAMED(cudaGetDeviceProperties_v2);
cudaError_t PointerGetAttributes(PointerAttributes*, const void*)
    TIDEPOOL_NAMED(cudaPointerGetAttributes);
cudaError_t MemPrefetch(const void*, std::size_t, int, cudaStream_t)
    TIDEPOOL_NAMED(cudaMemPrefetchAsync);
cudaError_t MemPrefetchPerThread(const void*, std::size_t, int, cudaStream_t)
    TIDEPOOL_NAMED(cudaMemPrefetchAsync_ptsz);
cudaError_t MemAdvise(const void*, std::size_t, cudaMemoryAdvise, int)
    TIDEPOOL_NAMED(cudaMemAdvise);
cudaError_t CaptureInfo(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*)
    TIDEPOOL_NAMED(cudaStreamGetCaptureInfo);
cudaError_t CaptureInfoPerThread(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*)
    TIDEPOOL_NAMED(cudaStreamGetCaptureInfo_ptsz);
cudaError_t GraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, std::size_t*)
    TIDEPOOL_NAMED(cudaGraphNodeGetDependencies);

int cudartHostRuntimeVersion() { return kVersion; }

cudaError_t GetDeviceProperties(DeviceProperties* properties, int device) {
  if (properties == nullptr) return cudartHostGetDeviceProperties(nullptr, device);
  cudaDeviceProp found;
  const cudaError_t error = cudartHostGetDeviceProperties(&found, device);
  if (error == cudaSuccess) *properties = In12(found);
  return error;
}

cudaError_t PointerGetAttributes(PointerAttributes* attributes, const void* address) {
  if (attributes == nullptr) return cudartHostPointerGetAttributes(nullptr, address);
  cudaPointerAttributes found;
  const cudaError_t error = cudartHostPointerGetAttributes(&found, address);
  if (error == cudaSuccess) {
    *attributes = {found.type, found.device, found.devicePointer, found.hostPointer};
  }
  return error;
}

cudaError_t MemPrefetch(const void* address, std::size_t bytes, int device, cudaStream_t stream) {
  return cudartHostMemPrefetchAsync(address, bytes, Place(device), 0, stream);
}
cudaError_t MemPrefetchPerThread(const void* address, std::size_t bytes, int device,
                                 cudaStream_t stream) {
  return MemPrefetch(address, bytes, device, OrOwn(stream));
}
cudaError_t cudaMemPrefetchAsync_v2(const void* address, std::size_t bytes, cudaMemLocation place,
                                    unsigned int flags, cudaStream_t stream) {
  return cudartHostMemPrefetchAsync(address, bytes, place, flags, stream);
}
cudaError_t cudaMemPrefetchAsync_v2_ptsz(const void* address, std::size_t bytes,
                                         cudaMemLocation place, unsigned int flags,
                                         cudaStream_t stream) {
  return cudartHostMemPrefetchAsync(address, bytes, place, flags, OrOwn(stream));
}

cudaError_t MemAdvise(const void* address, std::size_t bytes, cudaMemoryAdvise /*advice*/,
                      int /*device*/) {
  return cudartHostMemAdvise(address, bytes);
}
cudaError_t cudaMemAdvise_v2(const void* address, std::size_t bytes, cudaMemoryAdvise /*advice*/,
                             cudaMemLocation /*place*/) {
  return cudartHostMemAdvise(address, bytes);
}

cudaError_t CaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                        unsigned long long* id) {
  return cudartHostStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
cudaError_t CaptureInfoPerThread(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                 unsigned long long* id) {
  return CaptureInfo(OrOwn(stream), status, id);
}
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, std::size_t* count) {
  return cudartHostStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
cudaError_t cudaStreamGetCaptureInfo_v2_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                             unsigned long long* id, cudaGraph_t* graph,
                                             const cudaGraphNode_t** dependencies,
                                             std::size_t* count) {
  return cudaStreamGetCaptureInfo_v2(OrOwn(stream), status, id, graph, dependencies, count);
}
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies,
                                        const cudaGraphEdgeData** edges, std::size_t* count) {
  return cudartHostStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count);
}
cudaError_t cudaStreamGetCaptureInfo_v3_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                             unsigned long long* id, cudaGraph_t* graph,
                                             const cudaGraphNode_t** dependencies,
                                             const cudaGraphEdgeData** edges, std::size_t* count) {
  return cudartHostStreamGetCaptureInfo(OrOwn(stream), status, id, graph, dependencies, edges,
                                        count);
}

cudaError_t GraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                     std::size_t* count) {
  return cudartHostGraphNodeGetDependencies(node, dependencies, nullptr, count);
}
cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                            cudaGraphEdgeData* edges, std::size_t* count) {
  return cudartHostGraphNodeGetDependencies(node, dependencies, edges, count);
}

cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, begin, end);
}

}  // extern "C"
}  // namespace tidepool::cudart_host::cuda_12
