// SPDX-License-Identifier: Apache-2.0
// Faults of the original CNMeM: each of these tests fails with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "tests/bindings/cnmem/fixture.h"

namespace tidepool {
namespace {

class CnmemFixesTest : public CnmemFixture {};

// The original returned the address after the block that it had stolen, which was live.
TEST_F(CnmemFixesTest, WhatIsTakenFromAnotherStreamIsNobodysElse) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(4096, CNMEM_FLAGS_CANNOT_GROW, streams, {0, 4096}), CNMEM_STATUS_SUCCESS);
  void* const first = Malloc(512, streams[1]);
  void* const hole = Malloc(1024, streams[1]);
  void* const last = Malloc(2560, streams[1]);
  Free(hole, streams[1]);
  void* const stolen = Malloc(1024, streams[0]);
  EXPECT_EQ(stolen, hole);
  Free(first, streams[1]);
  Free(last, streams[1]);
  Free(stolen, streams[0]);
}

// No two live blocks share a byte, for random requests, with streams that take memory from each
// other.
TEST_F(CnmemFixesTest, NoAddressIsGivenOutTwice) {
  std::vector<cudaStream_t> streams = {nullptr};
  for (int i = 0; i < 3; ++i) streams.push_back(NewStream());
  ASSERT_EQ(Init(64 << 10, CNMEM_FLAGS_CANNOT_GROW, {streams.begin() + 1, streams.end()},
                 {8 << 10, 0, 16 << 10}),
            CNMEM_STATUS_SUCCESS);
  struct Live {
    std::size_t bytes;
    cudaStream_t stream;
  };
  std::map<char*, Live> live;
  std::mt19937 random(7);
  int refused = 0;
  for (int step = 0; step < 20'000; ++step) {
    const cudaStream_t stream = streams[random() % streams.size()];
    if (random() % 2 == 0 || live.empty()) {
      const std::size_t bytes = 1 + random() % 6000;
      void* address = nullptr;
      if (cnmemMalloc(&address, bytes, stream) != CNMEM_STATUS_SUCCESS) {
        ++refused;
        continue;
      }
      auto* const begin = static_cast<char*>(address);
      const auto after = live.lower_bound(begin);
      ASSERT_TRUE(after == live.end() || begin + bytes <= after->first) << step;
      if (after != live.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second.bytes, begin) << step;
      }
      live[begin] = {bytes, stream};
    } else {
      const auto victim = std::next(live.begin(), static_cast<int>(random() % live.size()));
      Free(victim->first, random() % 4 == 0 ? nullptr : victim->second.stream);
      live.erase(victim);
    }
    if (step % 100 == 0) {
      std::size_t used = 0;
      for (const auto& [address, block] : live) used += (block.bytes + 511) & -512;
      std::size_t free_bytes = GetInfo().free_bytes;
      for (std::size_t i = 1; i < streams.size(); ++i) free_bytes += GetInfo(streams[i]).free_bytes;
      ASSERT_EQ(GetInfo().total_bytes, 64U << 10);
      ASSERT_EQ(used + free_bytes, 64U << 10);
    }
  }
  EXPECT_GT(refused, 100) << "memory must have been short";
}

// The original left the block in the list of the stream too.
TEST_F(CnmemFixesTest, WhatIsFreedOnTheDefaultStreamIsFreedOnce) {
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(2048, CNMEM_FLAGS_CANNOT_GROW, {stream}), CNMEM_STATUS_SUCCESS);
  void* const block = Malloc(1024, stream);
  Free(block, nullptr);
  EXPECT_EQ(cnmemFree(block, stream), CNMEM_STATUS_INVALID_ARGUMENT);
  void* const first = Malloc(1024, stream);
  void* const second = Malloc(1024);
  EXPECT_NE(first, second);
  EXPECT_EQ(TryMalloc(512, stream), CNMEM_STATUS_OUT_OF_MEMORY);
}

// The original rounded these sizes up to 0 bytes, and succeeded.
TEST_F(CnmemFixesTest, NobodyGetsMoreThanThereIs) {
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(2048, CNMEM_FLAGS_DEFAULT, {stream}), CNMEM_STATUS_SUCCESS);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes :
       {most, most - 510, most - 511, most / 2 + 1, most / 2, most >> 20}) {
    for (const cudaStream_t on : {stream, cudaStream_t{nullptr}}) {
      EXPECT_EQ(TryMalloc(bytes, on), CNMEM_STATUS_OUT_OF_MEMORY) << bytes;
    }
  }
  EXPECT_EQ(GetInfo(), (Info{2048, 2048}));
}

