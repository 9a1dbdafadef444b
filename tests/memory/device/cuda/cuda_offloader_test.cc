// SPDX-License-Identifier: Apache-2.0
// The offloader on a CUDA device: more buffers than fit, raw and compressed, with slow copies,
// after work of the caller's stream.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "tests/copies/offload/offloader_fixture.h"
#include "tests/memory/device/cuda/stand_in.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/cuda_device.h"

namespace tidepool {
namespace {

class CudaOffloaderTest : public ::testing::TestWithParam<OffloaderOptions::Release> {
 protected:
  CudaOffloaderTest() {
    ConfigureStandIn({.copy_latency_ns = 50'000});
    device_ = *CudaDevice::Create({.ordinal = 1});
    PoolOptions pool;
    pool.max_bytes = 2 * kMiB;
    pool_ = Pool::Create(device_.get(), pool).value();
    host_ = PinnedPool::Create(device_.get(), {.max_bytes = 8 * kMiB}).value();
    pages_ = PagePool::Create({.max_bytes = 16 * kMiB}).value();
    pipeline_ = CompressionPipeline::Create(device_.get(), host_.get(), pages_.get(),
                                            {.ring = {.slots = 3, .slot_bytes = 64 * kKiB}})
                    .value();
    offloader_ = Offloader::Create(device_.get(), pool_.get(), host_.get(),
                                   {.release = GetParam(), .pipeline = pipeline_.get()})
                     .value();
    stream_ = device_->CreateStream().value();
    event_ = device_->CreateEvent().value();
  }
  ~CudaOffloaderTest() override {
    offloader_.reset();
    EXPECT_EQ(pool_->Stats().live_bytes, 0);
    pipeline_.reset();
    EXPECT_EQ(host_->Stats().live_bytes, 0);
    EXPECT_EQ(pages_->Stats().used_pages, 0);
    host_.reset();
    pool_.reset();
    device_.reset();
    ConfigureStandIn({});
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<PinnedPool> host_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<CompressionPipeline> pipeline_;
  std::unique_ptr<Offloader> offloader_;
  Stream stream_;
  Event event_;
};
INSTANTIATE_TEST_SUITE_P(Ways, CudaOffloaderTest, ::testing::Values(kWhenOut, kWhenAwaited));

TEST_P(CudaOffloaderTest, BringsBackMoreThanFits) {
  constexpr int kBuffers = 8;
  constexpr std::int64_t kBytes = 500'001;
  const auto send = [&](BufferId buffer, std::uint64_t seed) {
    ASSERT_TRUE(device_->RecordEvent(event_, stream_).ok());
    const auto word = seed % 2 == 0 ? std::optional(ZeroValueWord::k32Bits) : std::nullopt;
    ASSERT_TRUE(offloader_->Offload(buffer, event_, word).ok());
  };
  std::vector<BufferId> buffers;
  for (std::uint64_t seed = 0; seed < kBuffers; ++seed) {
    buffers.push_back(offloader_->Allocate(kBytes, stream_).value());
    void* const address = offloader_->Use(buffers.back(), stream_).value();
    ASSERT_TRUE(device_->CallHost(stream_, [=] { WritePattern(address, kBytes, seed); }).ok());
    send(buffers.back(), seed);
  }
  int held = 0;
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t seed = 0; seed < kBuffers; ++seed) {
      const BufferId buffer = buffers[seed];
      ASSERT_TRUE(offloader_->Prefetch(buffer, stream_).ok());
      const void* const address = offloader_->Use(buffer, stream_).value();
      ASSERT_TRUE(device_
                      ->CallHost(stream_,
                                 [=, &held] {
                                   if (HasPattern(address, kBytes, seed)) ++held;
                                 })
                      .ok());
      send(buffer, seed);
    }
  }
  ASSERT_TRUE(offloader_->Synchronize().ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  EXPECT_EQ(held, 2 * kBuffers);
  EXPECT_EQ(offloader_->Stats().failures, 0);
}

// A thread that spins keeps a core from the compression.
TEST_P(CudaOffloaderTest, ThreadsSleepUntilCopiesEnd) {
  for (const std::optional<ZeroValueWord> word :
       {std::optional<ZeroValueWord>(), std::optional(ZeroValueWord::k32Bits)}) {
    const BufferId buffer = offloader_->Allocate(300'000, stream_).value();
    ASSERT_TRUE(offloader_->Offload(buffer, {}, word).ok());
    ASSERT_TRUE(offloader_->Await(buffer).ok());
    ASSERT_TRUE(offloader_->Prefetch(buffer, stream_).ok());
    ASSERT_TRUE(offloader_->Use(buffer, stream_).ok());
    ASSERT_TRUE(offloader_->Synchronize().ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  }
  EXPECT_GT(cudartHostCountCalls("cudaEventSynchronize"), 0);
  EXPECT_EQ(cudartHostCountSpins(), 0);
}

// Use returned the address, so work that uses it may still be queued.
TEST_P(CudaOffloaderTest, KeepsMemoryOfACompressedCopyThatFailedUntilTheErrorIsTold) {
  constexpr std::int64_t kBytes = 100'000;  // two pieces
  const BufferId buffer = offloader_->Allocate(kBytes, stream_).value();
  ASSERT_TRUE(offloader_->Offload(buffer, {}, ZeroValueWord::k32Bits).ok());
  ASSERT_TRUE(offloader_->Await(buffer).ok());
  cudartHostHoldCopies(1);
  cudartHostFailCall("cudaMemcpyAsync", 2, cudaErrorDevicesUnavailable);
  ASSERT_TRUE(offloader_->Prefetch(buffer, stream_).ok());
  void* const address = offloader_->Use(buffer, stream_).value();
  cudartHostReleaseCopies(1);
  while (offloader_->Stats().failures == 0) std::this_thread::yield();
  EXPECT_EQ(offloader_->State(buffer).value(), BufferState::kOut);
  EXPECT_TRUE(pool_->AllocatedOn(address).ok());
  EXPECT_EQ(offloader_->Use(buffer, stream_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(pool_->AllocatedOn(address).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
}

// Synchronize reports the first of two errors.
TEST_P(CudaOffloaderTest, KeepsMemoryOfARawCopyThatFailedUntilTheErrorIsTold) {
  constexpr std::int64_t kBytes = 100'000;
  std::vector<BufferId> buffers;
  for (int i = 0; i < 2; ++i) {
    buffers.push_back(offloader_->Allocate(kBytes, stream_).value());
    ASSERT_TRUE(offloader_->Offload(buffers.back(), {}).ok());
    ASSERT_TRUE(offloader_->Await(buffers.back()).ok());
  }
  cudartHostHoldCopies(1);
  std::vector<void*> addresses;
  for (const BufferId buffer : buffers) {
    ASSERT_TRUE(offloader_->Prefetch(buffer, stream_).ok());
    addresses.push_back(offloader_->Use(buffer, stream_).value());
  }
  cudartHostBreakDevice(1, cudaErrorIllegalAddress);
  EXPECT_FALSE(offloader_->Synchronize().ok());
  EXPECT_FALSE(pool_->AllocatedOn(addresses[0]).ok());
  EXPECT_TRUE(pool_->AllocatedOn(addresses[1]).ok());
  EXPECT_FALSE(offloader_->Use(buffers[1], stream_).ok());
  EXPECT_FALSE(pool_->AllocatedOn(addresses[1]).ok());
  cudartHostReleaseCopies(1);
}

}  // namespace
}  // namespace tidepool
