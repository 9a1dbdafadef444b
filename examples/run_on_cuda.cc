// SPDX-License-Identifier: Apache-2.0
// A pool on a CUDA GPU, with a stream of CUDA's own. Without a GPU it prints the reason and ends.
#include <cuda_runtime_api.h>

#include "check.h"
#include "tidepool/cuda_device.h"
#include "tidepool/nvtx_observer.h"
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

// Serves a buffer that compute-sanitizer checks, when it is attached.
void TrainUnderTools(tidepool::CudaDevice& device) {
  // [nvtx]
  const auto observer = tidepool::MakeNvtxObserver(device);  // null when no tool is attached
  tidepool::PoolOptions options{.memory = tidepool::PoolMemory::kSegments};
  options.recorder = observer.get();  // or MakeNvtxObserver(device, &recorder), to record as well
  const auto pool = Check(tidepool::Pool::Create(&device, options));
  // [/nvtx]
  const tidepool::Stream stream = Check(device.CreateStream());
  Check(pool->Free(Check(pool->Allocate(1000, stream)), stream));
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
  TrainUnderTools(**device);
  std::printf("served a buffer on %s\n", (*device)->name().c_str());
  return 0;
}