// The original returned INVALID_ARGUMENT.
TEST_F(CnmemFixesTest, WithoutStealingOutOfMemoryIsCalledSo) {
  const cudaStream_t stream = NewStream();
  const unsigned flags = CNMEM_FLAGS_CANNOT_GROW | CNMEM_FLAGS_CANNOT_STEAL;
  ASSERT_EQ(Init(2048, flags, {stream}), CNMEM_STATUS_SUCCESS);
  Malloc(2048, stream);
  EXPECT_EQ(TryMalloc(512, stream), CNMEM_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(TryMalloc(512), CNMEM_STATUS_OUT_OF_MEMORY);
}

TEST_F(CnmemFixesTest, WithoutStealingReservedMemoryIsTheStreamsInOnePiece) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  const unsigned flags = CNMEM_FLAGS_CANNOT_GROW | CNMEM_FLAGS_CANNOT_STEAL;
  ASSERT_EQ(Init(8192, flags, streams, {4096, 0}), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo(), (Info{4096, 8192}));
  // Small blocks of both streams in turn, and then a block that needs all of the memory.
  std::vector<void*> own;
  std::vector<void*> others;
  for (int i = 0; i < 8; ++i) {
    own.push_back(Malloc(512, streams[0]));
    others.push_back(Malloc(512, i % 2 == 0 ? streams[1] : nullptr));
  }
  EXPECT_EQ(GetInfo(streams[0]), (Info{0, 4096}));
  EXPECT_EQ(GetInfo(streams[1]), (Info{0, 2048}));
  EXPECT_EQ(TryMalloc(512, streams[1]), CNMEM_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(TryMalloc(512), CNMEM_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(TryMalloc(512, streams[0]), CNMEM_STATUS_OUT_OF_MEMORY);
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(cnmemFree(own[i], streams[1]), CNMEM_STATUS_INVALID_ARGUMENT);
    Free(own[i], i % 2 == 0 ? streams[0] : nullptr);
  }
  EXPECT_EQ(TryMalloc(512, streams[1]), CNMEM_STATUS_OUT_OF_MEMORY) << "not for others";
  EXPECT_EQ(GetInfo(streams[0]), (Info{4096, 4096}));
  void* const whole = Malloc(4096, streams[0]);
  Free(whole, streams[0]);
  for (int i = 0; i < 8; ++i) Free(others[i], i % 2 == 0 ? streams[1] : nullptr);
  void* const beyond = Malloc(2048, streams[0]);
  EXPECT_EQ(GetInfo(streams[0]), (Info{2048, 4096}));
  void* const more =
      Malloc(4096, streams[0]);  // memory that is not reserved is free for all streams
  EXPECT_EQ(GetInfo(streams[0]), (Info{2048, 8192}));
  EXPECT_NE(State(streams[0]).find("free, reserved for stream"), std::string::npos);
  Free(beyond, streams[0]);
  Free(more, streams[0]);
}

TEST_F(CnmemFixesTest, AllMemoryMayBeReserved) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  const unsigned flags = CNMEM_FLAGS_CANNOT_GROW | CNMEM_FLAGS_CANNOT_STEAL;
  ASSERT_EQ(Init(4096, flags, streams, {2048, 2048}), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo(), (Info{0, 4096}));
  EXPECT_EQ(TryMalloc(512), CNMEM_STATUS_OUT_OF_MEMORY);
  void* const block = Malloc(2048, streams[0]);
  EXPECT_EQ(TryMalloc(512, streams[0]), CNMEM_STATUS_OUT_OF_MEMORY);
  int other = 0;
  for (const cudaStream_t stream : {streams[0], streams[1], cudaStream_t{nullptr}}) {
    EXPECT_EQ(cnmemFree(&other, stream), CNMEM_STATUS_INVALID_ARGUMENT);
  }
  Free(block);
}

// The original kept its context and its memory.
TEST_F(CnmemFixesTest, AFailedInitHoldsNothing) {
  cnmemDevice_t devices[2] = {};
  devices[0].size = 1 << 20;
  for (const std::size_t second : {kMemory, 2 * kMemory}) {
    devices[1].device = 1;
    devices[1].size = second;
    EXPECT_EQ(cnmemInit(2, devices, 0), CNMEM_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(FreeOnDevice(), kMemory);
    EXPECT_EQ(cnmemRetain(), CNMEM_STATUS_NOT_INITIALIZED);
  }
  cudaStream_t stream = NewStream();
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  devices[0].numStreams = 1;
  devices[0].streams = &stream;
  devices[1].device = 5;
  EXPECT_EQ(cnmemInit(2, devices, 0), CNMEM_STATUS_CUDA_ERROR);
  int current = -1;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 1) << "the original left another one current";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(FreeOnDevice(), kMemory);
}

// In the original, memory that a stream had taken once stayed with it.
TEST_F(CnmemFixesTest, MemoryOfAStreamReturnsToAll) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(8192, CNMEM_FLAGS_CANNOT_GROW | CNMEM_FLAGS_CANNOT_STEAL, streams),
            CNMEM_STATUS_SUCCESS);
  for (int round = 0; round < 50; ++round) {
    const cudaStream_t stream = streams[round % 2];
    // In small blocks, so that the memory that the previous stream freed must coalesce again.
    std::vector<void*> pieces;
    for (int i = 0; i < 16; ++i) pieces.push_back(Malloc(512, stream));
    for (void* const piece : pieces) Free(piece, stream);
    EXPECT_EQ(GetInfo(stream), (Info{0, 0}));
    void* const whole = Malloc(8192);
    Free(whole);
    EXPECT_EQ(GetInfo(), (Info{8192, 8192}));
  }
}

}  // namespace
}  // namespace tidepool
