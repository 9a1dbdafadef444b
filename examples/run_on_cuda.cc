// SPDX-License-Identifier: Apache-2.0
// A pool on a CUDA GPU, with a stream of CUDA's own. Without a GPU it prints the reason and ends.
#include <cuda_runtime_api.h>

#include "check.h"
#include "tidepool/cuda_device.h"
#include "tidepool/pool.h"

namespace {

void CheckCuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

void Train(tidepool::CudaDevice& device) {
  cudaStream_t native;
  CheckCuda(cudaStreamCreate(&native));
  // [cuda]
  auto pool = Check(tidepool::Pool::Create(&device, {.max_bytes = std::int64_t{512} << 20}));
  const tidepool::Stream stream = Check(device.WrapStream(native));  // of cudaStreamCreate
  void* buffer = Check(pool->Allocate(1000, stream));
  CheckCuda(cudaMemsetAsync(buffer, 0, 1000, native));  // or a kernel that is launched on `native`
  Check(pool->Free(buffer, stream));
  pool.reset();
  Check(device.UnwrapStream(stream));  // before cudaStreamDestroy: CUDA gives handles out again
  // [/cuda]
  CheckCuda(cudaStreamDestroy(native));
}

}  // namespace

int main() {
  // [cuda-device]
  const auto device = tidepool::CudaDevice::Create({.ordinal = 0});
  if (absl::IsUnavailable(device.status())) {
    std::printf("no GPU: %s\n", std::string(device.status().message()).c_str());
    return 0;
  }
  Check(device.status());
  // [/cuda-device]
  Train(**device);
  std::printf("served a buffer on %s\n", (*device)->name().c_str());
  return 0;
}
