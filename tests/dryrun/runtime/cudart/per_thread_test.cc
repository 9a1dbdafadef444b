// SPDX-License-Identifier: Apache-2.0
// The null stream of a program that was compiled with a default stream for each thread.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace tidepool {
namespace {

TEST(PerThreadDefaultStream, IsWhatNullMeans) {
  constexpr std::size_t kBytes = 1000;
  std::latch latch(1);
  ASSERT_EQ(
      cudaLaunchHostFunc(
          nullptr, [](void* blocking) { static_cast<std::latch*>(blocking)->wait(); }, &latch),
      cudaSuccess);
  std::thread([] {
    void* memory = nullptr;
    ASSERT_EQ(cudaMallocAsync(&memory, kBytes, nullptr), cudaSuccess);
    ASSERT_EQ(cudaMemset(memory, 7, kBytes), cudaSuccess);
    std::vector<char> read(kBytes);
    ASSERT_EQ(cudaMemcpy(read.data(), memory, kBytes, cudaMemcpyDeviceToHost), cudaSuccess)
        << "which does not wait for the other thread";
    EXPECT_EQ(read, std::vector<char>(kBytes, 7));
    EXPECT_EQ(cudaMemsetAsync(memory, 8, kBytes, nullptr), cudaSuccess);
    EXPECT_EQ(cudaFreeAsync(memory, nullptr), cudaSuccess);
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(nullptr, event, 0), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }).join();
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "as a GPU answers";
  latch.count_down();
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

}  // namespace
}  // namespace tidepool
