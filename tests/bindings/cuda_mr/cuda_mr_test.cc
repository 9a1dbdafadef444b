// SPDX-License-Identifier: Apache-2.0
// The resource with the toolkit's CCCL on the stand-in for the CUDA runtime, and on the host.
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#include "tidepool/cuda_mr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace tidepool {
namespace {

using ::testing::HasSubstr;

// The two spellings.
template <typename Resource>
void* AllocateOn(Resource& resource, cuda::stream_ref stream, std::size_t bytes,
                 std::size_t alignment = 256) {
  if constexpr (requires { resource.allocate_async(bytes, alignment, stream); }) {
    return resource.allocate_async(bytes, alignment, stream);
  } else {
    return resource.allocate(stream, bytes, alignment);
  }
}

template <typename Resource>
void FreeOn(Resource& resource, cuda::stream_ref stream, void* address, std::size_t bytes) {
  if constexpr (requires { resource.deallocate_async(address, bytes, bytes, stream); }) {
    resource.deallocate_async(address, bytes, 256, stream);
  } else {
    resource.deallocate(stream, address, bytes, 256);
  }
}

std::size_t LiveBytes(tidepool_pool* pool) {
  tidepool_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  EXPECT_EQ(tidepool_get_statistics(pool, &statistics), TIDEPOOL_OK);
  return statistics.live_bytes;
}

cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

TEST(CudaMemoryResourceTest, ServesStreams) {
  const cudaStream_t stream = NewStream();
  {
    MemoryResource resource("device=cuda:0,budget=64MiB");
    void* const address = AllocateOn(resource, stream, 1000);
    EXPECT_EQ(cudaMemsetAsync(address, 1, 1000, stream), cudaSuccess);
    EXPECT_EQ(LiveBytes(resource.pool()), 1024U);
    FreeOn(resource, stream, address, 1000);
    EXPECT_EQ(AllocateOn(resource, stream, 0), nullptr);
    EXPECT_EQ(LiveBytes(resource.pool()), 0U);
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(CudaMemoryResourceTest, CopiesShareThePool) {
  MemoryResource resource("device=cuda:0");
  MemoryResource copy = resource;
  EXPECT_TRUE(copy == resource);
  EXPECT_TRUE(MemoryResource("device=cuda:0") != resource);
  EXPECT_TRUE(MemoryResource(resource.pool()).pool() == resource.pool());
  void* const address = copy.allocate(1000);
  EXPECT_EQ(LiveBytes(resource.pool()), 1024U);
  std::thread([&] { resource.deallocate(address, 1000); }).join();
  EXPECT_EQ(LiveBytes(resource.pool()), 0U);
}

TEST(CudaMemoryResourceTest, FitsReferences) {
  // [cuda-mr]
  MemoryResource resource("device=cuda:0");
  cuda::mr::async_resource_ref<cuda::mr::device_accessible> reference(resource);
  // [/cuda-mr]
  void* const address = reference.allocate_async(1000, 256, cuda::stream_ref{});
  EXPECT_EQ(LiveBytes(resource.pool()), 1024U);
  reference.deallocate_async(address, 1000, 256, cuda::stream_ref{});
  EXPECT_EQ(LiveBytes(resource.pool()), 0U);
}

template <typename Error, typename Call>
std::string TextOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no exception";
}

TEST(CudaMemoryResourceTest, ThrowsWithATextAndARemedy) {
  MemoryResource resource("device=cuda:0,budget=1MiB");
  EXPECT_THAT(TextOf<std::bad_alloc>([&] { AllocateOn(resource, cudaStream_t{}, 2 << 20); }),
              HasSubstr("raise option 'budget'"));
  EXPECT_THAT(TextOf<OutOfMemory>([&] { resource.allocate(1000, std::size_t{1} << 40); }),
              HasSubstr("make the pool with option alignment="));
  EXPECT_EQ(LiveBytes(resource.pool()), 0U);
  EXPECT_THAT(TextOf<std::runtime_error>([] { MemoryResource wrong("bugdet=1"); }),
              HasSubstr("no option 'bugdet', expected one of budget"));
}

// A launch of a graph writes to the memory of its capture, so the graph has to keep it.
TEST(CudaMemoryResourceTest, ServesACaptureThatHasBegunAGraph) {
  MemoryResource resource("device=cuda:0,budget=64MiB");
  const cudaStream_t stream = NewStream();
  for (const bool has_begun : {false, true}) {
    if (has_begun) {
      EXPECT_EQ(tidepool_begin_graph(resource.pool(), stream), TIDEPOOL_OK);
    }
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    if (has_begun) {
      FreeOn(resource, stream, AllocateOn(resource, stream, 1000), 1000);
    } else {
      EXPECT_THAT(TextOf<std::runtime_error>([&] { AllocateOn(resource, stream, 1000); }),
                  HasSubstr("call tidepool_begin_graph"));
    }
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  std::size_t number = 0;
  EXPECT_EQ(tidepool_end_graph(resource.pool(), stream, &number), TIDEPOOL_OK);
  EXPECT_NE(LiveBytes(resource.pool()), 0U);
  EXPECT_EQ(tidepool_release_graph(resource.pool(), number), TIDEPOOL_OK);
  EXPECT_EQ(LiveBytes(resource.pool()), 0U);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// An allocation for all streams waits for the work that used its memory before.
TEST(CudaMemoryResourceTest, MemoryForAllStreamsIsUnused) {
  MemoryResource resource("device=cuda:0,budget=64KiB,memory=segments");
  const cudaStream_t stream = NewStream();
  bool has_run = false;
  void* const before = AllocateOn(resource, stream, 64 << 10);
  EXPECT_EQ(cudaLaunchHostFunc(
                stream,
                [](void* flag) {
                  std::this_thread::yield();
                  *static_cast<bool*>(flag) = true;
                },
                &has_run),
            cudaSuccess);
  FreeOn(resource, stream, before, 64 << 10);
  void* const after = resource.allocate(64 << 10);
  EXPECT_EQ(after, before);
  EXPECT_TRUE(has_run);
  resource.deallocate(after, 64 << 10);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace tidepool
