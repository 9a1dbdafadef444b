// SPDX-License-Identifier: Apache-2.0
// A pool on a GPU. Kernels of many streams write patterns and find them again, while the pool
// reuses memory across streams, grows, remaps and trims.
#include "tidepool/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/patterns.h"
#include "tests/support/never_waits.h"
#include "tidepool/cuda_device.h"

namespace tidepool {
namespace {

const std::int64_t kUnit = gpu::Unit();
constexpr std::int64_t kDelayNs = 50'000;

struct Configuration {
  const char* name;
  PoolMemory memory;
  bool remap;

  friend void PrintTo(const Configuration& c, std::ostream* out) { *out << c.name; }
};

// Counts damaged words, in device memory of its own.
class DamageCount {
 public:
  DamageCount() {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&words_), sizeof *words_), cudaSuccess);
    EXPECT_EQ(cudaMemset(words_, 0, sizeof *words_), cudaSuccess);
  }
  ~DamageCount() { EXPECT_EQ(cudaFree(words_), cudaSuccess); }
  DamageCount(const DamageCount&) = delete;
  DamageCount& operator=(const DamageCount&) = delete;

  unsigned long long* get() const { return words_; }
  // Waits for the device.
  unsigned long long words() const {
    unsigned long long words = 0;
    EXPECT_EQ(cudaMemcpy(&words, words_, sizeof words, cudaMemcpyDeviceToHost), cudaSuccess);
    return words;
  }

 private:
  unsigned long long* words_ = nullptr;
};

// Writes on one stream, checks on another, and frees on either. The test orders the two by an
// event; the pool orders them with the next owner of the memory.
class Patterns {
 public:
  // The pool may lie on a device that breaks its contract, so events bypass that device.
  Patterns(CudaDevice& device, Pool& pool, int streams) : device_(device), pool_(pool) {
    for (int i = 0; i < streams; ++i) streams_.push_back(*device.CreateStream());
    streams_.push_back(*device.WrapStream(nullptr));
    event_ = *device.CreateEvent();
  }
  ~Patterns() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    while (!live_.empty()) Free(0);
    streams_.pop_back();  // owned by the test
    for (const Stream stream : streams_) EXPECT_TRUE(device_.DestroyStream(stream).ok());
    EXPECT_TRUE(device_.DestroyEvent(event_).ok());
  }

  void Run(int steps, std::int64_t largest_bytes, unsigned seed) {
    random_.seed(seed);
    for (int i = 0; i < steps; ++i) Step(largest_bytes);
    while (!live_.empty()) Free(live_.size() - 1);
  }

  int served() const { return served_; }
  unsigned long long damaged_words() const { return damage_.words(); }

 private:
  struct Block {
    void* address;
    std::int64_t bytes;
    std::uint32_t seed;
    Stream writer;
  };

  Stream AnyStream() { return streams_[random_() % streams_.size()]; }
  cudaStream_t Native(Stream stream) { return *device_.NativeStream(stream); }

  void Step(std::int64_t largest_bytes) {
    std::uniform_real_distribution<double> exponent(9, std::log2(largest_bytes));
    const std::int64_t bytes = static_cast<std::int64_t>(std::exp2(exponent(random_))) & -4;
    const Stream writer = AnyStream();
    absl::StatusOr<void*> memory = pool_.Allocate(static_cast<std::size_t>(bytes), writer);
    while (!memory.ok() && !live_.empty()) {
      ASSERT_TRUE(absl::IsResourceExhausted(memory.status())) << memory.status();
      Free(random_() % live_.size());
      memory = pool_.Allocate(static_cast<std::size_t>(bytes), writer);
    }
    ASSERT_TRUE(memory.ok()) << memory.status();
    ++served_;
    const Block block = {*memory, bytes, static_cast<std::uint32_t>(random_()), writer};
    ASSERT_EQ(
        gpu::WritePattern(block.address, bytes, block.seed, random_() % kDelayNs, Native(writer)),
        cudaSuccess);
    live_.push_back(block);
    if (random_() % 3 == 0) Free(random_() % live_.size());
  }

  void Free(std::size_t index) {
    const Block block = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    const Stream reader = AnyStream();
    EXPECT_TRUE(device_.RecordEvent(event_, block.writer).ok());
    EXPECT_TRUE(device_.WaitEvent(reader, event_).ok());
    EXPECT_EQ(gpu::CheckPattern(block.address, block.bytes, block.seed, random_() % kDelayNs,
                                damage_.get(), Native(reader)),
              cudaSuccess);
    if (random_() % 2 == 0) {
      EXPECT_TRUE(pool_.Free(block.address, reader).ok());
    } else {
      EXPECT_TRUE(pool_.RecordUse(block.address, reader).ok());
      EXPECT_TRUE(pool_.Free(block.address, block.writer).ok());
    }
  }

  CudaDevice& device_;
  Pool& pool_;
  std::vector<Stream> streams_;
  Event event_;
  DamageCount damage_;
  std::vector<Block> live_;
  std::mt19937 random_;
  int served_ = 0;
};

