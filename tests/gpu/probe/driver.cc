// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/probe/driver.h"

namespace tidepool::probe {
namespace {

constexpr unsigned kCuda12 = 12000;

template <typename Function>
void Find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(DriverFunction(name));
}

Driver FindAll() {
  Driver driver = {};
  Find("cuDeviceGetAttribute", driver.get_attribute);
  Find("cuMemGetAllocationGranularity", driver.granularity);
  Find("cuMemAddressReserve", driver.reserve);
  Find("cuMemAddressFree", driver.free_addresses);
  Find("cuMemCreate", driver.create);
  Find("cuMemRelease", driver.release);
  Find("cuMemMap", driver.map);
  Find("cuMemUnmap", driver.unmap);
  Find("cuMemSetAccess", driver.set_access);
  Find("cuMemExportToShareableHandle", driver.export_handle);
  return driver;
}

}  // namespace

void* DriverFunction(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion(name, &function, kCuda12, cudaEnableDefault, &found);
  return function;
}

const Driver& TheDriver() {
  static const Driver driver = FindAll();
  return driver;
}

CUmemAllocationProp PropertiesOfMemory() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

CUmemAccessDesc AccessOfMemory() {
  CUmemAccessDesc access = {};
  access.location = PropertiesOfMemory().location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

std::size_t Granule() {
  static const std::size_t granule = [] {
    std::size_t bytes = std::size_t{2} << 20;
    const CUmemAllocationProp properties = PropertiesOfMemory();
    if (TheDriver().granularity != nullptr) {
      TheDriver().granularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    }
    return bytes;
  }();
  return granule;
}

CUdeviceptr Reserve(std::size_t bytes) {
  CUdeviceptr address = 0;
  TheDriver().reserve(&address, bytes, Granule(), 0, 0);
  return address;
}

void* ToPointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

Pieces::Pieces(int count, std::size_t bytes)
    : address(Reserve(static_cast<std::size_t>(count) * bytes)),
      handles(static_cast<std::size_t>(count)) {
  const CUmemAllocationProp properties = PropertiesOfMemory();
  const CUmemAccessDesc access = AccessOfMemory();
  for (std::size_t i = 0; i < handles.size(); ++i) {
    TheDriver().create(&handles[i], bytes, &properties, 0);
    TheDriver().map(address + i * bytes, bytes, 0, handles[i], 0);
    TheDriver().set_access(address + i * bytes, bytes, &access, 1);
  }
}

}  // namespace tidepool::probe
