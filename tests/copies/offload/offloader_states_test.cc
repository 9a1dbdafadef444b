// SPDX-License-Identifier: Apache-2.0
// The states of a buffer: the calls that each allows, and the calls that it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/copies/offload/offloader_fixture.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/never_waits.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kBytes = 100'000;

class OffloaderStatesTest
    : public ::testing::TestWithParam<std::tuple<OffloaderOptions::Release, bool>> {
 protected:
  static OffloaderFixtureOptions Options() {
    OffloaderFixtureOptions options;
    options.release = std::get<0>(GetParam());
    options.compresses = std::get<1>(GetParam());
    return options;
  }

  OffloaderFixture fixture_{Options()};
  Offloader& offloader_ = fixture_.offloader();
};
INSTANTIATE_TEST_SUITE_P(Ways, OffloaderStatesTest,
                         ::testing::Combine(::testing::Values(kWhenOut, kWhenAwaited),
                                            ::testing::Bool()));

TEST_P(OffloaderStatesTest, GoesOutAndComesBack) {
  const BufferId buffer = fixture_.New(kBytes, 1, "x");
  EXPECT_EQ(fixture_.State(buffer), BufferState::kOnDevice);
  EXPECT_EQ(offloader_.Stats().device_bytes, kBytes);
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  ASSERT_TRUE(offloader_.Await(buffer).ok());
  EXPECT_TRUE(offloader_.Await(buffer).ok());
  EXPECT_EQ(fixture_.State(buffer), BufferState::kOut);
  EXPECT_EQ(fixture_.pool().Stats().live_bytes, 0);
  const OffloaderStats out = offloader_.Stats();
  EXPECT_EQ(out.device_bytes, 0);
  EXPECT_EQ(out.offloads, 1);
  EXPECT_EQ(out.bytes_out, kBytes);
  EXPECT_GT(out.host_bytes, 0);

  // Overwrites the former contents.
  const BufferId other = fixture_.New(kBytes, 2);
  ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
  EXPECT_TRUE(fixture_.Holds(buffer, kBytes, 1));
  EXPECT_TRUE(fixture_.Holds(other, kBytes, 2));
  ASSERT_TRUE(offloader_.Synchronize().ok());
  EXPECT_EQ(fixture_.State(buffer), BufferState::kOnDevice);
  const OffloaderStats back = offloader_.Stats();
  EXPECT_EQ(back.buffers, 2);
  EXPECT_EQ(back.prefetches, 1);
  EXPECT_EQ(back.bytes_in, kBytes);
  EXPECT_EQ(back.host_bytes, 0);
  EXPECT_EQ(back.peak_host_bytes, out.host_bytes);
  // The buffer may be written, and leave again.
  fixture_.Write(buffer, kBytes, 3);
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  ASSERT_TRUE(offloader_.Synchronize().ok());
  ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
  EXPECT_TRUE(fixture_.Holds(buffer, kBytes, 3));
}

TEST_P(OffloaderStatesTest, MisuseNamesTheBufferAndBothStates) {
  const BufferId buffer = fixture_.New(kBytes, 1, "x");
  const auto refuses = [](const absl::Status& status, const char* is, const char* expected) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(std::string("buffer 'x' is ") + is + ", expected a buffer"),
                      HasSubstr(std::string("that is ") + expected)));
  };
  refuses(offloader_.Await(buffer), "on the device", "going out");
  EXPECT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());

  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  EXPECT_EQ(fixture_.State(buffer), BufferState::kGoingOut);
  refuses(offloader_.Use(buffer, fixture_.stream()).status(), "going out", "on the device or");
  refuses(fixture_.Send(buffer), "going out", "on the device or coming back");
  fixture_.device().ReleaseCopies();
  ASSERT_TRUE(offloader_.Await(buffer).ok());

  refuses(offloader_.Use(buffer, fixture_.stream()).status(), "out", "on the device or");
  refuses(fixture_.Send(buffer), "out", "on the device or coming back");

  fixture_.device().HoldCopies();
  ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
  EXPECT_EQ(fixture_.State(buffer), BufferState::kComingBack);
  refuses(offloader_.Await(buffer), "coming back", "going out");
  EXPECT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
  fixture_.device().ReleaseCopies();
  EXPECT_TRUE(fixture_.Holds(buffer, kBytes, 1));
}

