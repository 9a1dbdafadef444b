// SPDX-License-Identifier: Apache-2.0
// Pools of the C interface and of CNMeM's replacement find an attached tool by themselves.
#include <cnmem.h>
#include <cuda_runtime_api.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/c/fixture.h"
#include "tests/memory/nvtx/fixture.h"
#include "tests/support/temporary_files.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using nvtx_injection::Look;
using nvtx_injection::Seen;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NvtxBindingsTest : public NvtxFixture {};

TEST_F(NvtxBindingsTest, RegisterPoolsOfTheCInterface) {
  const CPool pool("device=cuda:0,budget=8MiB");
  EXPECT_THAT(Look().heaps, IsEmpty()) << "memory that nothing chose is in segments";
  void* const address = pool.Allocate(1000);
  const std::vector<nvtx_injection::Heap> heaps = Look().heaps;
  ASSERT_THAT(heaps, SizeIs(1));
  ASSERT_THAT(heaps[0].regions, SizeIs(1));
  EXPECT_EQ(heaps[0].regions[0].begin, address);
  EXPECT_EQ(heaps[0].regions[0].bytes, 1000);
  pool.Free(address);
  EXPECT_EQ(Look().unregistered_regions, 1);
}

TEST_F(NvtxBindingsTest, KeepTheMemoryThatWasChosen) {
  const CPool chosen("device=cuda:0,budget=8MiB,memory=virtual");
  EXPECT_THAT(Look().heaps, SizeIs(1)) << "all addresses";
  const CPool aligned("device=cuda:0,budget=8MiB,alignment=4096");
  EXPECT_THAT(Look().heaps, SizeIs(2)) << "segments have no such alignment";
  const CPool moving("device=cuda:0,budget=8MiB,remap=1");
  EXPECT_THAT(Look().heaps, SizeIs(3));
}

TEST_F(NvtxBindingsTest, FollowThreadsTrimsAndRefusalsOfTheCInterface) {
  const CPool pool("device=cuda:0,budget=3MiB");
  const auto work = [&pool](unsigned seed) {
    std::mt19937 random(seed);
    const tidepool_stream stream = pool.NewStream();
    std::vector<void*> live;
    for (int i = 0; i < 300; ++i) {
      void* address = nullptr;
      const std::size_t bytes = 1 + random() % (2 << 20);
      if (tidepool_allocate(pool.get(), bytes, stream, TIDEPOOL_RESIDENT, &address) ==
          TIDEPOOL_OK) {
        live.push_back(address);
      }
      if (live.size() > 2 || (address == nullptr && !live.empty())) {
        pool.Free(live.back(), stream);
        live.pop_back();
      }
      if (i % 50 == 0) {
        EXPECT_EQ(tidepool_trim(pool.get(), 0, nullptr), TIDEPOOL_OK);
      }
    }
    for (void* const address : live) pool.Free(address, stream);
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(pool.Statistics().failures, 0U);
  EXPECT_GT(Look().heaps_ever, 4) << "segments gave way to others";
  EXPECT_EQ(Look().unregistered_regions, static_cast<std::int64_t>(pool.Statistics().frees));
}

TEST_F(NvtxBindingsTest, RegisterNothingWhereTheyAreOff) {
  const CPool off("device=cuda:0,nvtx=off,memory=segments,initial=1MiB");
  off.Free(off.Allocate(1000));
  const CPool host("device=host,memory=segments,initial=1MiB");
  host.Free(host.Allocate(1000));
  EXPECT_EQ(Look().heaps_ever, 0);
}

TEST_F(NvtxBindingsTest, RecordToo) {
  const std::string path = TemporaryFile("trace.tide");
  {
    const CPool pool("device=cuda:0,recording=1");
    ASSERT_EQ(tidepool_start_trace(pool.get(), path.c_str()), TIDEPOOL_OK);
    pool.Free(pool.Allocate(1000));
    EXPECT_EQ(pool.Try(std::size_t{1} << 40), TIDEPOOL_OUT_OF_MEMORY);
    ASSERT_EQ(tidepool_stop_trace(pool.get()), TIDEPOOL_OK);
  }
  const absl::StatusOr<Trace> trace = ReadTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->allocations, SizeIs(1));
  EXPECT_THAT(trace->failures, SizeIs(1));
  EXPECT_EQ(Look().regions_ever, 1);
}

TEST_F(NvtxBindingsTest, RegisterThePoolAndTheReservesOfCnmem) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  std::size_t reserved = 1 << 20;
  cnmemDevice_t device = {};
  device.size = 4 << 20;
  device.numStreams = 1;
  device.streams = &stream;
  device.streamSizes = &reserved;
  ASSERT_EQ(cnmemInit(1, &device, CNMEM_FLAGS_CANNOT_STEAL), CNMEM_STATUS_SUCCESS);
  EXPECT_THAT(Look().heaps, SizeIs(2)) << "the pool, and the memory of the stream";
  void* of_pool = nullptr;
  void* of_stream = nullptr;
  ASSERT_EQ(cnmemMalloc(&of_pool, 100, nullptr), CNMEM_STATUS_SUCCESS);
  ASSERT_EQ(cnmemMalloc(&of_stream, 200, stream), CNMEM_STATUS_SUCCESS);
  const std::vector<nvtx_injection::Heap> heaps = Look().heaps;
  ASSERT_THAT(heaps, SizeIs(2));
  for (const auto& heap : heaps) EXPECT_THAT(heap.regions, SizeIs(1));
  EXPECT_EQ(cnmemFree(of_pool, nullptr), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(Look().unregistered_regions, 2) << "cnmemRelease frees the rest";
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(NvtxBindingsTest, RegisterNothingOfCnmemWhereItIsOff) {
  setenv("TIDEPOOL_CNMEM_NVTX", "off", 1);
  cnmemDevice_t device = {};
  device.size = 4 << 20;
  ASSERT_EQ(cnmemInit(1, &device, CNMEM_FLAGS_DEFAULT), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(Look().heaps_ever, 0);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_SUCCESS);
  unsetenv("TIDEPOOL_CNMEM_NVTX");
}

}  // namespace
}  // namespace tidepool
