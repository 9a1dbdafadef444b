// SPDX-License-Identifier: Apache-2.0
// Calls the allocator through TensorRT's interface.
#include "tidepool/tensorrt_allocator.h"

#include <cuda_runtime_api.h>

#include "expect.h"

int main() {
  // [tensorrt]
  tidepool::TensorRtAllocator allocator("device=cuda:0,budget=64MiB");
  nvinfer1::IGpuAllocator& interface = allocator;  // runtime->setGpuAllocator(&allocator)
  // [/tensorrt]
  cudaStream_t stream = nullptr;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  void* const plain = interface.allocateAsync(1000, 256, 0, stream);
  EXPECT(plain != nullptr && StatisticsOf(allocator.pool()).live_bytes == 1024);
  EXPECT(interface.reallocate(plain, 256, 10) == nullptr);

  const nvinfer1::AllocatorFlags resizable =
      1U << static_cast<int>(nvinfer1::AllocatorFlag::kRESIZABLE);
  void* const growing = interface.allocateAsync(1 << 20, 256, resizable, stream);
  EXPECT(growing != nullptr);
  EXPECT(interface.reallocate(growing, 256, (1 << 20) + (1 << 18)) == growing);
  EXPECT(interface.reallocate(growing, 256, 100) == growing);
  EXPECT(interface.reallocate(growing, 256, 2 << 20) == nullptr);
  EXPECT(StatisticsOf(allocator.pool()).live_count == 2);

  EXPECT(interface.allocateAsync(std::uint64_t{1} << 40, 256, 0, stream) == nullptr);
  EXPECT(interface.allocateAsync(~std::uint64_t{0}, 256, resizable, stream) == nullptr);
  EXPECT(interface.allocateAsync(~std::uint64_t{0} / 5 * 4 + 500, 256, resizable, stream) ==
         nullptr);
  EXPECT(interface.allocateAsync(1000, std::uint64_t{1} << 45, 0, stream) == nullptr);
  EXPECT(interface.allocateAsync(0, 256, resizable, stream) == nullptr);
  int outside = 0;
  EXPECT(!interface.deallocateAsync(&outside, stream));
  EXPECT(interface.deallocateAsync(plain, stream) && interface.deallocateAsync(growing, stream));
  EXPECT(!interface.deallocateAsync(growing, stream));
  EXPECT(interface.deallocateAsync(nullptr, stream));
  EXPECT(StatisticsOf(allocator.pool()).live_count == 0);
  EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
  std::printf("TensorRT %d.%d's interface: OK\n", NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR);
}
