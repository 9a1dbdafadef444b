// SPDX-License-Identifier: Apache-2.0
// A device that fails all calls from a certain call on: every transfer ends all the same, and
// memory of compressed bytes goes back to its pool.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "tests/copies/pipeline/pipeline_fixture.h"
#include "tests/support/forwarding_device.h"

namespace tidepool {
namespace {

// Fails all calls after a number of calls. Copies finish at once, because no thread could wait for
// them later.
class MortalDevice final : public testing::ForwardingDevice {
 public:
  explicit MortalDevice(HostDevice& host) : ForwardingDevice(host) {}

  void DieAfter(std::int64_t calls) { left_ = calls; }
  bool IsDead() const { return left_ <= 0; }

  absl::StatusOr<Event> CreateEvent(EventKind kind) override {
    if (Dies()) return Dead();
    return ForwardingDevice::CreateEvent(kind);
  }
  absl::Status RecordEvent(Event event, Stream stream) override {
    return Dies() ? Dead() : ForwardingDevice::RecordEvent(event, stream);
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    return Dies() ? Dead() : ForwardingDevice::WaitEvent(stream, event);
  }
  absl::StatusOr<bool> QueryEvent(Event event) override {
    if (Dies()) return Dead();
    return ForwardingDevice::QueryEvent(event);
  }
  absl::Status SynchronizeEvent(Event event) override {
    return Dies() ? Dead() : ForwardingDevice::SynchronizeEvent(event);
  }
  absl::Status SynchronizeStream(Stream stream) override {
    return Dies() ? Dead() : ForwardingDevice::SynchronizeStream(stream);
  }
  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    if (Dies()) return Dead();
    absl::Status status = ForwardingDevice::Copy(to, from, bytes, direction, stream);
    return status.ok() ? ForwardingDevice::SynchronizeStream(stream) : status;
  }

 private:
  bool Dies() { return left_.fetch_sub(1) <= 0; }
  static absl::Status Dead() {
    return absl::InternalError("the device is lost, expected one that works");
  }

  std::atomic<std::int64_t> left_ = std::int64_t{1} << 60;
};

TEST(DeadDeviceTest, AllTransfersEnd) {
  const std::int64_t bytes = 150 * kKiB;
  const auto host = HostDevice::Create({.memory_bytes = 4 * kMiB}).value();
  MortalDevice device(*host);
  const auto staging = PinnedPool::Create(&device, {.max_bytes = kMiB}).value();
  const auto pages = PagePool::Create({.page_bytes = 16 * kKiB, .max_bytes = 4 * kMiB}).value();
  void* const memory = host->AllocateMemory(bytes).value();
  void* const other = host->AllocateMemory(bytes).value();
  const Stream after = host->CreateStream().value();
  for (std::int64_t calls = 0; calls < 120; ++calls) {
    device.DieAfter(std::int64_t{1} << 60);
    auto pipeline = CompressionPipeline::Create(&device, staging.get(), pages.get(),
                                                {.ring = {.slots = 3, .slot_bytes = 32 * kKiB}})
                        .value();
    const auto offload = [&] {
      auto promise = std::make_shared<std::promise<absl::StatusOr<Stored>>>();
      const absl::Status status = pipeline->Offload(
          memory, bytes, ZeroValueWord::k32Bits, after,
          [promise](absl::StatusOr<Stored> stored) { promise->set_value(std::move(stored)); });
      if (!status.ok()) promise->set_value(status);
      return promise->get_future();
    };
    const auto prefetch = [&](Stored stored) {
      auto promise = std::make_shared<std::promise<absl::Status>>();
      const absl::Status status =
          pipeline->Prefetch(std::move(stored), other, after,
                             [promise](const absl::Status& end) { promise->set_value(end); });
      if (!status.ok()) promise->set_value(status);
      return promise->get_future();
    };
    Stored stored = offload().get().value();
    device.DieAfter(calls);
    std::vector<std::future<absl::StatusOr<Stored>>> offloads;
    std::vector<std::future<absl::Status>> prefetches;
    for (int i = 0; i < 2; ++i) {
      offloads.push_back(offload());
      prefetches.push_back(prefetch(stored));
    }
    for (auto& end : offloads) {
      EXPECT_TRUE(end.get().ok() || device.IsDead());
    }
    for (auto& end : prefetches) {
      EXPECT_TRUE(end.get().ok() || device.IsDead());
    }
    pipeline.reset();
    stored.reset();
    offloads.clear();
    EXPECT_EQ(pages->Stats().used_pages, 0);
    EXPECT_EQ(staging->Stats().live_bytes, 0);
  }
}

}  // namespace
}  // namespace tidepool
