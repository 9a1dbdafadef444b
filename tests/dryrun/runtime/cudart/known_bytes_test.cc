// SPDX-License-Identifier: Apache-2.0
// Devices without data keep copies from the host as far as there is room, and nothing that a kernel
// may have written.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/dryrun/runtime/fixture.h"

namespace tidepool {
namespace {

class KnownBytesTest : public CudartHost {
 protected:
  static constexpr std::size_t kMost = 1 << 20;   // the bytes of a copy that is always kept
  static constexpr std::size_t kRoom = 64 << 20;  // for larger copies

  KnownBytesTest() : CudartHost(1) {
    CudartHostConfig config = Config(1);
    config.has_data = 0;
    config.memory_bytes = 1 << 30;
    config.has_kernels = 1;
    EXPECT_EQ(cudartHostConfigure(&config), 1);
  }

  static void Write(char* to, const std::string& bytes) {
    EXPECT_EQ(cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  static std::string Read(const char* from, std::size_t bytes) {
    std::string read(bytes, '?');
    EXPECT_EQ(cudaMemcpy(read.data(), from, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return read;
  }
  static void LaunchKernel() {
    static const char kKernel = 0;
    EXPECT_EQ(cudaLaunchKernel(&kKernel, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
  }
  static std::string Zeros(std::size_t count) { return std::string(count, '\0'); }
};

TEST_F(KnownBytesTest, SmallCopiesComeBack) {
  char* const device = NewMemory(2 * kMost);
  EXPECT_EQ(Read(device, 4), Zeros(4));
  Write(device + 2, "abcd");
  EXPECT_EQ(Read(device, 8), Zeros(2) + "abcd" + Zeros(2));
  Write(device + 4, "xyz");
  EXPECT_EQ(Read(device + 3, 4), "bxyz");
  Write(device, std::string(kMost, 'm'));
  EXPECT_EQ(Read(device, kMost), std::string(kMost, 'm'));
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(KnownBytesTest, LargeCopiesComeBackWhileThereIsRoom) {
  constexpr std::size_t kLarge = kRoom / 2 + 1;
  char* const device = NewMemory(4 * kLarge);
  const std::string large(kLarge, 'l');
  Write(device, large);
  EXPECT_TRUE(Read(device, kLarge) == large);
  Write(device + kLarge, large);
  EXPECT_EQ(Read(device + kLarge - 1, 2), "l" + Zeros(1));
  Write(device + kLarge, std::string(kMost, 's'));
  EXPECT_EQ(Read(device + kLarge - 1, 2), "ls");
  // A kernel makes room, since it leaves nothing.
  LaunchKernel();
  Write(device + kLarge, large);
  EXPECT_EQ(Read(device + kLarge - 1, 2), Zeros(1) + "l");
  cudartHostHoldData(1);
  Write(device + 2 * kLarge, large);
  EXPECT_TRUE(Read(device + kLarge, 2 * kLarge) == large + large);
  cudartHostHoldData(0);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(KnownBytesTest, CopiesBetweenDevicesCarryThem) {
  char* const device = NewMemory(4 * kMost);
  Write(device, "abc");
  ASSERT_EQ(cudaMemcpy(device + 100, device, 4, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(Read(device + 100, 5), "abc" + Zeros(2));
  ASSERT_EQ(cudaMemcpy(device, device + 200, 3, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(Read(device, 3), Zeros(3));
  ASSERT_EQ(cudaMemcpy(device + 100, device + 2 * kMost, kMost + 1, cudaMemcpyDeviceToDevice),
            cudaSuccess);
  EXPECT_EQ(Read(device + 100, 3), Zeros(3));
  Write(device, "abc");
  ASSERT_EQ(cudaMemcpy(device + 2 * kMost - 1, device, 2 * kMost, cudaMemcpyDeviceToDevice),
            cudaSuccess);
  EXPECT_EQ(Read(device + 2 * kMost - 2, 5), Zeros(1) + "abc" + Zeros(1));
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(KnownBytesTest, RowsKeepTheirGaps) {
  char* const device = NewMemory(4096);
  const std::string rows = "abcd";
  ASSERT_EQ(cudaMemcpy2D(device, 5, rows.data(), 2, 2, 2, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(Read(device, 8), "ab" + Zeros(3) + "cd" + Zeros(1));
  ASSERT_EQ(cudaMemset2D(device, 3, 'x', 1, 2), cudaSuccess);
  EXPECT_EQ(Read(device, 8), "xb" + Zeros(1) + "x" + Zeros(1) + "cd" + Zeros(1));
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(KnownBytesTest, FillsAreKept) {
  char* const device = NewMemory(4096);
  ASSERT_EQ(cudaMemset(device, 'f', 3), cudaSuccess);
  EXPECT_EQ(Read(device, 4), "fff" + Zeros(1));
  ASSERT_EQ(cudaMemset(device + 1, 0, 1), cudaSuccess);
  EXPECT_EQ(Read(device, 4), "f" + Zeros(1) + "f" + Zeros(1));
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(KnownBytesTest, AKernelLeavesZeros) {
  char* const device = NewMemory(4096);
  Write(device, "abc");
  LaunchKernel();
  EXPECT_EQ(Read(device, 3), Zeros(3));
  Write(device, "def");
  EXPECT_EQ(Read(device, 3), "def");
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(KnownBytesTest, KernelsForgetNothingWhileDataIsHeld) {
  char* const device = NewMemory(4096);
  Write(device, "abc");
  cudartHostHoldData(1);
  LaunchKernel();
  EXPECT_EQ(Read(device, 3), "abc");
  cudartHostHoldData(0);
  LaunchKernel();
  EXPECT_EQ(Read(device, 3), Zeros(3));
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(KnownBytesTest, NewMemoryIsZero) {
  for (int i = 0; i < 3; ++i) {
    char* const device = NewMemory(4096);
    EXPECT_EQ(Read(device, 3), Zeros(3));
    Write(device, "abc");
    EXPECT_EQ(cudaFree(device), cudaSuccess);
  }
}

TEST_F(KnownBytesTest, WorkHappensInTheOrderOfTheStream) {
  char* const device = NewMemory(4096);
  char* const pinned = NewPinned(4);
  const cudaStream_t stream = NewStream();
  {
    BusyStream busy(stream);
    ASSERT_EQ(cudaMemcpyAsync(device, "abc", 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(pinned, device, 4, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(device, 0, 4, stream), cudaSuccess);
    EXPECT_EQ(Read(device, 3), Zeros(3));
  }
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_STREQ(pinned, "abc");
  EXPECT_EQ(Read(device, 3), Zeros(3));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

// Returns how many pages of the range the process has in memory.
std::size_t PagesInMemory(char* begin, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(mincore(begin, bytes, pages.data()), 0);
  return static_cast<std::size_t>(std::count_if(
      pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

TEST_F(KnownBytesTest, PinnedMemoryTakesNoneOfTheHostForZeros) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  char* const device = NewMemory(kBytes);
  char* const pinned = NewPinned(kBytes);
  EXPECT_EQ(PagesInMemory(pinned, kBytes), 0);
  std::memset(pinned, 1, kBytes);
  Write(device + 5, "abc");
  ASSERT_EQ(cudaMemcpy(pinned + 3, device, kBytes - 5, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_LE(PagesInMemory(pinned, kBytes), 4);
  const std::string ones = std::string(3, '\1');
  EXPECT_EQ(std::string(pinned, 12), ones + Zeros(5) + "abc" + Zeros(1));
  EXPECT_EQ(std::string(pinned + kBytes - 4, 4), Zeros(2) + std::string(2, '\1'));
  EXPECT_TRUE(std::all_of(pinned + 12, pinned + kBytes - 2, [](char c) { return c == 0; }));
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

}  // namespace
}  // namespace tidepool
