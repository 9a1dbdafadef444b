// SPDX-License-Identifier: Apache-2.0
// The driver's functions that cudaGetDriverEntryPoint finds.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_DRIVER_MEMORY_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_DRIVER_MEMORY_H_

#include <cuda.h>

#include <cstddef>

namespace tidepool::cudart_host {

// The functions of virtual memory. They check all that the driver checks. Limits of the stand-in:
// physical memory is mapped whole, and only to addresses reserved while its device was current.
CUresult GetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* properties,
                                  CUmemAllocationGranularity_flags option);
CUresult AddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                        CUdeviceptr hint, unsigned long long flags);
CUresult AddressFree(CUdeviceptr address, std::size_t bytes);
CUresult Create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                const CUmemAllocationProp* properties, unsigned long long flags);
CUresult Release(CUmemGenericAllocationHandle handle);
CUresult RetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address);
// Memory for another process, by a file of its size: without data, since no device memory is
// touched.
CUresult Export(int* file, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                unsigned long long flags);
CUresult Import(CUmemGenericAllocationHandle* handle, void* file, CUmemAllocationHandleType type);
CUresult Map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
             CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult Unmap(CUdeviceptr address, std::size_t bytes);
CUresult SetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                   std::size_t count);
CUresult GetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_DRIVER_MEMORY_H_
