// SPDX-License-Identifier: Apache-2.0
// CUDA devices pass the tests of all devices, for every ordinal and every kind of memory.
#include "tests/memory/device/conformance.h"

#include "tidepool/cuda_device.h"

namespace tidepool {
namespace {

std::unique_ptr<Device> MakeCudaDevice() { return *CudaDevice::Create({}); }

// Runs the tests while another device is the thread's current device.
std::unique_ptr<Device> MakeLastCudaDevice() {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  return *CudaDevice::Create({.ordinal = count - 1});
}

std::unique_ptr<Device> MakeManagedCudaDevice() {
  return *CudaDevice::Create({.memory = CudaMemory::kManaged});
}

TIDEPOOL_INSTANTIATE_DEVICE_CONFORMANCE(Cuda, MakeCudaDevice);
TIDEPOOL_INSTANTIATE_DEVICE_CONFORMANCE(LastCuda, MakeLastCudaDevice);
TIDEPOOL_INSTANTIATE_CONFORMANCE_WITHOUT_VIRTUAL_MEMORY(ManagedCuda, MakeManagedCudaDevice);

}  // namespace

// CUDA has all functions of a device.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceOfDefaults);

}  // namespace tidepool
