// SPDX-License-Identifier: Apache-2.0
// The driver's functions for virtual memory. The runtime has them, since programs also look them up
// there. PyTorch 2.6 looks them up here, and stops where one of these names is missing.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace {

// Returns the runtime's function of the name, which has the type of the second argument.
template <typename Function>
Function* InRuntime(const char* name, Function* /*same*/) {
  void* found = nullptr;
  cudaGetDriverEntryPointByVersion(name, &found, CUDA_VERSION, cudaEnableDefault, nullptr);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  return InRuntime(__func__, cuMemGetAllocationGranularity)(bytes, properties, option);
}
CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                             CUdeviceptr hint, unsigned long long flags) {
  return InRuntime(__func__, cuMemAddressReserve)(address, bytes, alignment, hint, flags);
}
CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  return InRuntime(__func__, cuMemAddressFree)(address, bytes);
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  return InRuntime(__func__, cuMemCreate)(handle, bytes, properties, flags);
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return InRuntime(__func__, cuMemRelease)(handle);
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return InRuntime(__func__, cuMemRetainAllocationHandle)(handle, address);
}
CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return InRuntime(__func__, cuMemMap)(address, bytes, offset, handle, flags);
}
CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  return InRuntime(__func__, cuMemUnmap)(address, bytes);
}
CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                        std::size_t count) {
  return InRuntime(__func__, cuMemSetAccess)(address, bytes, access, count);
}
CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  return InRuntime(__func__, cuMemGetAccess)(flags, location, address);
}

CUresult cuMemExportToShareableHandle(void* shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return InRuntime(__func__, cuMemExportToShareableHandle)(shared, handle, type, flags);
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shared,
                                        CUmemAllocationHandleType type) {
  return InRuntime(__func__, cuMemImportFromShareableHandle)(handle, shared, type);
}

// Properties of handles, multicast and writes of single words: there under their names, and
// refused.
#define TIDEPOOL_REFUSED(name, ...) \
  CUresult name(__VA_ARGS__) { return CUDA_ERROR_NOT_SUPPORTED; }

TIDEPOOL_REFUSED(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp*,
                 CUmemGenericAllocationHandle)
TIDEPOOL_REFUSED(cuMulticastCreate, CUmemGenericAllocationHandle*, const CUmulticastObjectProp*)
TIDEPOOL_REFUSED(cuMulticastAddDevice, CUmemGenericAllocationHandle, CUdevice)
TIDEPOOL_REFUSED(cuMulticastBindMem, CUmemGenericAllocationHandle, std::size_t,
                 CUmemGenericAllocationHandle, std::size_t, std::size_t, unsigned long long)
TIDEPOOL_REFUSED(cuMulticastUnbind, CUmemGenericAllocationHandle, CUdevice, std::size_t,
                 std::size_t)
TIDEPOOL_REFUSED(cuMemsetD32Async, CUdeviceptr, unsigned int, std::size_t, CUstream)
// The header gives the newest variant this name.
#undef cuStreamWriteValue32
TIDEPOOL_REFUSED(cuStreamWriteValue32, CUstream, CUdeviceptr, cuuint32_t, unsigned int)

}  // extern "C"
