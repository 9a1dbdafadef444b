// SPDX-License-Identifier: Apache-2.0
// An offloader on a host device. Host functions on streams write and check patterns in its buffers.
#ifndef TIDEPOOL_TESTS_COPIES_OFFLOAD_OFFLOADER_FIXTURE_H_
#define TIDEPOOL_TESTS_COPIES_OFFLOAD_OFFLOADER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/copies/offload/patterns.h"
#include "tests/support/sizes.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/host_device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"

namespace tidepool {

inline constexpr auto kWhenOut = OffloaderOptions::Release::kWhenOut;
inline constexpr auto kWhenAwaited = OffloaderOptions::Release::kWhenAwaited;

struct OffloaderFixtureOptions {
  HostDeviceOptions device = {.memory_bytes = std::int64_t{64} << 20};
  std::int64_t pool_bytes = std::int64_t{1} << 20;
  std::int64_t host_bytes = std::int64_t{4} << 20;
  std::int64_t page_bytes = std::int64_t{4} << 20;  // for compressed bytes
  bool compresses = false;
  OffloaderOptions::Release release = kWhenOut;
  bool one_transfer_at_a_time = false;
};

class OffloaderFixture {
 public:
  explicit OffloaderFixture(const OffloaderFixtureOptions& options = {})
      : options_(options), device_(HostDevice::Create(options.device).value()) {
    PoolOptions pool;
    pool.max_bytes = options.pool_bytes;
    pool_ = Pool::Create(device_.get(), pool).value();
    host_ = PinnedPool::Create(device_.get(), {.max_bytes = options.host_bytes}).value();
    staging_ = PinnedPool::Create(device_.get(), {.max_bytes = std::int64_t{1} << 20}).value();
    pages_ = PagePool::Create({.page_bytes = 16 << 10, .max_bytes = options.page_bytes}).value();
    if (options.compresses) {
      pipeline_ = CompressionPipeline::Create(device_.get(), staging_.get(), pages_.get(),
                                              {.ring = {.slots = 3, .slot_bytes = 32 << 10}})
                      .value();
    }
    stream_ = device_->CreateStream().value();
    event_ = device_->CreateEvent().value();
    offloader_ = Create().value();
  }
  ~OffloaderFixture() {
    Destroy();
    EXPECT_TRUE(pool_->CheckInvariants().ok());
    EXPECT_EQ(pool_->Stats().live_bytes, 0);
    EXPECT_EQ(host_->Stats().live_bytes, 0);
    EXPECT_EQ(pages_->Stats().used_pages, 0);
  }
  OffloaderFixture(const OffloaderFixture&) = delete;
  OffloaderFixture& operator=(const OffloaderFixture&) = delete;

  absl::StatusOr<std::unique_ptr<Offloader>> Create() {
    return Offloader::Create(device_.get(), pool_.get(), host_.get(),
                             {.release = options_.release,
                              .one_transfer_at_a_time = options_.one_transfer_at_a_time,
                              .pipeline = pipeline_.get()});
  }
  void Destroy() { offloader_.reset(); }

  HostDevice& device() { return *device_; }
  Pool& pool() { return *pool_; }
  PinnedPool& host() { return *host_; }
  Offloader& offloader() { return *offloader_; }
  Stream stream() const { return stream_; }
  // Returns the word to compress with, or nothing for raw copies.
  std::optional<ZeroValueWord> word() const {
    return options_.compresses ? std::optional(ZeroValueWord::k32Bits) : std::nullopt;
  }

  BufferId New(std::int64_t bytes, std::uint64_t seed, const std::string& name = "") {
    const BufferId buffer =
        offloader_->Allocate(static_cast<std::size_t>(bytes), stream_, Hint::kResident, name)
            .value();
    Write(buffer, bytes, seed);
    return buffer;
  }
  // Queues the write on the stream.
  void Write(BufferId buffer, std::int64_t bytes, std::uint64_t seed) {
    void* const address = offloader_->Use(buffer, stream_).value();
    ASSERT_TRUE(device_->CallHost(stream_, [=] { WritePattern(address, bytes, seed); }).ok());
  }
  // Offloads the buffer after the work that is queued on the stream now.
  absl::Status Send(BufferId buffer) { return Send(buffer, word()); }
  absl::Status Send(BufferId buffer, std::optional<ZeroValueWord> word) {
    EXPECT_TRUE(device_->RecordEvent(event_, stream_).ok());
    return offloader_->Offload(buffer, event_, word);
  }
  // Returns whether the buffer has the pattern; waits for the stream.
  bool Holds(BufferId buffer, std::int64_t bytes, std::uint64_t seed) {
    const absl::StatusOr<void*> address = offloader_->Use(buffer, stream_);
    EXPECT_TRUE(address.ok()) << address.status();
    return address.ok() && Holds(*address, bytes, seed);
  }
  bool Holds(const void* address, std::int64_t bytes, std::uint64_t seed) {
    bool holds = false;
    EXPECT_TRUE(
        device_->CallHost(stream_, [=, &holds] { holds = HasPattern(address, bytes, seed); }).ok());
    EXPECT_TRUE(device_->SynchronizeStream(stream_).ok());
    return holds;
  }
  BufferState State(BufferId buffer) const { return offloader_->State(buffer).value(); }

  // Makes work on the stream wait for the promise.
  std::promise<void> Block(Stream stream) {
    std::promise<void> promise;
    EXPECT_TRUE(
        device_->CallHost(stream, [future = promise.get_future().share()] { future.wait(); }).ok());
    return promise;
  }

 private:
  const OffloaderFixtureOptions options_;
  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<PinnedPool> host_;
  std::unique_ptr<PinnedPool> staging_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<CompressionPipeline> pipeline_;
  Stream stream_;
  Event event_;
  std::unique_ptr<Offloader> offloader_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_COPIES_OFFLOAD_OFFLOADER_FIXTURE_H_
