// SPDX-License-Identifier: Apache-2.0
// Memory that moves between streams, and streams that are created and destroyed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/bindings/cnmem/fixture.h"

namespace tidepool {
namespace {

class CnmemStreamsTest : public CnmemFixture {
 protected:
  // Returns the bytes that `reader` copies out of memory, which is then freed on `freed_on`.
  // `writer` gets the memory and fills it before the copy ends.
  static bool IsIntactAfterReuse(cudaStream_t reader, cudaStream_t freed_on, cudaStream_t writer) {
    constexpr std::size_t kBytes = 64 << 10;
    void* pinned = nullptr;
    EXPECT_EQ(cudaMallocHost(&pinned, kBytes), cudaSuccess);
    void* const read = Malloc(kBytes, reader);
    EXPECT_EQ(cudaMemsetAsync(read, 1, kBytes, reader), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(reader), cudaSuccess);
    cudartHostHoldCopies(0);
    EXPECT_EQ(cudaMemcpyAsync(pinned, read, kBytes, cudaMemcpyDeviceToHost, reader), cudaSuccess);
    Free(read, freed_on);
    void* const written = Malloc(kBytes, writer);
    EXPECT_EQ(written, read);
    EXPECT_EQ(cudaMemsetAsync(written, 2, kBytes, writer), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(writer), cudaErrorNotReady) << "it waits, on the device";
    cudartHostReleaseCopies(0);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    Free(written, writer);
    const auto* const bytes = static_cast<const char*>(pinned);
    const bool is_intact = std::count(bytes, bytes + kBytes, 1) == kBytes;
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
    return is_intact;
  }
};

TEST_F(CnmemStreamsTest, ReuseOnAnotherStreamWaitsOnTheDevice) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(64 << 10, CNMEM_FLAGS_CANNOT_GROW, streams), CNMEM_STATUS_SUCCESS);
  EXPECT_TRUE(IsIntactAfterReuse(streams[0], streams[0], streams[1]));
  EXPECT_TRUE(IsIntactAfterReuse(streams[1], streams[1], streams[0]));
  EXPECT_TRUE(IsIntactAfterReuse(streams[0], streams[0], nullptr));
  EXPECT_TRUE(IsIntactAfterReuse(nullptr, nullptr, streams[0]));
}

TEST_F(CnmemStreamsTest, AFreeOnTheDefaultStreamIsBehindTheWorkOfTheOwner) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(64 << 10, CNMEM_FLAGS_CANNOT_GROW, streams), CNMEM_STATUS_SUCCESS);
  EXPECT_TRUE(IsIntactAfterReuse(streams[0], nullptr, streams[1]));
  EXPECT_TRUE(IsIntactAfterReuse(streams[0], nullptr, nullptr)) << "which does not block it";
}

TEST_F(CnmemStreamsTest, AStreamDoesNotWaitForItself) {
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(64 << 10, CNMEM_FLAGS_CANNOT_GROW, {stream}), CNMEM_STATUS_SUCCESS);
  Free(Malloc(64 << 10, stream), stream);
  const long long calls = cudartHostCountCalls(nullptr);
  for (int i = 0; i < 1000; ++i) Free(Malloc(64 << 10, stream), stream);
  // There are two devices, so the library asks CUDA which one is current.
  EXPECT_EQ(cudartHostCountCalls(nullptr) - calls, 2000);
}

TEST_F(CnmemStreamsTest, WhereThereIsOneDeviceNothingIsAsked) {
  ConfigureStandIn({.devices = 1});
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(64 << 10, CNMEM_FLAGS_CANNOT_GROW, {stream}), CNMEM_STATUS_SUCCESS);
  const long long calls = cudartHostCountCalls(nullptr);
  for (int i = 0; i < 1000; ++i) Free(Malloc(64 << 10, stream), stream);
  EXPECT_EQ(cudartHostCountCalls(nullptr), calls);
}

