// SPDX-License-Identifier: Apache-2.0
// Waits without locks: no thread holds a lock while it waits for a stream, pins memory, or takes
// the end of a copy. Otherwise it could stop the thread that it waits for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/copies/offload/offloader_fixture.h"
#include "tests/support/forwarding_device.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

struct PoolKind {
  const char* name;
  PoolMemory memory;
  bool remap;
  bool trims;  // or allocates more than is free in one piece
};

class DependentStreamTest : public ::testing::TestWithParam<PoolKind> {};

constexpr PoolKind kKinds[] = {{"TrimOfVirtualMemory", PoolMemory::kVirtual, false, true},
                               {"TrimOfGranules", PoolMemory::kVirtual, true, true},
                               {"TrimOfSegments", PoolMemory::kSegments, false, true},
                               {"GrowthBySegment", PoolMemory::kSegments, false, false}};
INSTANTIATE_TEST_SUITE_P(Pools, DependentStreamTest, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

// Regression: the stream waits for a compressed copy back, which needs a thread of the pipeline.
// These threads give memory of copies out back to the pool. A pool that held its mutex while it
// waited for the stream never returned (deadlock).
TEST_P(DependentStreamTest, IsAwaitedWithoutHoldingUpTheCopiesThatItNeeds) {
  const PoolKind& kind = GetParam();
  const auto device = HostDevice::Create({.memory_bytes = 64 * kMiB}).value();
  const Stream stream = device->CreateStream().value();
  PoolOptions pool_options;
  pool_options.max_bytes = 7 * kMiB;
  pool_options.memory = kind.memory;
  pool_options.remap = kind.remap;
  pool_options.growth = 0;
  const auto pool = Pool::Create(device.get(), pool_options).value();
  const auto pinned = PinnedPool::Create(device.get(), {.max_bytes = 4 * kMiB}).value();
  const auto pages = PagePool::Create({.max_bytes = 8 * kMiB}).value();
  const auto pipeline =
      CompressionPipeline::Create(device.get(), pinned.get(), pages.get(),
                                  {.ring = {.slots = 4, .slot_bytes = 64 * kKiB}, .threads = 1})
          .value();
  const auto offloader =
      Offloader::Create(device.get(), pool.get(), pinned.get(), {.pipeline = pipeline.get()})
          .value();
  const auto allocate = [&](std::int64_t bytes) {
    const BufferId buffer = offloader->Allocate(static_cast<std::size_t>(bytes), stream).value();
    EXPECT_TRUE(device->Fill(offloader->Use(buffer, stream).value(), 0, bytes, stream).ok());
    return buffer;
  };
  const auto send = [&](BufferId buffer) {
    EXPECT_TRUE(offloader->Offload(buffer, {}, ZeroValueWord::k32Bits).ok());
  };
  const BufferId out = allocate(2 * kMiB);
  ASSERT_TRUE(device->SynchronizeStream(stream).ok());
  send(out);
  ASSERT_TRUE(offloader->Await(out).ok());
  std::vector<BufferId> small;
  for (int i = 0; i < 12; ++i) small.push_back(allocate(64 * kKiB));
  const BufferId freed = allocate(2 * kMiB);
  ASSERT_TRUE(device->SynchronizeStream(stream).ok());

  device->HoldCopies();
  const std::int64_t waits = device->CountCalls(Call::kSynchronizeEvent);
  const auto await_waits = [&](std::int64_t count) {
    while (device->CountCalls(Call::kSynchronizeEvent) < waits + count) std::this_thread::yield();
  };
  for (const BufferId buffer : small) send(buffer);
  ASSERT_TRUE(offloader->Prefetch(out, stream).ok());
  ASSERT_TRUE(offloader->Use(out, stream).ok());
  ASSERT_TRUE(offloader->Free(freed).ok());
  await_waits(2);  // by the pipeline, for a copy each way
  std::future<absl::Status> waiting = std::async(std::launch::async, [&] {
    if (kind.trims) return pool->Trim(0).status();
    const absl::StatusOr<void*> p = pool->Allocate(5 * kMiB / 2, stream);
    return p.ok() ? pool->Free(*p, stream) : p.status();
  });
  await_waits(3);
  device->ReleaseCopies();
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_TRUE(offloader->Synchronize().ok());
  EXPECT_EQ(offloader->Stats().offloads, 13);
}

// A device with calls that the test can block.
class GatedDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  // Blocks the next copy, or registration of host memory, until Open.
  void CloseForCopies() { gate_for_copies_ = true; }
  void CloseForRegistrations() { gate_for_registrations_ = true; }
  void AwaitCall() { is_there_.wait(); }
  void Open() { is_open_.count_down(); }

  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    if (gate_for_copies_.exchange(false)) Stay();
    return ForwardingDevice::Copy(to, from, bytes, direction, stream);
  }
  absl::Status RegisterHostMemory(void* address, std::int64_t bytes) override {
    if (gate_for_registrations_.exchange(false)) Stay();
    return ForwardingDevice::RegisterHostMemory(address, bytes);
  }

 private:
  void Stay() {
    is_there_.count_down();
    is_open_.wait();
  }

  std::atomic<bool> gate_for_copies_ = false;
  std::atomic<bool> gate_for_registrations_ = false;
  std::latch is_there_{1};
  std::latch is_open_{1};
};

