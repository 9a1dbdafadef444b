// SPDX-License-Identifier: Apache-2.0
// The driver's virtual memory on the stand-in.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "tests/dryrun/runtime/fixture.h"

namespace tidepool {
namespace {

class DriverMemoryTest : public CudartHost {
 protected:
  template <typename Function>
  static Function Find(const char* name) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &result),
              cudaSuccess);
    EXPECT_EQ(result, cudaDriverEntryPointSuccess);
    return reinterpret_cast<Function>(entry);
  }

  static CUmemAllocationProp On(int device) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    return properties;
  }
  CUdeviceptr Reserve(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(reserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  CUmemGenericAllocationHandle Create(std::size_t bytes, int device = 0) {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp properties = On(device);
    EXPECT_EQ(create(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  CUresult Allow(CUdeviceptr address, std::size_t bytes, int device = 0) {
    CUmemAccessDesc access = {};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return set_access(address, bytes, &access, 1);
  }
  static cudaError_t Fill(CUdeviceptr address, int value, std::size_t bytes) {
    const cudaError_t error = cudaMemset(reinterpret_cast<void*>(address), value, bytes);
    return error == cudaSuccess ? cudaDeviceSynchronize() : error;
  }

  PFN_cuMemGetAllocationGranularity_v10020 granularity =
      Find<PFN_cuMemGetAllocationGranularity_v10020>("cuMemGetAllocationGranularity");
  PFN_cuMemAddressReserve_v10020 reserve =
      Find<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve");
  PFN_cuMemAddressFree_v10020 free_addresses =
      Find<PFN_cuMemAddressFree_v10020>("cuMemAddressFree");
  PFN_cuMemCreate_v10020 create = Find<PFN_cuMemCreate_v10020>("cuMemCreate");
  PFN_cuMemRelease_v10020 release = Find<PFN_cuMemRelease_v10020>("cuMemRelease");
  PFN_cuMemRetainAllocationHandle_v11000 retain =
      Find<PFN_cuMemRetainAllocationHandle_v11000>("cuMemRetainAllocationHandle");
  PFN_cuMemMap_v10020 map = Find<PFN_cuMemMap_v10020>("cuMemMap");
  PFN_cuMemUnmap_v10020 unmap = Find<PFN_cuMemUnmap_v10020>("cuMemUnmap");
  PFN_cuMemSetAccess_v10020 set_access = Find<PFN_cuMemSetAccess_v10020>("cuMemSetAccess");
};

TEST_F(DriverMemoryTest, EntryPointsAreFoundByNameAndVersion) {
  void* entry = this;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNothing", &entry, 12000, 0, &result), cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(entry, nullptr);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemCreate", &entry, 9000, 0, &result), cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointVersionNotSufficent);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(nullptr, &entry, 12000, 0, &result),
            cudaErrorInvalidValue);
  const char* words = nullptr;
  EXPECT_EQ(Find<PFN_cuGetErrorString_v6000>("cuGetErrorString")(CUDA_ERROR_OUT_OF_MEMORY, &words),
            CUDA_SUCCESS);
  EXPECT_STREQ(words, "out of memory");
}

TEST_F(DriverMemoryTest, TakesMultiplesOfTheGranularityAndNothingElse) {
  std::size_t granule = 0;
  CUmemAllocationProp properties = On(0);
  EXPECT_EQ(granularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
  EXPECT_EQ(granule, kGranule);
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  for (const std::size_t bytes : {std::size_t{0}, kGranule - 1, kGranule + 1}) {
    EXPECT_EQ(reserve(&address, bytes, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(create(&handle, bytes, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(reserve(&address, kGranule, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(&handle, kGranule, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(&handle, 65 << 20, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  properties = On(9);
  EXPECT_EQ(create(&handle, kGranule, &properties, 0), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DriverMemoryTest, IsCopiedToADeviceWithoutAccessByCallsThatNameBoth) {
  const CUdeviceptr range = Reserve(kGranule);
  ASSERT_EQ(map(range, kGranule, 0, Create(kGranule), 0), CUDA_SUCCESS);
  ASSERT_EQ(Allow(range, kGranule), CUDA_SUCCESS);
  ASSERT_EQ(Fill(range, 7, kGranule), cudaSuccess);
  const void* const here = reinterpret_cast<const void*>(range);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void* there = nullptr;
  ASSERT_EQ(cudaMalloc(&there, kGranule), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(there, here, kGranule, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyPeer(there, 1, here, 0, kGranule), cudaSuccess);
  std::vector<char> bytes(kGranule);
  EXPECT_EQ(cudaMemcpy(bytes.data(), there, kGranule, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(bytes, std::vector<char>(kGranule, 7));
  EXPECT_EQ(Allow(range, kGranule, 1), CUDA_SUCCESS);
  EXPECT_EQ(cudaMemcpy(there, here, kGranule, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaFree(there), cudaSuccess);
}

TEST_F(DriverMemoryTest, IsUsedOnlyAfterItWasAllowed) {
  const CUdeviceptr range = Reserve(4 * kGranule);
  const CUmemGenericAllocationHandle handle = Create(kGranule);
  EXPECT_EQ(Fill(range, 1, 1), cudaErrorInvalidValue) << "nothing is mapped";
  ASSERT_EQ(map(range, kGranule, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(Fill(range, 1, kGranule), cudaErrorInvalidValue) << "it is not accessible";
  EXPECT_EQ(Allow(range, 2 * kGranule), CUDA_ERROR_INVALID_VALUE) << "half of it is not mapped";
  EXPECT_EQ(Allow(range, kGranule, 1), CUDA_SUCCESS);
  EXPECT_EQ(Fill(range, 1, kGranule), cudaErrorInvalidValue) << "the other device may";
  EXPECT_EQ(Allow(range, kGranule, 9), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Allow(range, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(Fill(range, 1, kGranule), cudaSuccess);
  ASSERT_EQ(unmap(range, kGranule), CUDA_SUCCESS);
  ASSERT_EQ(map(range, kGranule, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(Fill(range, 1, kGranule), cudaErrorInvalidValue) << "it was mapped anew";
}

TEST_F(DriverMemoryTest, MapsWholeHandlesToFreeAddresses) {
  const CUdeviceptr range = Reserve(4 * kGranule);
  const CUmemGenericAllocationHandle two = Create(2 * kGranule);
  EXPECT_EQ(map(range, 2 * kGranule, kGranule, two, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(range, kGranule, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(range + 1, 2 * kGranule, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(range + 3 * kGranule, 2 * kGranule, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(range, 2 * kGranule, 0, 12345, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(map(range + kGranule, 2 * kGranule, 0, two, 0), CUDA_SUCCESS);
  EXPECT_EQ(map(range, 2 * kGranule, 0, two, 0), CUDA_ERROR_INVALID_VALUE) << "it is in the way";
  EXPECT_EQ(free_addresses(range, 4 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(unmap(range + kGranule, kGranule), CUDA_ERROR_INVALID_VALUE) << "half of it";
  EXPECT_EQ(unmap(range, 3 * kGranule), CUDA_ERROR_INVALID_VALUE) << "with a gap";
  const CUmemGenericAllocationHandle one = Create(kGranule);
  ASSERT_EQ(map(range, kGranule, 0, one, 0), CUDA_SUCCESS);
  EXPECT_EQ(unmap(range, 3 * kGranule), CUDA_SUCCESS) << "two at once";
  EXPECT_EQ(free_addresses(range, 3 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(free_addresses(range, 4 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(free_addresses(range, 4 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release(one), CUDA_SUCCESS);
  EXPECT_EQ(release(one), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverMemoryTest, MemoryLivesAsLongAsAnybodyHasIt) {
  std::size_t all = 0;
  ASSERT_EQ(cudaMemGetInfo(&all, nullptr), cudaSuccess);
  const auto used = [&] {
    std::size_t free_bytes = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, nullptr), cudaSuccess);
    return all - free_bytes;
  };
  const CUdeviceptr range = Reserve(2 * kGranule);
  const CUmemGenericAllocationHandle handle = Create(kGranule);
  EXPECT_EQ(used(), kGranule);
  ASSERT_EQ(map(range, kGranule, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(release(handle), CUDA_SUCCESS);
  CUmemGenericAllocationHandle again = 0;
  ASSERT_EQ(retain(&again, reinterpret_cast<void*>(range)), CUDA_SUCCESS);
  ASSERT_EQ(map(range + kGranule, kGranule, 0, again, 0), CUDA_SUCCESS) << "a second address";
  ASSERT_EQ(Allow(range, 2 * kGranule), CUDA_SUCCESS);
  ASSERT_EQ(Fill(range, 9, kGranule), cudaSuccess);
  char byte = 0;
  ASSERT_EQ(cudaMemcpy(&byte, reinterpret_cast<void*>(range + 2 * kGranule - 1), 1,
                       cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(byte, 9);
  ASSERT_EQ(unmap(range, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(used(), kGranule);
  ASSERT_EQ(release(again), CUDA_SUCCESS);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(free_addresses(range, 2 * kGranule), CUDA_SUCCESS);
  const CudartHostLive live = Live();
  EXPECT_EQ(live.physical_handles + live.mappings + live.reservations, 0);
}

TEST_F(DriverMemoryTest, ADriverMayHaveNone) {
  CudartHostConfig config = Config(1);
  config.has_virtual_memory = 0;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  int value = 1;
  const auto attribute = Find<PFN_cuDeviceGetAttribute_v2000>("cuDeviceGetAttribute");
  EXPECT_EQ(attribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 0);
  CUdeviceptr address = 0;
  EXPECT_EQ(reserve(&address, kGranule, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
}

// A process that imports memory holds addresses for it: the other one counts it.
TEST_F(DriverMemoryTest, IsSharedWithoutData) {
  const auto share = Find<PFN_cuMemExportToShareableHandle_v10020>("cuMemExportToShareableHandle");
  const auto import =
      Find<PFN_cuMemImportFromShareableHandle_v10020>("cuMemImportFromShareableHandle");
  constexpr auto kFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int file = -1;
  EXPECT_EQ(share(&file, Create(kGranule), kFile, 0), CUDA_ERROR_NOT_SUPPORTED)
      << "no process sees the data of another one";
  CudartHostConfig config = Config(1);
  config.has_data = 0;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  const CUmemGenericAllocationHandle own = Create(2 * kGranule);
  ASSERT_EQ(share(&file, own, kFile, 0), CUDA_SUCCESS);
  std::size_t free_before = 0;
  std::size_t free_after = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  CUmemGenericAllocationHandle imported = 0;
  void* const handle_of_file = reinterpret_cast<void*>(static_cast<std::intptr_t>(file));
  ASSERT_EQ(import(&imported, handle_of_file, kFile), CUDA_SUCCESS);
  const CUdeviceptr range = Reserve(2 * kGranule);
  ASSERT_EQ(map(range, 2 * kGranule, 0, imported, 0), CUDA_SUCCESS);
  EXPECT_EQ(Allow(range, 2 * kGranule), CUDA_SUCCESS);
  ASSERT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_EQ(free_after, free_before);
  EXPECT_EQ(Fill(range, 1, 2 * kGranule), cudaSuccess);
  EXPECT_EQ(unmap(range, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(release(imported), CUDA_SUCCESS);
  EXPECT_EQ(close(file), 0);
}

TEST_F(DriverMemoryTest, TensorsAreDescribed) {
  const auto encode = Find<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  CUtensorMap described;
  const cuuint64_t sizes[] = {64, 64};
  const cuuint64_t strides[] = {256};
  const cuuint32_t box[] = {64, 64};
  const cuuint32_t steps[] = {1, 1};
  EXPECT_EQ(encode(&described, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, nullptr, sizes, strides, box,
                   steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                   CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            CUDA_SUCCESS);
}

TEST_F(DriverMemoryTest, AResetTakesItToo) {
  const CUdeviceptr range = Reserve(kGranule);
  const CUmemGenericAllocationHandle handle = Create(kGranule);
  ASSERT_EQ(map(range, kGranule, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  const CudartHostLive live = Live();
  EXPECT_EQ(live.physical_handles + live.mappings + live.reservations, 0);
  EXPECT_EQ(release(handle), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tidepool
