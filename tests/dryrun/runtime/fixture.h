// SPDX-License-Identifier: Apache-2.0
// The stand-in in its state at the start of a process.
#ifndef TIDEPOOL_TESTS_DRYRUN_RUNTIME_FIXTURE_H_
#define TIDEPOOL_TESTS_DRYRUN_RUNTIME_FIXTURE_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>

#include "dryrun/runtime/cudart/control.h"

namespace tidepool {

inline constexpr std::size_t kGranule = 1 << 16;

class CudartHost : public ::testing::Test {
 protected:
  explicit CudartHost(int devices = 2) { Configure(devices); }
  ~CudartHost() override { Configure(1); }

  static CudartHostConfig Config(int devices) {
    CudartHostConfig config;
    cudartHostDefaultConfig(&config);
    config.devices = devices;
    config.memory_bytes = 64 << 20;
    config.granularity = kGranule;
    config.capability = 70;
    config.has_kernels = 0;
    return config;
  }
  static void Configure(int devices) {
    const CudartHostConfig config = Config(devices);
    ASSERT_EQ(cudartHostConfigure(&config), 1);
  }

  static char* NewMemory(std::size_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(cudaMalloc(&address, bytes), cudaSuccess);
    return static_cast<char*>(address);
  }
  static char* NewPinned(std::size_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(cudaHostAlloc(&address, bytes, cudaHostAllocDefault), cudaSuccess);
    return static_cast<char*>(address);
  }
  static cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    return stream;
  }
  static cudaEvent_t NewEvent(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
  }
  static CudartHostLive Live() {
    CudartHostLive live;
    cudartHostCountLive(&live);
    return live;
  }
};

// Keeps a stream busy until Release, or until the object is destroyed.
class BusyStream {
 public:
  explicit BusyStream(cudaStream_t stream) {
    EXPECT_EQ(cudaLaunchHostFunc(
                  stream, [](void* latch) { static_cast<std::latch*>(latch)->wait(); }, &latch_),
              cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&end_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(end_, stream), cudaSuccess);
  }
  ~BusyStream() { Stop(); }
  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

  void Stop() {
    if (end_ == nullptr) return;
    latch_.count_down();
    EXPECT_EQ(cudaEventSynchronize(end_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(end_), cudaSuccess);
    end_ = nullptr;
  }

 private:
  std::latch latch_{1};
  cudaEvent_t end_ = nullptr;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_DRYRUN_RUNTIME_FIXTURE_H_