TEST_F(CnmemStreamsTest, StreamsMayBeDestroyedBeforeTheEnd) {
  for (const bool is_used : {false, true}) {
    const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
    ASSERT_EQ(Init(8192, 0, streams), CNMEM_STATUS_SUCCESS);
    for (const cudaStream_t stream : streams) {
      if (is_used) Free(Malloc(1024, stream), stream);
    }
    void* const live = Malloc(512, streams[0]);
    EXPECT_NE(live, nullptr);
    for (const cudaStream_t stream : streams) ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(FreeOnDevice(), kMemory);
  }
}

TEST_F(CnmemStreamsTest, MemoryOfDestroyedStreamsGoesToOthers) {
  std::vector<cudaStream_t> streams = {NewStream(), NewStream(), NewStream()};
  ASSERT_EQ(Init(8192, CNMEM_FLAGS_CANNOT_GROW, streams), CNMEM_STATUS_SUCCESS);
  void* const first = Malloc(4096, streams[0]);
  void* const second = Malloc(4096, streams[1]);
  Free(first, streams[0]);
  ASSERT_EQ(cudaStreamDestroy(streams[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(streams[1]), cudaSuccess);
  void* const taken = Malloc(4096, streams[2]);
  EXPECT_EQ(taken, first);
  Free(second, streams[1]);  // which is destroyed already
  void* const other = Malloc(4096);
  EXPECT_EQ(other, second);
  EXPECT_EQ(cnmemFree(other, streams[0]), CNMEM_STATUS_INVALID_ARGUMENT);
  Free(taken, streams[2]);
  Free(other);
  EXPECT_EQ(GetInfo(), (Info{8192, 8192}));
}

TEST_F(CnmemStreamsTest, AHandleThatIsGivenOutAgainIsRegisteredAgain) {
  const cudaStream_t old = NewStream();
  const cudaStream_t other = NewStream();
  ASSERT_EQ(Init(8192, CNMEM_FLAGS_CANNOT_GROW, {old, other}), CNMEM_STATUS_SUCCESS);
  void* const of_old = Malloc(1024, old);
  ASSERT_EQ(cudaStreamDestroy(old), cudaSuccess);
  const cudaStream_t young = NewStream();
  ASSERT_EQ(young, old) << "as CUDA does";
  EXPECT_EQ(cnmemRegisterStream(young), CNMEM_STATUS_SUCCESS);
  void* const of_young = Malloc(1024, young);
  EXPECT_EQ(GetInfo(young), (Info{0, 2048})) << "to programs it is one";
  EXPECT_EQ(cnmemFree(of_old, other), CNMEM_STATUS_INVALID_ARGUMENT);
  Free(of_old, young);
  Free(of_young, young);
  EXPECT_EQ(GetInfo(young), (Info{0, 0}));
}

TEST_F(CnmemStreamsTest, AHandleThatIsGivenOutAgainWorksUnregisteredToo) {
  const cudaStream_t old = NewStream();
  const cudaStream_t other = NewStream();
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW, {old, other}), CNMEM_STATUS_SUCCESS);
  Free(Malloc(4096, other), other);
  void* const of_old = Malloc(4096, old);
  ASSERT_EQ(cudaStreamDestroy(old), cudaSuccess);
  const cudaStream_t young = NewStream();
  ASSERT_EQ(young, old);
  Free(of_old, young);
  Free(Malloc(4096, other), other);
  Free(Malloc(4096, young), young);
}

TEST_F(CnmemStreamsTest, TheLegacyStreamByItsOtherNameIsTheDefaultStream) {
  ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(TryMalloc(512, cudaStreamLegacy), CNMEM_STATUS_INVALID_ARGUMENT);
  ASSERT_EQ(cnmemRegisterStream(cudaStreamLegacy), CNMEM_STATUS_SUCCESS);
  void* const block = Malloc(512, cudaStreamLegacy);
  EXPECT_EQ(GetInfo(cudaStreamLegacy), (Info{3584, 4096}));
  Free(block);
}

