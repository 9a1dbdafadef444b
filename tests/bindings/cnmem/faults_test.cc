// SPDX-License-Identifier: Apache-2.0
// Each call of CUDA in a program's life fails once. The caller gets an error if it matters to the
// caller, no memory is lost, and the next try succeeds.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "tests/bindings/cnmem/fixture.h"

namespace tidepool {
namespace {

struct Case {
  unsigned flags;
  const char* memory;
  cudaError_t error;
};

class CnmemFaultsTest : public CnmemFixture, public ::testing::WithParamInterface<Case> {
 protected:
  // Tries an operation twice. A first failure must return an error code; a second failure is an
  // error of the test.
  void Try(const std::function<cnmemStatus_t()>& call) {
    const cnmemStatus_t first = call();
    static_cast<void>(cudaGetLastError());
    int current = -1;
    if (cudaGetDevice(&current) == cudaSuccess) {
      EXPECT_EQ(current, 0);
    }
    static_cast<void>(cudaGetLastError());
    if (first == CNMEM_STATUS_SUCCESS) return;
    ++failures_;
    EXPECT_EQ(call(), CNMEM_STATUS_SUCCESS) << cnmemGetErrorString(first);
  }

  void Play() {
    cnmemDevice_t devices[2] = {};
    std::size_t reserved[] = {1 << 20, 0};
    devices[0] = {0, 2 << 20, 2, streams_, reserved};
    devices[1].device = 1;
    devices[1].size = 1 << 20;
    Try([&] { return cnmemInit(2, devices, GetParam().flags); });
    std::vector<std::pair<void*, cudaStream_t>> live;
    Try([&] { return cnmemRegisterStream(streams_[2]); });
    const auto allocate = [&](std::size_t bytes, cudaStream_t stream) {
      void* address = nullptr;
      Try([&] { return cnmemMalloc(&address, bytes, stream); });
      live.emplace_back(address, stream);
    };
    for (int i = 0; i < 8; ++i) allocate(700 << 10, i % 4 == 3 ? nullptr : streams_[i % 4]);
    for (std::size_t i = 0; i < live.size(); ++i) {
      const cudaStream_t stream = i < 4 ? live[i].second : nullptr;
      Try([&] { return cnmemFree(live[i].first, stream); });
    }
    live.clear();
    // More than the largest hole, across streams, and on a stream that is destroyed.
    allocate(3 << 20, streams_[1]);
    allocate(1 << 20, streams_[0]);
    Try([&] { return cnmemFree(live[0].first, streams_[1]); });
    cudaStreamDestroy(streams_[1]);
    allocate(3 << 20, streams_[2]);
    std::size_t bytes = 0;
    Try([&] { return cnmemMemGetInfo(&bytes, &bytes, nullptr); });
    FILE* const nowhere = fopen("/dev/null", "w");
    Try([&] { return cnmemPrintMemoryState(nowhere, nullptr); });
    fclose(nowhere);
  }

  void Begin() {
    ConfigureStandIn({});
    for (cudaStream_t& stream : streams_) stream = NewStream();
    failures_ = 0;
  }

  cudaStream_t streams_[3] = {};
  int failures_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, CnmemFaultsTest,
    ::testing::Values(Case{CNMEM_FLAGS_DEFAULT, "segments", cudaErrorDevicesUnavailable},
                      Case{CNMEM_FLAGS_DEFAULT, "virtual", cudaErrorDevicesUnavailable},
                      Case{CNMEM_FLAGS_MANAGED, "segments", cudaErrorDevicesUnavailable},
                      Case{CNMEM_FLAGS_CANNOT_STEAL, "segments", cudaErrorDevicesUnavailable},
                      Case{CNMEM_FLAGS_DEFAULT, "segments", cudaErrorMemoryAllocation}));

TEST_P(CnmemFaultsTest, FailTheCallAndNothingElse) {
  const Variable memory("TIDEPOOL_CNMEM_MEMORY", GetParam().memory);
  Begin();
  const long long before = cudartHostCountCalls(nullptr);
  Play();
  ASSERT_EQ(failures_, 0);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  const long long calls = cudartHostCountCalls(nullptr) - before;
  ASSERT_GT(calls, 50);
  int told = 0;
  for (long long n = 1; n <= calls && !HasFailure(); ++n) {
    Begin();
    cudartHostFailCall(nullptr, n, GetParam().error);
    Play();
    EXPECT_LE(failures_, 1);
    told += failures_;
    // Calls at the end are made twice if they fail.
    EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
    cudartHostFailCall(nullptr, 0, 0);
    ExpectOnlyStreamsAreLive();
    EXPECT_FALSE(HasFailure()) << "call " << n << " of " << calls;
  }
  EXPECT_GT(told, 10);
}

TEST_F(CnmemFixture, ADeviceThatIsBrokenIsReportedAndLeft) {
  const cudaStream_t stream = NewStream();
  const cudaStream_t other = NewStream();
  ASSERT_EQ(Init(4096, 0, {stream, other}), CNMEM_STATUS_SUCCESS);
  Free(Malloc(4096, stream), stream);
  cudartHostBreakDevice(0, cudaErrorIllegalAddress);
  EXPECT_EQ(TryMalloc(4096, other), CNMEM_STATUS_CUDA_ERROR);
  EXPECT_EQ(TryMalloc(1 << 20), CNMEM_STATUS_CUDA_ERROR);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_CUDA_ERROR);
  EXPECT_NE(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_NOT_INITIALIZED);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  static_cast<void>(cudaGetLastError());
  ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS) << "and after a reset another one begins";
  Free(Malloc(4096));
}

