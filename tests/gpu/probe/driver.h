// SPDX-License-Identifier: Apache-2.0
// The driver's functions of virtual memory, found through the runtime as tidepool finds them.
#ifndef TIDEPOOL_TESTS_GPU_PROBE_DRIVER_H_
#define TIDEPOOL_TESTS_GPU_PROBE_DRIVER_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

// Macros of cuda.h that would rename the functions below.
#undef cuMemGetAddressRange
#undef cuStreamWaitValue32

namespace tidepool::probe {

// Returns the address of a function of the driver, null if the driver lacks it.
void* DriverFunction(const char* name);

struct Driver {
  decltype(&::cuDeviceGetAttribute) get_attribute;
  decltype(&::cuMemGetAllocationGranularity) granularity;
  decltype(&::cuMemAddressReserve) reserve;
  decltype(&::cuMemAddressFree) free_addresses;
  decltype(&::cuMemCreate) create;
  decltype(&::cuMemRelease) release;
  decltype(&::cuMemMap) map;
  decltype(&::cuMemUnmap) unmap;
  decltype(&::cuMemSetAccess) set_access;
  decltype(&::cuMemExportToShareableHandle) export_handle;
};
const Driver& TheDriver();

// Returns the properties of memory on device 0, and the right to read and write it.
CUmemAllocationProp PropertiesOfMemory();
CUmemAccessDesc AccessOfMemory();
// Returns the smallest granularity of such memory.
std::size_t Granule();
// Reserves addresses; 0 if the driver refuses them.
CUdeviceptr Reserve(std::size_t bytes);
void* ToPointer(CUdeviceptr address);

// Pieces of physical memory at adjacent addresses.
struct Pieces {
  Pieces(int count, std::size_t bytes);
  void* start() const { return ToPointer(address); }

  CUdeviceptr address;
  std::vector<CUmemGenericAllocationHandle> handles;
};

}  // namespace tidepool::probe

#endif  // TIDEPOOL_TESTS_GPU_PROBE_DRIVER_H_