TEST_F(CnmemStreamsTest, AThreadsOwnStreamIsOneForAllThreads) {
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW), CNMEM_STATUS_SUCCESS);
  ASSERT_EQ(cnmemRegisterStream(cudaStreamPerThread), CNMEM_STATUS_SUCCESS);
  void* const mine = Malloc(1024, cudaStreamPerThread);
  void* theirs = nullptr;
  std::thread([&] {
    Free(mine, cudaStreamPerThread);
    theirs = Malloc(512, cudaStreamPerThread);
  }).join();
  EXPECT_EQ(GetInfo(cudaStreamPerThread), (Info{0, 512}));
  Free(theirs, cudaStreamPerThread);
  Free(Malloc(4096, cudaStreamPerThread), cudaStreamPerThread);
}

TEST_F(CnmemStreamsTest, ManyStreamsAreFound) {
  ASSERT_EQ(Init(4096), CNMEM_STATUS_SUCCESS);
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < 200; ++i) {
    streams.push_back(NewStream());
    ASSERT_EQ(TryMalloc(512, streams.back()), CNMEM_STATUS_INVALID_ARGUMENT);
    ASSERT_EQ(cnmemRegisterStream(streams.back()), CNMEM_STATUS_SUCCESS);
    // A stream that is not found has no information.
    for (const cudaStream_t stream : streams) GetInfo(stream);
  }
  for (const cudaStream_t stream : streams) Free(Malloc(512, stream), stream);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  for (const cudaStream_t stream : streams) ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// Each thread writes its own number into its memory, on one of the streams, and finds it there.
TEST_F(CnmemStreamsTest, ThreadsKeepTheirContentsOnSharedStreams) {
  constexpr int kThreads = 4;
  constexpr int kStreams = 3;
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(NewStream());
  ASSERT_EQ(Init(48 << 10, CNMEM_FLAGS_CANNOT_GROW, {streams[0]}), CNMEM_STATUS_SUCCESS);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int number = 1; number <= kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::vector<char> contents(4096);
      for (int i = 0; i < 200; ++i) {
        const cudaStream_t stream = streams[(number + i) % kStreams];
        EXPECT_EQ(cnmemRegisterStream(stream), CNMEM_STATUS_SUCCESS);
        void* address = nullptr;
        if (cnmemMalloc(&address, 4096, stream) != CNMEM_STATUS_SUCCESS) continue;
        EXPECT_EQ(cudaMemsetAsync(address, number, 4096, stream), cudaSuccess);
        EXPECT_EQ(cudaMemcpyAsync(contents.data(), address, 4096, cudaMemcpyDeviceToHost, stream),
                  cudaSuccess);
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        if (std::count(contents.begin(), contents.end(), number) != 4096) ++wrong;
        Free(address, i % 5 == 0 ? nullptr : stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(GetInfo(), (Info{48 << 10, 48 << 10}));
}

// Each thread uses the library as long as it holds a reference. The last thread ends the library,
// and then another thread initializes it again.
TEST_F(CnmemStreamsTest, ReferencesAreCountedByManyThreads) {
  const cudaStream_t stream = NewStream();
  std::atomic<int> begun = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        if (cnmemRetain() != CNMEM_STATUS_SUCCESS) {
          const cnmemStatus_t status = Init(64 << 10, 0, {stream});
          // Another thread may have been faster.
          if (status != CNMEM_STATUS_SUCCESS) {
            EXPECT_EQ(status, CNMEM_STATUS_INVALID_ARGUMENT);
            continue;
          }
          ++begun;
        }
        void* const block = Malloc(1024, stream);
        Free(block, stream);
        EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(begun, 1);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(FreeOnDevice(), kMemory);
}

}  // namespace
}  // namespace tidepool
