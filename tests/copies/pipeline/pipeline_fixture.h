// SPDX-License-Identifier: Apache-2.0
// A host device, pools of host memory, pipelines on them, and transfers that wait for their end.
#ifndef TIDEPOOL_TESTS_COPIES_PIPELINE_PIPELINE_FIXTURE_H_
#define TIDEPOOL_TESTS_COPIES_PIPELINE_PIPELINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/sizes.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/host_device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"

namespace tidepool {

using Bytes = std::vector<std::byte>;
using Stored = std::shared_ptr<const StoredBuffer>;

// Returns words as a ReLU leaves them: a share `density` of them is nonzero.
inline Bytes ActivationBytes(std::int64_t bytes, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::bernoulli_distribution is_set(density);
  Bytes buffer(static_cast<std::size_t>(bytes));
  for (std::size_t at = 0; at < buffer.size(); at += sizeof(float)) {
    const float value = is_set(random) ? normal(random) : 0.0F;
    std::memcpy(&buffer[at], &value, std::min(sizeof(value), buffer.size() - at));
  }
  return buffer;
}

// The memory for compressed bytes.
enum class Memory : std::uint8_t { kPages, kPinned };

struct PipelineFixtureOptions {
  HostDeviceOptions device = {.memory_bytes = 64 * kMiB};
  PagePoolOptions pages = {.page_bytes = 16 * kKiB, .max_bytes = 64 * kMiB};
  PinnedPoolOptions pinned = {.max_bytes = 64 * kMiB, .initial_bytes = 0, .may_grow = true};
  Memory memory = Memory::kPages;
  CompressionPipelineOptions pipeline = {.ring = {.slots = 3, .slot_bytes = 32 * kKiB}};
};

class PipelineFixture {
 public:
  explicit PipelineFixture(const PipelineFixtureOptions& options = {})
      : device_(HostDevice::Create(options.device).value()),
        pages_(PagePool::Create(options.pages).value()),
        staging_(PinnedPool::Create(device_.get(), options.pinned).value()),
        pinned_(PinnedPool::Create(device_.get(), options.pinned).value()),
        stream_(device_->CreateStream().value()) {
    const CompressedMemory memory = options.memory == Memory::kPages
                                        ? CompressedMemory(pages_.get())
                                        : CompressedMemory(pinned_.get());
    pipeline_ = CompressionPipeline::Create(device_.get(), staging_.get(), memory, options.pipeline)
                    .value();
  }

  HostDevice& device() { return *device_; }
  PagePool& pages() { return *pages_; }
  PinnedPool& staging() { return *staging_; }
  PinnedPool& pinned() { return *pinned_; }
  CompressionPipeline& pipeline() { return *pipeline_; }
  Stream stream() const { return stream_; }
  void DestroyPipeline() { pipeline_.reset(); }

  void* NewMemory(std::int64_t bytes) {
    return device_->AllocateMemory(std::max<std::int64_t>(bytes, 1)).value();
  }
  void* NewMemory(const Bytes& contents) {
    void* const memory = NewMemory(static_cast<std::int64_t>(contents.size()));
    Write(memory, contents);
    return memory;
  }
  void Free(void* memory) { ASSERT_TRUE(device_->FreeMemory(memory).ok()); }
  void Write(void* memory, const Bytes& contents) {
    if (contents.empty()) return;
    ASSERT_TRUE(device_
                    ->Copy(memory, contents.data(), static_cast<std::int64_t>(contents.size()),
                           CopyDirection::kToDevice, stream_)
                    .ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  }
  Bytes Read(const void* memory, std::int64_t bytes) {
    Bytes contents(static_cast<std::size_t>(bytes));
    if (bytes == 0) return contents;
    EXPECT_TRUE(
        device_->Copy(contents.data(), memory, bytes, CopyDirection::kFromDevice, stream_).ok());
    EXPECT_TRUE(device_->SynchronizeStream(stream_).ok());
    return contents;
  }

  std::future<absl::StatusOr<Stored>> BeginOffload(const void* from, std::int64_t bytes,
                                                   Stream after = {},
                                                   ZeroValueWord word = ZeroValueWord::k32Bits) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Stored>>>();
    auto future = promise->get_future();
    const absl::Status status = pipeline_->Offload(
        from, bytes, word, after,
        [promise](absl::StatusOr<Stored> stored) { promise->set_value(std::move(stored)); });
    if (!status.ok()) promise->set_value(status);
    return future;
  }
  std::future<absl::Status> BeginPrefetch(Stored stored, void* to, Stream after = {}) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    auto future = promise->get_future();
    const absl::Status status =
        pipeline_->Prefetch(std::move(stored), to, after,
                            [promise](absl::Status end) { promise->set_value(std::move(end)); });
    if (!status.ok()) promise->set_value(status);
    return future;
  }
  absl::StatusOr<Stored> Offload(const void* from, std::int64_t bytes,
                                 ZeroValueWord word = ZeroValueWord::k32Bits) {
    return BeginOffload(from, bytes, {}, word).get();
  }
  absl::Status Prefetch(Stored stored, void* to) {
    return BeginPrefetch(std::move(stored), to).get();
  }

  // Returns the bytes in use for compressed buffers, in both pools.
  std::int64_t HeldBytes() const {
    return pages_->Stats().used_pages * pages_->Stats().page_bytes + pinned_->Stats().live_bytes;
  }

 private:
  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<PinnedPool> staging_;
  std::unique_ptr<PinnedPool> pinned_;
  Stream stream_;
  std::unique_ptr<CompressionPipeline> pipeline_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_COPIES_PIPELINE_PIPELINE_FIXTURE_H_
