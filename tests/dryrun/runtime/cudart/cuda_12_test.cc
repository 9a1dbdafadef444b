// SPDX-License-Identifier: Apache-2.0
// The runtime for programs that were compiled with CUDA 12: functions that have other types there.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "dryrun/runtime/cudart/cuda_12/types.h"

namespace tidepool::cudart_host::cuda_12 {
namespace {

class Cuda12Test : public ::testing::Test {
 protected:
  Cuda12Test() : library_(dlopen(TIDEPOOL_LIBCUDART_12, RTLD_NOW | RTLD_LOCAL)) {}

  void SetUp() override { ASSERT_NE(library_, nullptr) << dlerror(); }

  // Finds a function as the dynamic linker does for a program of CUDA 12.
  template <typename Function>
  Function* Find(const char* name) {
    void* const found = dlvsym(library_, name, "libcudart.so.12");
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function*>(found);
  }

  void* const library_;
};

// Memory of a program, with more bytes after it that no function may touch.
template <typename Type>
struct Guarded {
  Guarded() { std::memset(static_cast<void*>(this), 0x5a, sizeof(*this)); }
  bool IsWhole() const {
    for (const unsigned char byte : guard) {
      if (byte != 0x5a) return false;
    }
    return true;
  }
  Type value;
  unsigned char guard[256];
};

TEST_F(Cuda12Test, PropertiesHaveTheLayoutOfCuda12) {
  Guarded<DeviceProperties> properties;
  auto* const get = Find<cudaError_t(DeviceProperties*, int)>("cudaGetDeviceProperties_v2");
  ASSERT_EQ(get(&properties.value, 0), cudaSuccess);
  EXPECT_TRUE(properties.IsWhole());
  EXPECT_EQ(properties.value.warpSize, 32);
  EXPECT_EQ(properties.value.maxThreadsPerBlock, 1024);
  EXPECT_EQ(properties.value.maxThreadsDim[2], 64);
  EXPECT_EQ(properties.value.multiProcessorCount, 108);
  EXPECT_EQ(properties.value.maxThreadsPerMultiProcessor, 2048);
  EXPECT_EQ(properties.value.sharedMemPerBlockOptin, 166912U);
  EXPECT_EQ(properties.value.memoryPoolsSupported, 1);
  EXPECT_EQ(properties.value.reserved[62], 0);
  EXPECT_EQ(get(&properties.value, 99), cudaErrorInvalidDevice);
  EXPECT_EQ(get(nullptr, 0), cudaErrorInvalidValue);
}

TEST_F(Cuda12Test, AttributesOfPointersHaveTheLayoutOfCuda12) {
  Guarded<PointerAttributes> attributes;
  auto* const allocate = Find<cudaError_t(void**, std::size_t)>("cudaMalloc");
  auto* const get = Find<cudaError_t(PointerAttributes*, const void*)>("cudaPointerGetAttributes");
  auto* const release = Find<cudaError_t(void*)>("cudaFree");
  void* memory = nullptr;
  ASSERT_EQ(allocate(&memory, 1000), cudaSuccess);
  ASSERT_EQ(get(&attributes.value, memory), cudaSuccess);
  EXPECT_TRUE(attributes.IsWhole());
  EXPECT_EQ(attributes.value.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.value.devicePointer, memory);
  EXPECT_EQ(release(memory), cudaSuccess);
}

TEST_F(Cuda12Test, CapturesAreAskedForWithTheArgumentsOfCuda12) {
  auto* const create = Find<cudaError_t(cudaStream_t*)>("cudaStreamCreate");
  auto* const begin =
      Find<cudaError_t(cudaStream_t, cudaStreamCaptureMode)>("cudaStreamBeginCapture");
  auto* const end = Find<cudaError_t(cudaStream_t, cudaGraph_t*)>("cudaStreamEndCapture");
  cudaStream_t stream = nullptr;
  ASSERT_EQ(create(&stream), cudaSuccess);
  ASSERT_EQ(begin(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  auto* const ask = Find<cudaError_t(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*)>(
      "cudaStreamGetCaptureInfo");
  ASSERT_EQ(ask(stream, &status, &id), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0U);
  unsigned long long same = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 99;
  auto* const ask_all =
      Find<cudaError_t(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*, cudaGraph_t*,
                       const cudaGraphNode_t**, std::size_t*)>("cudaStreamGetCaptureInfo_v2");
  ASSERT_EQ(ask_all(stream, &status, &same, &graph, &nodes, &count), cudaSuccess);
  EXPECT_EQ(same, id);
  EXPECT_NE(graph, nullptr);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(end(stream, &graph), cudaSuccess);
}

TEST_F(Cuda12Test, SaysItsVersion) {
  int version = 0;
  ASSERT_EQ(Find<cudaError_t(int*)>("cudaRuntimeGetVersion")(&version), cudaSuccess);
  EXPECT_EQ(version / 1000, 12);
}

}  // namespace
}  // namespace tidepool::cudart_host::cuda_12
