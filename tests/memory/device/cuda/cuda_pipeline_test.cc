// SPDX-License-Identifier: Apache-2.0
// The compression pipeline on a CUDA device: its streams, events and registered memory, with slow
// copies, after work of the caller's streams.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/memory/device/cuda/stand_in.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/cuda_device.h"

namespace tidepool {
namespace {

class CudaPipelineTest : public ::testing::Test {
 protected:
  using Stored = std::shared_ptr<const StoredBuffer>;

  CudaPipelineTest() {
    ConfigureStandIn({.copy_latency_ns = 50'000});
    device_ = *CudaDevice::Create({.ordinal = 1});
    staging_ = PinnedPool::Create(device_.get(), {.max_bytes = kMiB}).value();
    pages_ = PagePool::Create({.max_bytes = 16 * kMiB}).value();
    pipeline_ = CompressionPipeline::Create(device_.get(), staging_.get(), pages_.get(),
                                            {.ring = {.slots = 3, .slot_bytes = 64 * kKiB}})
                    .value();
  }
  ~CudaPipelineTest() override {
    pipeline_.reset();
    staging_.reset();
    device_.reset();
    ConfigureStandIn({});
  }

  std::future<absl::StatusOr<Stored>> Offload(const void* from, std::int64_t bytes, Stream after) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Stored>>>();
    auto future = promise->get_future();
    EXPECT_TRUE(
        pipeline_
            ->Offload(from, bytes, ZeroValueWord::k32Bits, after,
                      [promise](absl::StatusOr<Stored> end) { promise->set_value(std::move(end)); })
            .ok());
    return future;
  }
  std::future<absl::Status> Prefetch(const Stored& stored, void* to, Stream after) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    auto future = promise->get_future();
    EXPECT_TRUE(pipeline_
                    ->Prefetch(stored, to, after,
                               [promise](absl::Status end) { promise->set_value(std::move(end)); })
                    .ok());
    return future;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<PinnedPool> staging_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<CompressionPipeline> pipeline_;
};

TEST_F(CudaPipelineTest, BringsBackWhatAStreamWrote) {
  const std::int64_t bytes = 1'000'003;
  std::mt19937_64 random(1);
  auto* const pinned = static_cast<std::byte*>(*device_->AllocatePinned(bytes));
  for (std::int64_t i = 0; i < bytes; ++i) {
    pinned[i] = random() % 3 == 0 ? static_cast<std::byte>(random()) : std::byte{0};
  }
  const std::vector<std::byte> contents(pinned, pinned + bytes);
  void* const memory = *device_->AllocateMemory(bytes);
  const Stream stream = *device_->CreateStream();
  ASSERT_TRUE(device_->Copy(memory, pinned, bytes, CopyDirection::kToDevice, stream).ok());
  const Stored stored = Offload(memory, bytes, stream).get().value();
  EXPECT_EQ(stored->input_bytes(), bytes);

  ASSERT_TRUE(device_->Fill(memory, 0xee, bytes, stream).ok());
  ASSERT_TRUE(Prefetch(stored, memory, stream).get().ok());
  std::memset(pinned, 0, static_cast<std::size_t>(bytes));
  ASSERT_TRUE(device_->Copy(pinned, memory, bytes, CopyDirection::kFromDevice, stream).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
  EXPECT_EQ(std::vector<std::byte>(pinned, pinned + bytes), contents);
  EXPECT_TRUE(device_->FreePinned(pinned).ok());
}

TEST_F(CudaPipelineTest, ReportsFailuresOfTheDevice) {
  const std::int64_t bytes = 500'000;
  void* const memory = *device_->AllocateMemory(bytes);
  const Stream stream = *device_->CreateStream();
  ASSERT_TRUE(device_->Fill(memory, 7, bytes, stream).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
  // The address lies past the end of the memory.
  EXPECT_FALSE(Offload(static_cast<std::byte*>(memory) + bytes, 64 * kMiB, stream).get().ok());
  EXPECT_EQ(pages_->Stats().used_pages, 0);
  EXPECT_TRUE(Offload(memory, bytes, stream).get().ok());
}

}  // namespace
}  // namespace tidepool
