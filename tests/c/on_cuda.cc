// SPDX-License-Identifier: Apache-2.0
// The C face on the stand-in for the CUDA runtime: streams of the caller, and devices that end.
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "tests/c/fixture.h"
#include "tests/cuda/stand_in.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

class CFaceOnCudaTest : public ::testing::Test {
 protected:
  CFaceOnCudaTest() { ConfigureStandIn({}); }
  ~CFaceOnCudaTest() override {
    ExpectOnlyStreamsAreLive();
    ConfigureStandIn({});
  }

  static cudaStream_t NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static void Destroy(cudaStream_t stream) { EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess); }

  // Returns whether memory that `reader` copies from keeps its bytes until the copy has ended, when
  // it is freed on `freed_on` and filled on `writer`.
  static bool IsIntactAfterReuse(const CPool& pool, cudaStream_t reader, cudaStream_t freed_on,
                                 cudaStream_t writer) {
    constexpr std::size_t kBytes = 64 << 10;
    void* pinned = nullptr;
    EXPECT_EQ(cudaMallocHost(&pinned, kBytes), cudaSuccess);
    void* const read = pool.Allocate(kBytes, reader);
    EXPECT_EQ(cudaMemsetAsync(read, 1, kBytes, reader), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(reader), cudaSuccess);
    cudartHostHoldCopies(0);
    EXPECT_EQ(cudaMemcpyAsync(pinned, read, kBytes, cudaMemcpyDeviceToHost, reader), cudaSuccess);
    if (freed_on != reader) {
      EXPECT_EQ(tidepool_record_use(pool.get(), read, reader), TIDEPOOL_OK);
    }
    pool.Free(read, freed_on);
    void* const written = pool.Allocate(kBytes, writer);
    EXPECT_EQ(written, read);
    EXPECT_EQ(cudaMemsetAsync(written, 2, kBytes, writer), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(writer), cudaErrorNotReady) << "it waits, on the device";
    cudartHostReleaseCopies(0);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    pool.Free(written, writer);
    const auto* const bytes = static_cast<const char*>(pinned);
    const bool is_intact = std::count(bytes, bytes + kBytes, 1) == kBytes;
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
    return is_intact;
  }
};

TEST_F(CFaceOnCudaTest, StreamsNeedNoRegistration) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  {
    const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
    EXPECT_TRUE(IsIntactAfterReuse(pool, first, first, second));
    EXPECT_TRUE(IsIntactAfterReuse(pool, second, first, nullptr));
    EXPECT_TRUE(IsIntactAfterReuse(pool, nullptr, nullptr, first));
    EXPECT_TRUE(IsIntactAfterReuse(pool, cudaStreamPerThread, cudaStreamPerThread, first));
    void* const address = pool.Allocate(1000, first);
    EXPECT_EQ(pool.Blocks().front().stream, first);
    pool.Free(address, first);
  }
  Destroy(first);
  Destroy(second);
}

TEST_F(CFaceOnCudaTest, KnownStreamsCauseNoCallsOfCuda) {
  const cudaStream_t stream = NewStream();
  const CPool pool("device=cuda:0");
  pool.Free(pool.Allocate(1000, stream), stream);
  const long long calls = cudartHostCountCalls(nullptr);
  for (int i = 0; i < 1000; ++i) pool.Free(pool.Allocate(1000, stream), stream);
  EXPECT_EQ(cudartHostCountCalls(nullptr), calls);
  Destroy(stream);
}

// The stand-in ends the process of a program that names a destroyed stream.
TEST_F(CFaceOnCudaTest, StreamsMayBeDestroyedAfterAnyCall) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  for (const bool is_forgotten : {false, true}) {
    for (int i = 0; i < 3; ++i) {
      const cudaStream_t stream = NewStream();
      void* const freed = pool.Allocate(32 << 10, stream);
      void* const left = pool.Allocate(16 << 10, stream);
      pool.Free(freed, stream);
      Destroy(stream);
      if (is_forgotten) {
        EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
      }
      pool.Free(pool.Allocate(32 << 10));
      pool.Free(left);
    }
    EXPECT_EQ(pool.Try(64 << 10), TIDEPOOL_OK);
  }
  EXPECT_EQ(pool.Statistics().live_bytes, 0U);
}

