// SPDX-License-Identifier: Apache-2.0
// Memory, copies and fills of the stand-in.
#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/dryrun/runtime/fixture.h"

namespace tidepool {
namespace {

using MemoryTest = CudartHost;

std::size_t FreeBytes() {
  std::size_t free_bytes = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, nullptr), cudaSuccess);
  return free_bytes;
}

TEST_F(MemoryTest, IsCountedAndGivenBack) {
  const std::size_t all = FreeBytes();
  void* address = nullptr;
  ASSERT_EQ(cudaMalloc(&address, 1 << 20), cudaSuccess);
  EXPECT_EQ(FreeBytes(), all - (1 << 20));
  void* managed = nullptr;
  ASSERT_EQ(cudaMallocManaged(&managed, 1 << 20, cudaMemAttachGlobal), cudaSuccess);
  std::memset(managed, 7, 1 << 20);
  EXPECT_EQ(FreeBytes(), all - (2 << 20));
  void* too_much = &too_much;
  EXPECT_EQ(cudaMalloc(&too_much, all), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&too_much, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(address), cudaSuccess);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
  EXPECT_EQ(FreeBytes(), all);
  EXPECT_EQ(Live().allocations, 0);
}

TEST_F(MemoryTest, ChecksWhatIsFreed) {
  char* const memory = NewMemory(1000);
  char* const pinned = NewPinned(1000);
  int on_the_stack = 0;
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFree(memory + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&on_the_stack), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  void* nothing = &nothing;
  EXPECT_EQ(cudaMalloc(&nothing, 0), cudaSuccess);
  EXPECT_EQ(nothing, nullptr);
  EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMallocManaged(&nothing, 1, 99), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostAlloc(&nothing, 1, 1u << 20), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, KnowsPointers) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  char* const memory = NewMemory(1000);
  char* const pinned = NewPinned(1000);
  std::vector<char> pageable(1000);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, memory + 999), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 1);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pageable.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaHostRegister(pageable.data(), 1000, cudaHostRegisterDefault), cudaSuccess);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pageable.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostRegister(pageable.data() + 1, 1, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(pageable.data() + 1), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaHostUnregister(pageable.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(pageable.data()), cudaErrorHostMemoryNotRegistered);
  unsigned flags = 0;
  EXPECT_EQ(cudaHostGetFlags(&flags, pinned), cudaSuccess);
  EXPECT_EQ(cudaHostGetFlags(&flags, memory), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, ChecksCopies) {
  char* const memory = NewMemory(1000);
  char* const other = NewMemory(1000);
  std::vector<char> host(1000);
  EXPECT_EQ(cudaMemcpy(memory, host.data(), 1000, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(memory, host.data(), 1001, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(memory, host.data(), 10, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(memory, other, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(memory, other, 10, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(nullptr, host.data(), 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemset(memory, 0, 1001), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, 10), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2D(memory, 5, other, 10, 10, 2, cudaMemcpyDeviceToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpyPeer(memory, 0, other, 9, 10), cudaErrorInvalidDevice);
}

// Copies between all kinds of memory, compared with vectors.
TEST_F(MemoryTest, CopiesAsVectorsDo) {
  constexpr std::size_t kBytes = 5000;
  std::vector<char> pageable[2] = {std::vector<char>(kBytes), std::vector<char>(kBytes)};
  std::vector<char*> memory = {pageable[0].data(), pageable[1].data(), NewPinned(kBytes)};
  for (const int device : {0, 1}) {
    ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
    memory.push_back(NewMemory(kBytes));
    void* managed = nullptr;
    ASSERT_EQ(cudaMallocManaged(&managed, kBytes, cudaMemAttachGlobal), cudaSuccess);
    memory.push_back(static_cast<char*>(managed));
  }
  std::vector<std::vector<char>> model(memory.size(), std::vector<char>(kBytes));
  std::mt19937 random(1);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    for (char& byte : model[i]) byte = static_cast<char>(random());
    ASSERT_EQ(cudaMemcpy(memory[i], model[i].data(), kBytes, cudaMemcpyDefault), cudaSuccess);
  }
  for (int step = 0; step < 2000; ++step) {
    ASSERT_EQ(cudaSetDevice(static_cast<int>(random() % 2)), cudaSuccess);
    const std::size_t to = random() % memory.size();
    const std::size_t from = random() % memory.size();
    const std::size_t pitch = 1 + random() % 60;
    const std::size_t from_pitch = 1 + random() % 60;
    const std::size_t width = 1 + random() % std::min(pitch, from_pitch);
    const std::size_t height = 1 + random() % 30;
    const std::size_t to_begin = random() % 3000;
    // CUDA leaves copies between overlapping ranges of the same memory undefined.
    const std::size_t from_begin = from == to ? (to_begin + 2500) % kBytes : random() % 3000;
    if (std::max(to_begin, from_begin) + 1800 > kBytes ||
        (from == to && std::max(to_begin, from_begin) < std::min(to_begin, from_begin) + 1800)) {
      continue;
    }
    if (random() % 4 == 0 && to >= 2) {
      const int value = static_cast<int>(random() % 256);
      ASSERT_EQ(cudaMemset2D(memory[to] + to_begin, pitch, value, width, height), cudaSuccess);
      for (std::size_t row = 0; row < height; ++row) {
        std::fill_n(model[to].begin() + static_cast<std::ptrdiff_t>(to_begin + row * pitch), width,
                    static_cast<char>(value));
      }
    } else {
      ASSERT_EQ(cudaMemcpy2D(memory[to] + to_begin, pitch, memory[from] + from_begin, from_pitch,
                             width, height, cudaMemcpyDefault),
                cudaSuccess);
      for (std::size_t row = 0; row < height; ++row) {
        std::copy_n(
            model[from].begin() + static_cast<std::ptrdiff_t>(from_begin + row * from_pitch), width,
            model[to].begin() + static_cast<std::ptrdiff_t>(to_begin + row * pitch));
      }
    }
    // A fill does not wait, and the next copy may run on the other device.
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  for (std::size_t i = 0; i < memory.size(); ++i) {
    std::vector<char> read(kBytes);
    ASSERT_EQ(cudaMemcpy(read.data(), memory[i], kBytes, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(read, model[i]) << i;
  }
}

TEST_F(MemoryTest, CopiesOfPinnedMemoryDoNotWaitAndThoseOfPageableMemoryDo) {
  constexpr std::size_t kBytes = 1 << 16;
  const cudaStream_t stream = NewStream();
  char* const memory = NewMemory(kBytes);
  char* const pinned = NewPinned(kBytes);
  std::memset(pinned, 1, kBytes);
  std::vector<char> pageable(kBytes, 2);
  cudartHostHoldCopies(0);
  ASSERT_EQ(cudaMemcpyAsync(memory, pinned, kBytes, cudaMemcpyHostToDevice, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  std::memset(pinned, 3, kBytes);  // too early: the copy has not begun
  ASSERT_EQ(cudaMemcpyAsync(memory, pageable.data(), kBytes / 2, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  std::fill(pageable.begin(), pageable.end(), 4);  // in time: the copy has read it already
  cudartHostReleaseCopies(0);
  ASSERT_EQ(cudaMemcpyAsync(pageable.data(), memory, kBytes, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(pageable.front(), 2);
  EXPECT_EQ(pageable.back(), 3);
}

TEST_F(MemoryTest, PeersCopy) {
  int can = 0;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
  char* const here = NewMemory(100);
  ASSERT_EQ(cudaMemset(here, 5, 100), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  char* const there = NewMemory(100);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeer(there, 1, here, 0, 100), cudaSuccess);
  std::vector<char> read(100);
  ASSERT_EQ(cudaMemcpy(read.data(), there, 100, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(read, std::vector<char>(100, 5));
}

TEST_F(MemoryTest, InStreamOrderItIsFreedWhenTheStreamIsThere) {
  const std::size_t all = FreeBytes();
  const cudaStream_t stream = NewStream();
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  std::uint64_t threshold = UINT64_MAX;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
            cudaSuccess);
  threshold = 0;
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
            cudaSuccess);
  EXPECT_EQ(threshold, UINT64_MAX);
  void* address = nullptr;
  ASSERT_EQ(cudaMallocAsync(&address, 4096, stream), cudaSuccess);
  BusyStream busy(stream);
  ASSERT_EQ(cudaMemsetAsync(address, 1, 4096, stream), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(address, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(address, stream), cudaErrorInvalidValue);
  EXPECT_EQ(FreeBytes(), all - 4096);
  busy.Stop();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(FreeBytes(), all);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, WhoFreesWaitsForTheDevice) {
  char* const memory = NewMemory(1 << 20);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      const cudaStream_t stream = NewStream();
      for (int j = 0; j < 50; ++j) {
        char* const mine = NewMemory(4096);
        EXPECT_EQ(cudaMemsetAsync(mine, j, 4096, stream), cudaSuccess);
        EXPECT_EQ(cudaFree(mine), cudaSuccess);  // otherwise the fill would fault
      }
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(Live().allocations, 0);
}

// A device with more memory than the host, on which nothing is ever written.
class WithoutDataTest : public CudartHost {
 protected:
  WithoutDataTest() : CudartHost(1) {
    CudartHostConfig config = Config(1);
    config.memory_bytes = kMemory;
    config.has_data = 0;
    EXPECT_EQ(cudartHostConfigure(&config), 1);
  }

  static constexpr long long kMemory = 1LL << 42;
  static constexpr std::size_t kBytes = 2 << 20;  // more than is kept
};

TEST_F(WithoutDataTest, CopiesFromTheDeviceGiveZeros) {
  char* const device = NewMemory(kBytes);
  std::vector<char> host(kBytes, 7);
  ASSERT_EQ(cudaMemcpy(host.data(), device, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host, std::vector<char>(kBytes));
  char* const pinned = NewPinned(kBytes);
  std::memset(pinned, 7, kBytes);
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(cudaMemcpyAsync(pinned, device, kBytes, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_TRUE(std::all_of(pinned, pinned + kBytes, [](char byte) { return byte == 0; }));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(WithoutDataTest, CopiesBetweenHostsAreMade) {
  const std::vector<char> from(kBytes, 7);
  std::vector<char> to(kBytes);
  ASSERT_EQ(cudaMemcpy(to.data(), from.data(), kBytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(to, from);
}

// Few hosts have memory for it.
TEST_F(WithoutDataTest, DeviceMemoryIsNeverTouched) {
  constexpr std::size_t kHuge = std::size_t{1} << 36;
  char* const first = NewMemory(kHuge);
  ASSERT_NE(first, nullptr);
  char* const second = NewMemory(kHuge);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(cudaMemset(first, 1, kHuge), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(second, first, kHuge, cudaMemcpyDeviceToDevice), cudaSuccess);
  std::vector<char> host(kBytes, 7);
  EXPECT_EQ(cudaMemcpy(first, host.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
}

TEST_F(WithoutDataTest, RefusesWhatDevicesRefuse) {
  char* const device = NewMemory(kBytes);
  std::vector<char> host(2 * kBytes);
  EXPECT_EQ(cudaMemcpy(host.data(), device, 2 * kBytes, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device, 0, 2 * kBytes), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

}  // namespace
}  // namespace tidepool
