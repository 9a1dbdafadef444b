// SPDX-License-Identifier: Apache-2.0
// A GPU passes the tests of all devices. Its managed memory is tested on the stand-in only:
// allocating more than the GPU has can hang the machine.
#include "tests/memory/device/conformance.h"

#include "tidepool/cuda_device.h"

namespace tidepool {
namespace {

std::unique_ptr<Device> MakeGpu() { return *CudaDevice::Create({}); }

TIDEPOOL_INSTANTIATE_DEVICE_CONFORMANCE(Gpu, MakeGpu);

}  // namespace

// Each GPU that the suite runs on has virtual memory, and CUDA has all functions of a device.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceWithoutVirtualMemory);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceOfDefaults);

}  // namespace tidepool
