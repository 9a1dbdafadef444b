// SPDX-License-Identifier: Apache-2.0
// A device that fails at any of its calls: each transfer ends with success or an error, no memory
// is lost, and later transfers succeed.
#include <gtest/gtest.h>

#include <thread>

#include "tests/copies/pipeline/pipeline_fixture.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

class PipelineFaultsTest : public ::testing::TestWithParam<Call> {};
INSTANTIATE_TEST_SUITE_P(EachCall, PipelineFaultsTest,
                         ::testing::Values(Call::kCopy, Call::kRecordEvent, Call::kWaitEvent,
                                           Call::kSynchronizeEvent, Call::kCreateEvent,
                                           Call::kDestroyEvent));

// Sends two buffers out and two in, all at once and after the work of a stream.
struct Result {
  absl::StatusOr<Stored> first;
  absl::StatusOr<Stored> second;
};

TEST_P(PipelineFaultsTest, NothingIsLost) {
  PipelineFixture fixture;
  const std::int64_t bytes = 150 * kKiB;
  const Bytes contents = ActivationBytes(bytes, 0.5, 1);
  void* const memory = fixture.NewMemory(contents);
  void* const other = fixture.NewMemory(bytes);
  bool has_failed = true;
  for (std::int64_t n = 1; has_failed; ++n) {
    ASSERT_LT(n, 1000);
    has_failed = false;
    const Stored stored = fixture.Offload(memory, bytes).value();
    const Bytes noise(static_cast<std::size_t>(bytes), std::byte{0xee});
    fixture.Write(other, noise);

    const std::int64_t calls = fixture.device().CountCalls(GetParam());
    fixture.device().FailCall(GetParam(), n);
    auto offload = fixture.BeginOffload(memory, bytes, fixture.stream());
    auto prefetch = fixture.BeginPrefetch(stored, other, fixture.stream());
    auto second = fixture.BeginOffload(memory, bytes, fixture.stream());
    const auto taken = offload.get();
    const auto taken_again = second.get();
    const absl::Status brought = prefetch.get();
    has_failed = fixture.device().CountCalls(GetParam()) - calls >= n;
    fixture.device().FailCall(GetParam(), 0);

    for (const absl::Status& status : {taken.status(), taken_again.status(), brought}) {
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        EXPECT_TRUE(has_failed);
      }
    }
    EXPECT_EQ(fixture.Read(memory, bytes), contents);
    if (brought.ok()) {
      EXPECT_EQ(fixture.Read(other, bytes), contents);
    }
    for (const auto& result : {taken, taken_again}) {
      if (!result.ok()) continue;
      fixture.Write(other, noise);
      ASSERT_TRUE(fixture.Prefetch(*result, other).ok());
      EXPECT_EQ(fixture.Read(other, bytes), contents);
    }
    // The stored bytes remain after a failed prefetch.
    fixture.Write(other, noise);
    ASSERT_TRUE(fixture.Prefetch(stored, other).ok());
    EXPECT_EQ(fixture.Read(other, bytes), contents);
  }
  EXPECT_EQ(fixture.HeldBytes(), 0);
}

// Held copies end only after the calls that begin them. A thread that fails to record an event must
// not wait for the copy while it holds the mutex (deadlock).
TEST(PipelineFaultsTest, ACopyWithoutAnEventBlocksNoOtherThread) {
  PipelineFixture fixture;
  const std::int64_t bytes = 150 * kKiB;
  const Bytes contents = ActivationBytes(bytes, 0.5, 1);
  void* const memory = fixture.NewMemory(contents);
  void* const other = fixture.NewMemory(bytes);
  const Stored stored = fixture.Offload(memory, bytes).value();
  for (const std::int64_t n : {1, 2, 3}) {
    fixture.device().HoldCopies();
    fixture.device().FailCall(Call::kRecordEvent, n);
    auto offload = fixture.BeginOffload(memory, bytes);
    fixture.device().FailCall(Call::kRecordEvent, 0);
    EXPECT_EQ(fixture.pipeline().Stats().prefetches, 0);
    fixture.device().ReleaseCopies();
    EXPECT_EQ(offload.get().status().code(), absl::StatusCode::kUnavailable);
  }
  fixture.device().HoldCopies();
  fixture.device().FailCall(Call::kRecordEvent, 1);
  const std::int64_t marks = fixture.device().CountCalls(Call::kRecordEvent);
  auto prefetch = fixture.BeginPrefetch(stored, other);
  while (fixture.device().CountCalls(Call::kRecordEvent) == marks) std::this_thread::yield();
  EXPECT_EQ(fixture.pipeline().Stats().prefetches, 0);
  fixture.device().ReleaseCopies();
  EXPECT_EQ(prefetch.get().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(fixture.Prefetch(stored, other).ok());
  EXPECT_EQ(fixture.Read(other, bytes), contents);
}

TEST(PipelineFaultsTest, CreatingReportsTheDevice) {
  for (const Call call : {Call::kCreateStream, Call::kCreateEvent}) {
    PipelineFixture fixture;
    for (const std::int64_t n : {1, 2}) {
      const std::int64_t live = fixture.staging().Stats().live_bytes;
      fixture.device().FailCall(call, n);
      EXPECT_EQ(
          CompressionPipeline::Create(&fixture.device(), &fixture.staging(), &fixture.pages(), {})
              .status()
              .code(),
          absl::StatusCode::kUnavailable);
      EXPECT_EQ(fixture.staging().Stats().live_bytes, live);
    }
  }
}

}  // namespace
}  // namespace tidepool
