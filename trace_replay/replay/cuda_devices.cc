// SPDX-License-Identifier: Apache-2.0
// Without CUDA the device is an error about --device.
#include "trace_replay/replay/cuda_devices.h"

#include "absl/strings/str_cat.h"

#ifdef TIDEPOOL_HAS_CUDA
#include "tidepool/cuda_device.h"
#endif

namespace tidepool::tool {

#ifdef TIDEPOOL_HAS_CUDA

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice() {
  absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Create({});
  if (!device.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device: cuda: ", std::string(device.status().message()), ", expected a GPU"));
  }
  return std::unique_ptr<Device>(*std::move(device));
}

std::string FirstGpuAddress() {
  char address[32] = {};
  const cudaError_t error = cudaDeviceGetPCIBusId(address, sizeof(address), 0);
  return error == cudaSuccess ? address : "";
}

#else

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice() {
  return absl::InvalidArgumentError(
      "--device: cuda: this build has no CUDA; use none or host, or build with the CUDA Toolkit");
}

std::string FirstGpuAddress() { return ""; }

#endif

}  // namespace tidepool::tool