class GpuPoolTest : public ::testing::TestWithParam<Configuration> {
 protected:
  PoolOptions Options(std::int64_t max_bytes) const {
    return {.max_bytes = max_bytes, .memory = GetParam().memory, .remap = GetParam().remap};
  }

  std::unique_ptr<CudaDevice> device_ = *CudaDevice::Create({});
};

TEST_P(GpuPoolTest, DamagesNothing) {
  for (const std::string& policy : PlacementPolicyNames()) {
    if (policy == "planned" && GetParam().remap) continue;  // the pool refuses this combination
    PoolOptions options = Options(256 * kUnit);
    options.placement = policy;
    const auto pool = Pool::Create(device_.get(), options).value();
    Patterns patterns(*device_, *pool, 4);
    patterns.Run(3000, 64 * kUnit, 1);
    EXPECT_EQ(patterns.damaged_words(), 0) << policy;
    EXPECT_EQ(patterns.served(), 3000) << policy;
    EXPECT_GT(pool->Stats().stream_waits, 0) << policy;
    EXPECT_LE(pool->Stats().peak_reserved_bytes, 256 * kUnit);
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  }
}

TEST_P(GpuPoolTest, TrimsAndGrowsAgainUnderWork) {
  const auto pool = Pool::Create(device_.get(), Options(512 * kUnit)).value();
  Patterns patterns(*device_, *pool, 3);
  for (unsigned round = 0; round < 8; ++round) {
    patterns.Run(300, 32 * kUnit, round);
    EXPECT_TRUE(pool->Trim(round % 2 == 0 ? 0 : 64 * kUnit).ok());
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  }
  EXPECT_EQ(patterns.damaged_words(), 0);
  EXPECT_TRUE(pool->Trim(0).ok());
  EXPECT_EQ(pool->Stats().reserved_bytes, 0);
}

TEST_P(GpuPoolTest, GivesTheWholeBudgetInOnePieceWhenAllIsFree) {
  const auto pool = Pool::Create(device_.get(), Options(512 * kUnit)).value();
  Patterns patterns(*device_, *pool, 4);
  patterns.Run(1000, 64 * kUnit, 7);
  const Stream stream = *device_->CreateStream();
  const absl::StatusOr<void*> whole = pool->Allocate(512 * kUnit, stream);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(pool->Free(*whole, stream).ok());
}

// The device has less memory than the budget: larger requests are refused, and later requests that
// fit are served.
TEST_P(GpuPoolTest, OutlivesADeviceThatIsFull) {
  const std::int64_t free_bytes = *device_->FreeBytes();
  void* hog = nullptr;
  ASSERT_EQ(cudaMalloc(&hog, static_cast<std::size_t>(free_bytes - 768 * kUnit)), cudaSuccess);
  {
    const auto pool = Pool::Create(device_.get(), Options(4096 * kUnit)).value();
    const Stream stream = *device_->CreateStream();
    const absl::StatusOr<void*> small = pool->Allocate(64 * kUnit, stream);
    ASSERT_TRUE(small.ok()) << small.status();
    const absl::StatusOr<void*> large = pool->Allocate(2048 * kUnit, stream);
    EXPECT_TRUE(absl::IsResourceExhausted(large.status())) << large.status();
    const absl::StatusOr<void*> next = pool->Allocate(64 * kUnit, stream);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_TRUE(pool->Free(*small, stream).ok());
    EXPECT_TRUE(pool->Free(*next, stream).ok());
  }
  EXPECT_EQ(cudaFree(hog), cudaSuccess);
}