TEST_P(OffloaderStatesTest, KnowsNoOtherBuffers) {
  const BufferId buffer = fixture_.New(kBytes, 1);
  ASSERT_TRUE(offloader_.Free(buffer).ok());
  for (const BufferId id : {buffer, BufferId{}, BufferId{77}}) {
    for (const absl::Status& status :
         {offloader_.Free(id), offloader_.Await(id), offloader_.Offload(id, {}),
          offloader_.Prefetch(id, fixture_.stream()), offloader_.State(id).status(),
          offloader_.Use(id, fixture_.stream()).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
      EXPECT_THAT(std::string(status.message()), HasSubstr("expected a buffer that was not freed"));
    }
  }
  EXPECT_EQ(offloader_.Allocate(0, fixture_.stream()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(offloader_.Allocate(1, Stream{}).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(OffloaderStatesTest, KnowsNoBuffersOfOtherOffloaders) {
  const BufferId buffer = fixture_.New(kBytes, 1);
  const auto other = fixture_.Create().value();
  const BufferId others = other->Allocate(kBytes, fixture_.stream()).value();
  EXPECT_EQ(offloader_.Free(others).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(other->Free(buffer).code(), absl::StatusCode::kNotFound);
}

TEST_P(OffloaderStatesTest, StaysWhenItIsWantedWhileItGoes) {
  const BufferId buffer = fixture_.New(kBytes, 1);
  void* const address = offloader_.Use(buffer, fixture_.stream()).value();
  fixture_.device().HoldCopies();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(fixture_.Send(buffer).ok());
    ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
    EXPECT_EQ(fixture_.State(buffer), BufferState::kOnDevice);
    EXPECT_EQ(offloader_.Use(buffer, fixture_.stream()).value(), address);
  }
  EXPECT_EQ(offloader_.Stats().stayed, 2);
  fixture_.device().ReleaseCopies();
  EXPECT_TRUE(fixture_.Holds(buffer, kBytes, 1));
  ASSERT_TRUE(offloader_.Synchronize().ok());
  EXPECT_EQ(offloader_.Stats().host_bytes, 0);
  EXPECT_EQ(offloader_.Stats().device_bytes, kBytes);
  EXPECT_EQ(fixture_.State(buffer), BufferState::kOnDevice);
}

// A cancelled copy has no effect: the later copy decides.
TEST_P(OffloaderStatesTest, GoesAgainWhileTheCopyThatWasGivenUpStillRuns) {
  const BufferId buffer = fixture_.New(kBytes, 1);
  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(buffer, std::nullopt).ok());
  ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
  // Lets the cancelled copy finish before the write, only because a sanitizer would report a race.
  const Event first = fixture_.device().CreateEvent().value();
  ASSERT_TRUE(fixture_.device().RecordEvent(first, offloader_.out_stream()).ok());
  ASSERT_TRUE(fixture_.device().WaitEvent(fixture_.stream(), first).ok());
  fixture_.Write(buffer, kBytes, 2);
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  fixture_.device().ReleaseCopies();
  ASSERT_TRUE(offloader_.Await(buffer).ok());
  ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
  EXPECT_TRUE(fixture_.Holds(buffer, kBytes, 2));
}

TEST_P(OffloaderStatesTest, GoesAgainWhileItIsComing) {
  const BufferId buffer = fixture_.New(kBytes, 1);
  for (const std::optional<ZeroValueWord> first : {fixture_.word(), {}}) {
    for (const std::optional<ZeroValueWord> second : {fixture_.word(), {}}) {
      ASSERT_TRUE(fixture_.Send(buffer, first).ok());
      ASSERT_TRUE(offloader_.Await(buffer).ok());
      fixture_.device().HoldCopies();
      ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
      ASSERT_TRUE(fixture_.Send(buffer, second).ok());
      // A prefetch may cancel this offload too, and the buffer may leave again.
      ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
      EXPECT_EQ(fixture_.State(buffer), BufferState::kComingBack);
      ASSERT_TRUE(fixture_.Send(buffer, second).ok());
      EXPECT_EQ(fixture_.State(buffer), BufferState::kGoingOut);
      fixture_.device().ReleaseCopies();
      ASSERT_TRUE(offloader_.Await(buffer).ok());
      EXPECT_EQ(fixture_.State(buffer), BufferState::kOut);
      ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
      EXPECT_TRUE(fixture_.Holds(buffer, kBytes, 1));
    }
  }
  EXPECT_TRUE(offloader_.Synchronize().ok());
  EXPECT_EQ(offloader_.Stats().host_bytes, 0);
}

TEST_P(OffloaderStatesTest, IsFreedInEveryState) {
  for (const BufferState state : {BufferState::kOnDevice, BufferState::kGoingOut, BufferState::kOut,
                                  BufferState::kComingBack}) {
    const BufferId buffer = fixture_.New(kBytes, 1);
    if (state == BufferState::kOut || state == BufferState::kComingBack) {
      ASSERT_TRUE(fixture_.Send(buffer).ok());
      ASSERT_TRUE(offloader_.Await(buffer).ok());
    }
    fixture_.device().HoldCopies();
    if (state == BufferState::kGoingOut) {
      ASSERT_TRUE(fixture_.Send(buffer).ok());
    }
    if (state == BufferState::kComingBack) {
      ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
    }
    EXPECT_EQ(fixture_.State(buffer), state);
    ASSERT_TRUE(offloader_.Free(buffer).ok());
    // The next user of the memory is ordered after the copy.
    const BufferId next = fixture_.New(kBytes, 2);
    fixture_.device().ReleaseCopies();
    ASSERT_TRUE(offloader_.Synchronize().ok());
    EXPECT_TRUE(fixture_.Holds(next, kBytes, 2));
    ASSERT_TRUE(offloader_.Free(next).ok());
    EXPECT_EQ(offloader_.Stats().host_bytes, 0);
    EXPECT_EQ(fixture_.pool().Stats().live_bytes, 0);
  }
  EXPECT_EQ(offloader_.Stats().failures, 0);
}

TEST_P(OffloaderStatesTest, DestructionFinishesCopiesInFlight) {
  const BufferId out = fixture_.New(kBytes, 1);
  const BufferId in = fixture_.New(kBytes, 2);
  const BufferId stays = fixture_.New(kBytes, 3);
  ASSERT_TRUE(fixture_.Send(in).ok());
  ASSERT_TRUE(offloader_.Await(in).ok());
  ASSERT_TRUE(fixture_.Send(out).ok());
  ASSERT_TRUE(fixture_.Send(stays).ok());
  ASSERT_TRUE(offloader_.Prefetch(in, fixture_.stream()).ok());
  ASSERT_TRUE(offloader_.Prefetch(stays, fixture_.stream()).ok());
  fixture_.Destroy();
  EXPECT_EQ(fixture_.pool().Stats().live_bytes, 0);
  EXPECT_EQ(fixture_.host().Stats().live_bytes, 0);
}

TEST_P(OffloaderStatesTest, LeavesAfterTheWorkThatWroteIt) {
  const BufferId buffer = offloader_.Allocate(kBytes, fixture_.stream()).value();
  std::promise<void> writes = fixture_.Block(fixture_.stream());
  fixture_.Write(buffer, kBytes, 1);
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  EXPECT_EQ(fixture_.State(buffer), BufferState::kGoingOut);
  writes.set_value();
  ASSERT_TRUE(offloader_.Await(buffer).ok());
  // The copy back runs after the queued work, and work that uses the buffer runs after the copy.
  std::promise<void> before = fixture_.Block(fixture_.stream());
  ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
  const Stream other = fixture_.device().CreateStream().value();
  const void* const address = offloader_.Use(buffer, other).value();
  bool holds = false;
  ASSERT_TRUE(
      fixture_.device().CallHost(other, [&] { holds = HasPattern(address, kBytes, 1); }).ok());
  EXPECT_EQ(fixture_.State(buffer), BufferState::kComingBack);
  before.set_value();
  ASSERT_TRUE(fixture_.device().SynchronizeStream(other).ok());
  EXPECT_TRUE(holds);
}

TEST_P(OffloaderStatesTest, MemoryIsKeptForEveryStreamThatUsesIt) {
  const Stream other = fixture_.device().CreateStream().value();
  for (const bool leaves : {false, true}) {
    const BufferId buffer = fixture_.New(kBytes, 1);
    ASSERT_TRUE(fixture_.device().SynchronizeStream(fixture_.stream()).ok());
    std::promise<void> reads = fixture_.Block(other);
    const void* const address = offloader_.Use(buffer, other).value();
    bool holds = false;
    ASSERT_TRUE(
        fixture_.device().CallHost(other, [&] { holds = HasPattern(address, kBytes, 1); }).ok());
    if (leaves) {
      ASSERT_TRUE(fixture_.Send(buffer).ok());
      ASSERT_TRUE(offloader_.Await(buffer).ok());
    }
    ASSERT_TRUE(offloader_.Free(buffer).ok());
    const BufferId next = fixture_.New(kBytes, 2);
    reads.set_value();
    ASSERT_TRUE(fixture_.device().SynchronizeStream(other).ok());
    EXPECT_TRUE(holds);
    EXPECT_TRUE(fixture_.Holds(next, kBytes, 2));
    ASSERT_TRUE(offloader_.Free(next).ok());
  }
}

TEST_P(OffloaderStatesTest, MemoryOfAStreamThatIsGoneComesBack) {
  const Stream gone = fixture_.device().CreateStream().value();
  const BufferId buffer = offloader_.Allocate(kBytes, gone).value();
  std::promise<void> work = fixture_.Block(gone);
  ASSERT_TRUE(fixture_.device().DestroyStream(gone).ok());
  ASSERT_TRUE(offloader_.Free(buffer).ok());
  EXPECT_EQ(fixture_.pool().Stats().live_bytes, 0);
  work.set_value();
}

TEST_P(OffloaderStatesTest, WatchesSeeBeginningAndEnd) {
  Device& device = fixture_.device();
  const BufferId buffer = fixture_.New(kBytes, 1);
  std::atomic<int> ends = 0;
  const auto new_watch = [&] {
    return CopyWatch{.begins = device.CreateEvent(EventKind::kTimed).value(),
                     .ends = device.CreateEvent(EventKind::kTimed).value(),
                     .ended = [&ends] { ++ends; }};
  };
  const auto expect_seen = [&](const CopyWatch& watch) {
    EXPECT_GE(device.SecondsBetween(watch.begins, watch.begins).value_or(-1), 0);
    if (fixture_.word().has_value()) {
      EXPECT_TRUE(
          absl::IsFailedPrecondition(device.SecondsBetween(watch.ends, watch.ends).status()));
    } else {
      EXPECT_GE(device.SecondsBetween(watch.begins, watch.ends).value_or(-1), 0);
    }
  };
  std::promise<void> writes = fixture_.Block(fixture_.stream());
  const Event event = device.CreateEvent().value();
  ASSERT_TRUE(device.RecordEvent(event, fixture_.stream()).ok());
  const CopyWatch out = new_watch();
  ASSERT_TRUE(offloader_.Offload(buffer, event, fixture_.word(), out).ok());
  EXPECT_FALSE(device.QueryEvent(out.begins).value());
  EXPECT_EQ(ends, 0);
  writes.set_value();
  ASSERT_TRUE(offloader_.Await(buffer).ok());
  expect_seen(out);
  const CopyWatch in = new_watch();
  ASSERT_TRUE(
      offloader_.Prefetch(buffer, fixture_.stream(), Hint::kResident, absl::InfiniteFuture(), in)
          .ok());
  ASSERT_TRUE(offloader_.Synchronize().ok());
  expect_seen(in);
  EXPECT_EQ(ends, fixture_.word().has_value() ? 2 : 0);
}

TEST(OffloaderTest, NamesStates) {
  EXPECT_EQ(BufferStateName(BufferState::kOnDevice), "on the device");
  EXPECT_EQ(BufferStateName(BufferState::kGoingOut), "going out");
  EXPECT_EQ(BufferStateName(BufferState::kOut), "out");
  EXPECT_EQ(BufferStateName(BufferState::kComingBack), "coming back");
}

TEST(OffloaderTest, IsMadeOfSomething) {
  OffloaderFixture fixture;
  EXPECT_EQ(Offloader::Create(nullptr, &fixture.pool(), &fixture.host(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (const std::int64_t n : {1, 2}) {
    fixture.device().FailCall(HostDevice::Call::kCreateStream, n);
    EXPECT_EQ(fixture.Create().status().code(), absl::StatusCode::kUnavailable);
  }
}

TEST(OffloaderTest, OneTransferAtATimeIsOneStream) {
  OffloaderFixture both;
  EXPECT_FALSE(both.offloader().out_stream() == both.offloader().in_stream());
  OffloaderFixtureOptions options;
  options.one_transfer_at_a_time = true;
  OffloaderFixture one(options);
  EXPECT_EQ(one.offloader().out_stream(), one.offloader().in_stream());
  const BufferId buffer = one.New(kBytes, 1);
  ASSERT_TRUE(one.Send(buffer).ok());
  ASSERT_TRUE(one.offloader().Await(buffer).ok());
  ASSERT_TRUE(one.offloader().Prefetch(buffer, one.stream()).ok());
  EXPECT_TRUE(one.Holds(buffer, kBytes, 1));
}

// On a device that never makes streams wait, the tests above must fail.
TEST(OffloaderTest, OrderOfStreamsKeepsContents) {
  const auto host = HostDevice::Create({.memory_bytes = 1 << 20}).value();
  testing::NeverWaits device(*host);
  PoolOptions pool_options;
  pool_options.max_bytes = 1 << 20;
  const auto pool = Pool::Create(&device, pool_options).value();
  const auto pinned = PinnedPool::Create(&device, {.max_bytes = 1 << 20}).value();
  const auto offloader = Offloader::Create(&device, pool.get(), pinned.get(), {}).value();
  const Stream stream = device.CreateStream().value();
  const BufferId buffer = offloader->Allocate(kBytes, stream).value();
  void* const address = offloader->Use(buffer, stream).value();
  std::promise<void> writes;
  ASSERT_TRUE(device
                  .CallHost(stream,
                            [&, address] {
                              writes.get_future().wait();
                              WritePattern(address, kBytes, 1);
                            })
                  .ok());
  const Event event = device.CreateEvent().value();
  ASSERT_TRUE(device.RecordEvent(event, stream).ok());
  ASSERT_TRUE(offloader->Offload(buffer, event).ok());
  ASSERT_TRUE(offloader->Await(buffer).ok());
  writes.set_value();
  ASSERT_TRUE(device.SynchronizeStream(stream).ok());
  ASSERT_TRUE(offloader->Prefetch(buffer, stream).ok());
  ASSERT_TRUE(offloader->Synchronize().ok());
  EXPECT_FALSE(HasPattern(offloader->Use(buffer, stream).value(), kBytes, 1));
}

// A device with one thread for the host functions of all streams, as CUDA allows.
class OneThreadDevice final : public testing::ForwardingDevice {
 public:
  explicit OneThreadDevice(HostDevice& host) : ForwardingDevice(host) {}
  absl::Status CallHost(Stream stream, std::function<void()> function) override {
    return ForwardingDevice::CallHost(stream, [this, function = std::move(function)] {
      const std::lock_guard lock(thread_);
      function();
    });
  }

 private:
  std::mutex thread_;
};

// Otherwise the host function that waits and the work before the copy would wait for each other.
TEST(OffloaderHostFunctionsTest, AStreamWaitsForTheWorkBeforeACompressedCopyFirst) {
  OffloaderFixture fixture({.compresses = true});
  OneThreadDevice device(fixture.device());
  const auto staging = PinnedPool::Create(&device, {.max_bytes = std::int64_t{1} << 20}).value();
  const auto pages = PagePool::Create({.page_bytes = 16 << 10, .max_bytes = 1 << 20}).value();
  const auto pipeline = CompressionPipeline::Create(&device, staging.get(), pages.get(),
                                                    {.ring = {.slots = 3, .slot_bytes = 32 << 10}})
                            .value();
  const auto offloader =
      Offloader::Create(&device, &fixture.pool(), &fixture.host(), {.pipeline = pipeline.get()})
          .value();
  const Stream one = fixture.stream();
  const Stream other = device.CreateStream().value();
  const BufferId buffer = offloader->Allocate(kBytes, one).value();
  void* const address = offloader->Use(buffer, one).value();
  ASSERT_TRUE(device.CallHost(one, [=] { WritePattern(address, kBytes, 1); }).ok());
  const Event written = device.CreateEvent().value();
  ASSERT_TRUE(device.RecordEvent(written, one).ok());
  ASSERT_TRUE(offloader->Offload(buffer, written, ZeroValueWord::k32Bits).ok());
  ASSERT_TRUE(offloader->Await(buffer).ok());

  // The copy in must wait for slow work and for a host function after it.
  std::promise<void> slow = fixture.Block(one);
  ASSERT_TRUE(device.CallHost(one, [] {}).ok());
  ASSERT_TRUE(offloader->Prefetch(buffer, one).ok());
  const absl::StatusOr<void*> back = offloader->Use(buffer, other);
  ASSERT_TRUE(back.ok()) << back.status();
  for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
  slow.set_value();
  bool holds = false;
  ASSERT_TRUE(device.CallHost(other, [&, at = *back] { holds = HasPattern(at, kBytes, 1); }).ok());
  ASSERT_TRUE(device.SynchronizeStream(other).ok());
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace tidepool
