// SPDX-License-Identifier: Apache-2.0
// Types of CUDA 12 that have another layout in CUDA 13, as cuda_runtime_api.h and driver_types.h of
// CUDA 12.0 to 12.9 declare them. Fields that the stand-in leaves 0 stand together in arrays.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_CUDA_12_TYPES_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_CUDA_12_TYPES_H_

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tidepool::cudart_host::cuda_12 {

// cudaDeviceProp of CUDA 12, which cudaGetDeviceProperties_v2 fills.
struct DeviceProperties {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  std::size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  std::size_t totalConstMem;
  int major;
  int minor;
  std::size_t textureAlignment;
  std::size_t texturePitchAlignment;
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int texturesAndSurfaces[40];  // maxTexture1D to maxSurfaceCubemapLayered
  std::size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  std::size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int boards[4];  // isMultiGpuBoard to singleToDoublePrecisionPerfRatio
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  int cooperativeMultiDeviceLaunch;
  std::size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  std::size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int others[8];  // gpuDirectRDMASupported to unifiedFunctionPointers
  int reserved[63];
};
static_assert(sizeof(DeviceProperties) == 1032);
static_assert(offsetof(DeviceProperties, multiProcessorCount) == 388);
static_assert(offsetof(DeviceProperties, surfaceAlignment) == 568);
static_assert(offsetof(DeviceProperties, managedMemory) == 652);
static_assert(offsetof(DeviceProperties, memoryPoolsSupported) == 744);

struct PointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
};
static_assert(sizeof(PointerAttributes) == 24);

}  // namespace tidepool::cudart_host::cuda_12

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_CUDA_12_TYPES_H_