TEST_F(CFaceOnCudaTest, AStreamThatIsDestroyedEndsItsWorkBeforeOthersGetItsMemory) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  const cudaStream_t other = NewStream();
  pool.Free(pool.Allocate(1000, other), other);
  for (const bool is_forgotten : {false, true}) {
    const cudaStream_t stream = NewStream();
    void* pinned = nullptr;
    EXPECT_EQ(cudaMallocHost(&pinned, 64 << 10), cudaSuccess);
    void* const read = pool.Allocate(64 << 10, stream);
    EXPECT_EQ(cudaMemsetAsync(read, 1, 64 << 10, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    cudartHostHoldCopies(0);
    EXPECT_EQ(cudaMemcpyAsync(pinned, read, 64 << 10, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    pool.Free(read, stream);
    Destroy(stream);
    if (is_forgotten) {
      EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
    }
    void* const written = pool.Allocate(64 << 10, other);
    EXPECT_EQ(cudaMemsetAsync(written, 2, 64 << 10, other), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady) << "it waits, on the device";
    cudartHostReleaseCopies(0);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    pool.Free(written, other);
    const auto* const bytes = static_cast<const char*>(pinned);
    EXPECT_EQ(std::count(bytes, bytes + (64 << 10), 1), 64 << 10);
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  }
  Destroy(other);
}

TEST_F(CFaceOnCudaTest, FreesOfStreamsThatStayRecordNothing) {
  for (const bool stays : {false, true}) {
    const CPool pool(stays ? "device=cuda:0,streams=stay" : "device=cuda:0");
    const cudaStream_t stream = NewStream();
    for (const cudaStream_t used : {stream, cudaStream_t{nullptr}, stream}) {
      pool.Free(pool.Allocate(1000, used), used);
    }
    const long long records = cudartHostCountCalls("cudaEventRecord");
    for (int i = 0; i < 10; ++i) pool.Free(pool.Allocate(1000, stream), stream);
    EXPECT_EQ(cudartHostCountCalls("cudaEventRecord") - records, stays ? 0 : 10);
    Destroy(stream);
  }
}

TEST_F(CFaceOnCudaTest, ForgottenStreamsGetNewNames) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  const cudaStream_t stream = NewStream();
  void* const freed_late = pool.Allocate(1000, stream);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
  pool.Free(pool.Allocate(1000, stream), stream);  // known again
  pool.Free(freed_late, stream);
  Destroy(stream);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
  // The stand-in gives the handle to the next stream at once.
  const cudaStream_t next = NewStream();
  EXPECT_EQ(next, stream);
  EXPECT_TRUE(IsIntactAfterReuse(pool, next, next, nullptr));
  Destroy(next);
}

TEST_F(CFaceOnCudaTest, StreamsOfThePoolAreStreamsOfCuda) {
  const CPool pool("device=cuda:0");
  const tidepool_stream stream = pool.NewStream();
  void* const address = pool.Allocate(1000, stream);
  EXPECT_EQ(cudaMemsetAsync(address, 1, 1000, static_cast<cudaStream_t>(stream)), cudaSuccess);
  EXPECT_EQ(tidepool_stream_synchronize(pool.get(), stream), TIDEPOOL_OK);
  pool.Free(address, stream);
  EXPECT_EQ(tidepool_stream_destroy(pool.get(), stream), TIDEPOOL_OK);
}

TEST_F(CFaceOnCudaTest, DevicesAreChosenAndChecked) {
  const auto ordinal_of = [](const CPool& pool) {
    int ordinal = -2;
    EXPECT_EQ(tidepool_get_device(pool.get(), &ordinal), TIDEPOOL_OK);
    return ordinal;
  };
  EXPECT_EQ(ordinal_of(CPool("device=cuda:1")), 1);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(ordinal_of(CPool("")), 1);
  EXPECT_EQ(ordinal_of(CPool("device=cuda")), 1);
  EXPECT_EQ(ordinal_of(CPool("device=host")), -1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_THAT(CreationError("device=cuda:2", TIDEPOOL_UNAVAILABLE), HasSubstr("2"));
  ConfigureStandIn({.devices = 0});
  EXPECT_EQ(ordinal_of(CPool("")), -1);
  CreationError("device=cuda", TIDEPOOL_UNAVAILABLE);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CFaceOnCudaTest, ABudgetIsAPartOfTheDevice) {
  const CPool part("device=cuda:0,budget=50%,memory=segments");
  EXPECT_EQ(part.Statistics().max_bytes, 32U << 20);
  EXPECT_EQ(part.Try(40 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("the limit of cuda:0 is 33554432: raise option"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  const CPool whole("device=cuda:0,budget=8GiB,memory=segments");
  EXPECT_EQ(whole.Statistics().max_bytes, 64U << 20);
  void* taken = nullptr;
  ASSERT_EQ(cudaMalloc(&taken, 60 << 20), cudaSuccess);
  EXPECT_EQ(whole.Try(8 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("CUDA has 4194304 bytes of the device left"));
  EXPECT_EQ(cudaFree(taken), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CFaceOnCudaTest, AResetDeviceHasTheMemoryAlready) {
  CPool pool("device=cuda:0,memory=segments");
  pool.Allocate(1000);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(tidepool_pool_destroy(pool.get()), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_pool_destroy(pool.Release()), TIDEPOOL_FAILED_PRECONDITION);
}

TEST_F(CFaceOnCudaTest, ErrorsOfCudaArePassedOn) {
  const CPool pool("device=cuda:0,memory=segments");
  cudartHostFailCall("cudaMalloc", 1, cudaErrorUnknown);
  EXPECT_NE(pool.Try(1000), TIDEPOOL_OK);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("cudaMalloc"));
  EXPECT_EQ(pool.Try(1000), TIDEPOOL_OK);
}

TEST_F(CFaceOnCudaTest, ThreadsMayUseNewStreamsAtOnce) {
  const CPool pool("device=cuda:0");
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < 24; ++i) streams.push_back(NewStream());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        for (const cudaStream_t stream : streams) pool.Free(pool.Allocate(1000, stream), stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.Statistics().allocations, 4U * 20 * 24);
  for (const cudaStream_t stream : streams) Destroy(stream);
}

}  // namespace
}  // namespace tidepool