class OffloaderLocksTest : public ::testing::Test {
 protected:
  OffloaderLocksTest() {
    PoolOptions pool_options;
    pool_options.max_bytes = 4 * kMiB;
    pool_ = Pool::Create(host_device_.get(), pool_options).value();
    staging_ = PinnedPool::Create(host_device_.get(), {.max_bytes = kMiB}).value();
    pages_ = PagePool::Create({.max_bytes = 8 * kMiB}).value();
    pipeline_ =
        CompressionPipeline::Create(host_device_.get(), staging_.get(), pages_.get(),
                                    {.ring = {.slots = 4, .slot_bytes = 64 * kKiB}, .threads = 1})
            .value();
    pinned_ =
        PinnedPool::Create(&device_, {.max_bytes = 4 * kMiB, .initial_bytes = 0, .may_grow = true})
            .value();
    offloader_ =
        Offloader::Create(&device_, pool_.get(), pinned_.get(), {.pipeline = pipeline_.get()})
            .value();
    stream_ = device_.CreateStream().value();
  }

  std::unique_ptr<HostDevice> host_device_ =
      HostDevice::Create({.memory_bytes = 64 * kMiB}).value();
  GatedDevice device_{*host_device_};
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<PinnedPool> staging_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<CompressionPipeline> pipeline_;
  std::unique_ptr<PinnedPool> pinned_;
  std::unique_ptr<Offloader> offloader_;
  Stream stream_;
};

TEST_F(OffloaderLocksTest, QueriesDoNotWaitWhileMemoryIsPinned) {
  const BufferId one = offloader_->Allocate(kMiB, stream_).value();
  const BufferId other = offloader_->Allocate(kMiB, stream_).value();
  device_.CloseForRegistrations();
  std::thread pinning([&] { EXPECT_TRUE(offloader_->Offload(one, {}).ok()); });
  device_.AwaitCall();
  EXPECT_EQ(offloader_->State(one).value(), BufferState::kOnDevice);
  EXPECT_EQ(offloader_->State(other).value(), BufferState::kOnDevice);
  EXPECT_TRUE(offloader_->Use(other, stream_).ok());
  EXPECT_EQ(offloader_->Stats().buffers, 2);
  EXPECT_TRUE(offloader_->Free(other).ok());
  device_.Open();
  pinning.join();
  EXPECT_TRUE(offloader_->Await(one).ok());
}

// Another thread frees the buffer meanwhile, or sends it out compressed.
class OvertakenOffloadTest : public OffloaderLocksTest,
                             public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, OvertakenOffloadTest, ::testing::Bool());

TEST_P(OvertakenOffloadTest, IsRefused) {
  const bool is_freed = GetParam();
  const BufferId buffer = offloader_->Allocate(kMiB, stream_).value();
  device_.CloseForRegistrations();
  absl::Status status;
  std::thread pinning([&] { status = offloader_->Offload(buffer, {}); });
  device_.AwaitCall();
  if (is_freed) {
    EXPECT_TRUE(offloader_->Free(buffer).ok());
  } else {
    EXPECT_TRUE(offloader_->Offload(buffer, {}, ZeroValueWord::k32Bits).ok());
  }
  device_.Open();
  pinning.join();
  EXPECT_EQ(status.code(),
            is_freed ? absl::StatusCode::kNotFound : absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(pinned_->Stats().live_bytes, 0);
}

// One thread is inside the device with the offloader's mutex. Each of the pipeline's three threads
// ends a copy of the offloader, and must still be there for other copies.
TEST_F(OffloaderLocksTest, EndsOfCopiesDoNotKeepThePipelinesThreads) {
  std::vector<BufferId> buffers;
  for (int i = 0; i < 6; ++i) buffers.push_back(offloader_->Allocate(64 * kKiB, stream_).value());
  const BufferId raw = offloader_->Allocate(64 * kKiB, stream_).value();
  void* const memory = host_device_->AllocateMemory(64 * kKiB).value();

  host_device_->HoldCopies();
  for (const BufferId buffer : buffers) {
    ASSERT_TRUE(offloader_->Offload(buffer, {}, ZeroValueWord::k32Bits).ok());
  }
  device_.CloseForCopies();
  std::thread stuck([&] { EXPECT_TRUE(offloader_->Offload(raw, {}).ok()); });
  device_.AwaitCall();
  std::promise<absl::Status> over;
  ASSERT_TRUE(pipeline_
                  ->Offload(memory, 64 * kKiB, ZeroValueWord::k32Bits, {},
                            [&](absl::StatusOr<std::shared_ptr<const StoredBuffer>> stored) {
                              over.set_value(stored.status());
                            })
                  .ok());
  host_device_->ReleaseCopies();
  EXPECT_TRUE(over.get_future().get().ok());
  device_.Open();
  stuck.join();
  EXPECT_TRUE(offloader_->Synchronize().ok());
  EXPECT_EQ(offloader_->Stats().offloads, 7);
  EXPECT_TRUE(host_device_->FreeMemory(memory).ok());
}

}  // namespace
}  // namespace tidepool