TEST_P(GpuPoolTest, LeavesTheDeviceAsItWas) {
  cudaDeviceSynchronize();
  const std::int64_t before = *device_->FreeBytes();
  {
    const auto pool = Pool::Create(device_.get(), Options(1024 * kUnit)).value();
    Patterns patterns(*device_, *pool, 4);
    patterns.Run(500, 64 * kUnit, 3);
  }
  // Kernels and events keep a little memory of their own.
  EXPECT_GE(*device_->FreeBytes(), before - 32 * kUnit);
  EXPECT_EQ(device_->used_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Memory, GpuPoolTest,
                         ::testing::Values(Configuration{"virtual_memory", PoolMemory::kVirtual,
                                                         false},
                                           Configuration{"remapping", PoolMemory::kVirtual, true},
                                           Configuration{"segments", PoolMemory::kSegments, false}),
                         [](const auto& test) { return test.param.name; });

// Every second granule is free, so only remapping can make room.
TEST(GpuRemapTest, KeepsContentsAndServesWhatFits) {
  const auto device = *CudaDevice::Create({});
  const std::int64_t granule = device->granularity();
  ASSERT_GT(granule, 0);
  constexpr int kGranules = 256;
  const auto pool =
      Pool::Create(device.get(), {.max_bytes = kGranules * granule, .remap = true}).value();
  const Stream stream = *device->CreateStream();
  const Stream other = *device->CreateStream();
  const DamageCount damage;
  std::vector<void*> blocks;
  for (int i = 0; i < kGranules; ++i) {
    blocks.push_back(pool->Allocate(static_cast<std::size_t>(granule), stream).value());
    ASSERT_EQ(gpu::WritePattern(blocks.back(), granule, static_cast<std::uint32_t>(i), 0,
                                *device->NativeStream(stream)),
              cudaSuccess);
  }
  for (int i = 0; i < kGranules; i += 2) EXPECT_TRUE(pool->Free(blocks[i], stream).ok());
  const std::int64_t half = kGranules / 2 * granule;
  const absl::StatusOr<void*> joined = pool->Allocate(static_cast<std::size_t>(half), other);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(pool->Stats().remaps, 1);
  EXPECT_EQ(pool->Stats().remapped_bytes, half);
  ASSERT_EQ(gpu::WritePattern(*joined, half, 99, 0, *device->NativeStream(other)), cudaSuccess);
  ASSERT_EQ(
      gpu::CheckPattern(*joined, half, 99, kDelayNs, damage.get(), *device->NativeStream(other)),
      cudaSuccess);
  for (int i = 1; i < kGranules; i += 2) {
    ASSERT_EQ(gpu::CheckPattern(blocks[i], granule, static_cast<std::uint32_t>(i), 0, damage.get(),
                                *device->NativeStream(stream)),
              cudaSuccess);
    EXPECT_TRUE(pool->Free(blocks[i], stream).ok());
  }
  EXPECT_TRUE(pool->Free(*joined, other).ok());
  EXPECT_EQ(damage.words(), 0);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

// Shows that the tests above can fail.
TEST(GpuPatternTest, IsSeenToBreakWithoutTheWait) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer reports the race that this test is about";
#endif
  const auto device = *CudaDevice::Create({});
  testing::NeverWaits careless(*device);
  const auto pool = Pool::Create(&careless, {.max_bytes = 64 * kUnit}).value();
  Patterns patterns(*device, *pool, 4);
  // The number of rounds until damage depends on the speed of the streams.
  constexpr unsigned kRounds = 100;
  for (unsigned round = 0; round < kRounds && patterns.damaged_words() == 0; ++round) {
    patterns.Run(1000, 32 * kUnit, round);
  }
  EXPECT_GT(patterns.damaged_words(), 0);
}

}  // namespace
}  // namespace tidepool