// After a reset CUDA has the memory back, and the library must not touch new objects at the old
// addresses.
TEST_F(CnmemFixture, EndsAfterAResetOfTheDevice) {
  const std::pair<std::string, std::string> memories[] = {
      {"MEMORY", "segments"}, {"MEMORY", "virtual"}, {"REMAP", "1"}};
  for (const auto& [name, value] : memories) {
    const Variable memory("TIDEPOOL_CNMEM_" + name, value);
    for (const unsigned flags :
         {CNMEM_FLAGS_DEFAULT, CNMEM_FLAGS_MANAGED, CNMEM_FLAGS_CANNOT_STEAL}) {
      SCOPED_TRACE(name + " " + std::to_string(flags));
      const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
      ASSERT_EQ(Init(1 << 20, flags, streams, {4096, 0}), CNMEM_STATUS_SUCCESS);
      Free(Malloc(4096, streams[0]), streams[0]);
      Malloc(4096, streams[1]);
      Malloc(2 << 20);
      ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
      cudaEvent_t event = nullptr;
      ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);  // may get the handle of a destroyed event
      ::testing::internal::CaptureStderr();
      EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
      EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
      EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
      EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
      EXPECT_EQ(FreeOnDevice(), kMemory);
      ASSERT_EQ(Init(1 << 20, flags), CNMEM_STATUS_SUCCESS) << "and it begins anew";
      Free(Malloc(4096));
      ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
    }
  }
}

TEST_F(CnmemFixture, OneDeviceIsResetAndAnotherIsNot) {
  cnmemDevice_t devices[2] = {};
  devices[0].size = devices[1].size = 1 << 20;
  devices[1].device = 1;
  ASSERT_EQ(cnmemInit(2, devices, 0), CNMEM_STATUS_SUCCESS);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(FreeOnDevice(), kMemory) << "and the other one has its memory back";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(CnmemFixture, GrowthThatFailsLeavesRoomForLess) {
  ASSERT_EQ(Init(1 << 20), CNMEM_STATUS_SUCCESS);
  Malloc(512);
  Malloc((1 << 20) - 512);
  cudartHostFailCall("cudaMalloc", 1, cudaErrorMemoryAllocation);
  void* const small = Malloc(4096);  // without the reserve that could not be taken
  EXPECT_EQ(FreeOnDevice(), kMemory - (1 << 20) - 4096);
  void* taken = nullptr;
  ASSERT_EQ(cudaMalloc(&taken, FreeOnDevice()), cudaSuccess);
  EXPECT_EQ(TryMalloc(4 << 20), CNMEM_STATUS_OUT_OF_MEMORY);
  Free(small);
  EXPECT_EQ(Malloc(4096), small);
  ASSERT_EQ(cudaFree(taken), cudaSuccess);
  Free(Malloc(4 << 20));
}

TEST_F(CnmemFixture, WithoutDevicesThereIsACudaError) {
  ConfigureStandIn({.devices = 0});
  EXPECT_EQ(Init(4096), CNMEM_STATUS_CUDA_ERROR);
  EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_NOT_INITIALIZED);
}

}  // namespace
}  // namespace tidepool
