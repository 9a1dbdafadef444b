// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of the stand-in, as frameworks load it.
#include <cuda.h>
#include <dlfcn.h>

#include "tests/dryrun/runtime/fixture.h"

namespace tidepool {
namespace {

class DriverLibraryTest : public CudartHost {
 protected:
  // Looks a function up as cuda-bindings does.
  template <typename Function>
  Function* Find(const char* name) {
    void* found = nullptr;
    const auto get =
        reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(library_, "cuGetProcAddress_v2"));
    EXPECT_EQ(get(name, &found, CUDA_VERSION, 0, nullptr), CUDA_SUCCESS) << name;
    return reinterpret_cast<Function*>(found);
  }

  void* const library_ = dlopen(TIDEPOOL_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
};

TEST_F(DriverLibraryTest, FindsTheNewestVariantOfAName) {
  ASSERT_NE(library_, nullptr) << dlerror();
  EXPECT_EQ(reinterpret_cast<void*>(Find<decltype(cuMemAlloc)>("cuMemAlloc")),
            dlsym(library_, "cuMemAlloc_v2"));
  const auto get =
      reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(library_, "cuGetProcAddress_v2"));
  void* found = &found;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(get("cuNoSuchFunction", &found, CUDA_VERSION, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

// NVRTC calls it wherever a driver is loaded.
TEST_F(DriverLibraryTest, HasNoExportedTables) {
  const void* table = this;
  EXPECT_EQ(Find<decltype(cuGetExportTable)>("cuGetExportTable")(&table, nullptr),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(table, nullptr);
}

TEST_F(DriverLibraryTest, HasVirtualMemory) {
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  std::size_t bytes = 0;
  ASSERT_EQ(Find<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
                &bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(Find<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&address, bytes, 0, 0, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(Find<decltype(cuMemCreate)>("cuMemCreate")(&handle, bytes, &properties, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(Find<decltype(cuMemMap)>("cuMemMap")(address, bytes, 0, handle, 0), CUDA_SUCCESS);
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_EQ(Find<decltype(cuMemSetAccess)>("cuMemSetAccess")(address, bytes, &access, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(cudaMemset(reinterpret_cast<void*>(address), 1, bytes), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(Find<decltype(cuMemUnmap)>("cuMemUnmap")(address, bytes), CUDA_SUCCESS);
  EXPECT_EQ(Find<decltype(cuMemRelease)>("cuMemRelease")(handle), CUDA_SUCCESS);
  EXPECT_EQ(Find<decltype(cuMemAddressFree)>("cuMemAddressFree")(address, bytes), CUDA_SUCCESS);
}

TEST_F(DriverLibraryTest, SharesMemoryAndStreamsWithTheRuntime) {
  CUdeviceptr address = 0;
  ASSERT_EQ(Find<decltype(cuMemAlloc)>("cuMemAlloc")(&address, 64), CUDA_SUCCESS);
  CUstream stream = nullptr;
  ASSERT_EQ(Find<decltype(cuStreamCreate)>("cuStreamCreate")(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cudaMemsetAsync(reinterpret_cast<void*>(address), 5, 64, stream), cudaSuccess);
  ASSERT_EQ(Find<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(stream), CUDA_SUCCESS);
  char copy[64] = {};
  ASSERT_EQ(Find<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH")(copy, address, 64), CUDA_SUCCESS);
  EXPECT_EQ(copy[63], 5);
  EXPECT_EQ(cudaFree(reinterpret_cast<void*>(address)), cudaSuccess);
  EXPECT_EQ(Find<decltype(cuMemFree)>("cuMemFree")(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverLibraryTest, ContextsAreDevices) {
  CUcontext second = nullptr;
  ASSERT_EQ(Find<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&second, 1),
            CUDA_SUCCESS);
  ASSERT_EQ(Find<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent")(second), CUDA_SUCCESS);
  int device = -1;
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  CUcontext popped = nullptr;
  const auto pop = Find<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent");
  ASSERT_EQ(pop(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, second);
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(pop(&popped), CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace
}  // namespace tidepool
