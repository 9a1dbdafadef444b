// A CUDA device does what every device must do, whichever it is and wherever its memory comes from.
#include "tests/device/conformance.h"

#include "tidepool/cuda_device.h"

namespace tidepool {
namespace {

std::unique_ptr<Device> MakeCudaDevice() { return *CudaDevice::Create({}); }

// While another device is the thread's.
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
}  // namespace tidepool
