// SPDX-License-Identifier: Apache-2.0
// A device that fails at any of its calls: buffers stay where they were with their contents, no
// memory is lost, and a repeated call succeeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/copies/offload/offloader_fixture.h"
#include "tests/support/forwarding_device.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

constexpr std::int64_t kBufferBytes = 70'000;

class OffloaderFaultsTest
    : public ::testing::TestWithParam<std::tuple<Call, OffloaderOptions::Release, bool>> {
 protected:
  // Sends two buffers out and back until they are where they should be, with the fault in each call
  // of the offloader.
  class Scenario {
   public:
    Scenario(OffloaderFixture& fixture, Call call, std::int64_t n)
        : fixture_(fixture), call_(call), left_(n) {}

    void Run() {
      const BufferId first = New(1);
      const BufferId second = New(2);
      for (int round = 0; round < 2; ++round) {
        GoOut(first, 1);
        GoOut(second, 2);
        Arrive(first);
        ComeBack(second, 2);
        ComeBack(first, 1);
        LeaveAgain(first);
        ComeBack(first, 1);
      }
      for (const BufferId buffer : {first, second}) {
        EXPECT_TRUE(With([&] { return fixture_.offloader().Free(buffer); }).ok());
      }
      Synchronize();
    }
    bool has_failed() const { return left_ <= 0; }

   private:
    static constexpr int kTries = 8;

    // Enables the fault only during calls of the offloader: the calls of the test succeed.
    absl::Status With(const std::function<absl::Status()>& act) {
      const std::int64_t calls = fixture_.device().CountCalls(call_);
      if (left_ > 0) fixture_.device().FailCall(call_, left_);
      absl::Status status = act();
      fixture_.device().FailCall(call_, 0);
      left_ -= fixture_.device().CountCalls(call_) - calls;
      if (!status.ok() && !absl::IsFailedPrecondition(status)) {
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
        EXPECT_TRUE(has_failed()) << status;
      }
      return status;
    }
    BufferId New(std::uint64_t seed) {
      BufferId buffer;
      for (int i = 0; i < kTries && buffer == BufferId(); ++i) {
        With([&] {
          const auto taken = fixture_.offloader().Allocate(kBufferBytes, fixture_.stream());
          if (taken.ok()) buffer = *taken;
          return taken.status();
        }).IgnoreError();
      }
      fixture_.Write(buffer, kBufferBytes, seed);
      EXPECT_TRUE(fixture_.Holds(buffer, kBufferBytes, seed));  // after the retries
      return buffer;
    }
    // Returns whether a buffer on the device has its contents. The first use may tell the error of
    // its copy out.
    bool Holds(BufferId buffer, std::uint64_t seed) {
      With([&] {
        return fixture_.offloader().Use(buffer, fixture_.stream()).status();
      }).IgnoreError();
      return fixture_.Holds(buffer, kBufferBytes, seed);
    }
    void GoOut(BufferId buffer, std::uint64_t seed) {
      for (int i = 0; i < kTries && fixture_.State(buffer) != BufferState::kGoingOut; ++i) {
        With([&] { return Send(buffer); }).IgnoreError();
        if (fixture_.State(buffer) == BufferState::kOnDevice) {
          EXPECT_TRUE(Holds(buffer, seed));
        }
        if (fixture_.State(buffer) == BufferState::kOut) return;
      }
    }
    absl::Status Send(BufferId buffer) {
      return fixture_.offloader().Offload(buffer, {}, fixture_.word());
    }
    void Arrive(BufferId buffer) {
      for (int i = 0; i < kTries && fixture_.State(buffer) != BufferState::kOut; ++i) {
        if (!With([&] { return fixture_.offloader().Await(buffer); }).ok()) {
          With([&] { return Send(buffer); }).IgnoreError();
        }
      }
      EXPECT_EQ(fixture_.State(buffer), BufferState::kOut);
    }
    void ComeBack(BufferId buffer, std::uint64_t seed) {
      for (int i = 0; i < kTries && fixture_.State(buffer) != BufferState::kOnDevice; ++i) {
        if (!With([&] { return fixture_.offloader().Prefetch(buffer, fixture_.stream()); }).ok()) {
          continue;
        }
        With([&] {
          return fixture_.offloader().Use(buffer, fixture_.stream()).status();
        }).IgnoreError();
        With([&] { return fixture_.offloader().Synchronize(); }).IgnoreError();
      }
      EXPECT_EQ(fixture_.State(buffer), BufferState::kOnDevice);
      EXPECT_TRUE(Holds(buffer, seed));
    }
    // Sends the buffer out, back, and out again before it is back.
    void LeaveAgain(BufferId buffer) {
      Arrive(buffer);
      With([&] { return fixture_.offloader().Prefetch(buffer, fixture_.stream()); }).IgnoreError();
      With([&] { return Send(buffer); }).IgnoreError();
      Arrive(buffer);
    }
    void Synchronize() {
      for (int i = 0; i < kTries; ++i) {
        if (With([&] { return fixture_.offloader().Synchronize(); }).ok()) return;
      }
      ADD_FAILURE() << "errors without end";
    }

    OffloaderFixture& fixture_;
    const Call call_;
    std::int64_t left_;
  };
};
INSTANTIATE_TEST_SUITE_P(
    EachCall, OffloaderFaultsTest,
    ::testing::Combine(::testing::Values(Call::kCopy, Call::kRecordEvent, Call::kWaitEvent,
                                         Call::kQueryEvent, Call::kSynchronizeEvent,
                                         Call::kSynchronizeStream, Call::kCreateEvent,
                                         Call::kDestroyEvent, Call::kCallHost,
                                         Call::kCreatePhysical, Call::kMap, Call::kAny),
                       ::testing::Values(kWhenOut, kWhenAwaited), ::testing::Bool()));

TEST_P(OffloaderFaultsTest, NothingIsLost) {
  const auto& [call, release, compresses] = GetParam();
  bool has_failed = true;
  for (std::int64_t n = 1; has_failed; ++n) {
    ASSERT_LT(n, 2000);
    OffloaderFixtureOptions options;
    options.release = release;
    options.compresses = compresses;
    OffloaderFixture fixture(options);
    Scenario scenario(fixture, call, n);
    scenario.Run();
    has_failed = scenario.has_failed();
    const OffloaderStats stats = fixture.offloader().Stats();
    EXPECT_EQ(stats.buffers, 0);
    EXPECT_EQ(stats.device_bytes, 0);
    EXPECT_EQ(stats.host_bytes, 0);
  }
}

// Synchronize returns an error that no caller has received, once.
TEST(OffloaderErrorsTest, AreToldOnce) {
  for (const bool awaits : {false, true}) {
    OffloaderFixtureOptions options;
    options.release = kWhenAwaited;
    OffloaderFixture fixture(options);
    const BufferId buffer = fixture.New(kBufferBytes, 1);
    ASSERT_TRUE(fixture.Send(buffer).ok());
    fixture.device().FailCall(Call::kSynchronizeEvent, 1);
    const auto ask = [&] {
      return awaits ? fixture.offloader().Await(buffer) : fixture.offloader().Synchronize();
    };
    const absl::Status told = ask();
    EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(told.message()),
                ::testing::HasSubstr("did not leave, its copy failed"));
    EXPECT_EQ(fixture.State(buffer), BufferState::kOnDevice);
    EXPECT_EQ(ask().code(), awaits ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk);
    EXPECT_EQ(fixture.offloader().Stats().failures, 1);

    // Use returns the error of a copy back.
    ASSERT_TRUE(fixture.Send(buffer).ok());
    ASSERT_TRUE(fixture.offloader().Await(buffer).ok());
    fixture.device().HoldCopies();
    ASSERT_TRUE(fixture.offloader().Prefetch(buffer, fixture.stream()).ok());
    fixture.device().ReleaseCopies();
    fixture.device().FailCall(Call::kSynchronizeEvent, 1);
    EXPECT_THAT(std::string(fixture.offloader().Synchronize().message()),
                ::testing::HasSubstr("did not come back, its copy failed"));
    EXPECT_EQ(fixture.State(buffer), BufferState::kOut);
    EXPECT_EQ(fixture.offloader().Use(buffer, fixture.stream()).status().code(),
              absl::StatusCode::kFailedPrecondition);
    ASSERT_TRUE(fixture.offloader().Prefetch(buffer, fixture.stream()).ok());
    EXPECT_TRUE(fixture.Holds(buffer, kBufferBytes, 1));
  }
}

// Each of two copies out of a buffer that fail has an error of its own.
TEST(OffloaderErrorsTest, OfTwoCopiesOutAreBothTold) {
  OffloaderFixture fixture;
  const BufferId buffer = fixture.New(kBufferBytes, 1, "x");
  for (int copy = 1; copy <= 2; ++copy) {
    fixture.device().FailCall(Call::kSynchronizeEvent, 1);
    ASSERT_TRUE(fixture.Send(buffer).ok());
    while (fixture.offloader().Stats().failures < copy) std::this_thread::yield();
  }
  EXPECT_FALSE(fixture.offloader().Synchronize().ok());
  EXPECT_FALSE(fixture.offloader().Synchronize().ok());
  EXPECT_TRUE(fixture.offloader().Synchronize().ok());
  EXPECT_TRUE(fixture.Holds(buffer, kBufferBytes, 1));
}

// A program that only offloads and frees hears of a failed link, too.
TEST(OffloaderErrorsTest, OfACopyOutOutlivesItsBuffer) {
  OffloaderFixture fixture;
  const BufferId buffer = fixture.New(kBufferBytes, 1, "x");
  fixture.device().FailCall(Call::kSynchronizeEvent, 1);
  ASSERT_TRUE(fixture.Send(buffer).ok());
  while (fixture.offloader().Stats().failures == 0) std::this_thread::yield();
  ASSERT_TRUE(fixture.offloader().Free(buffer).ok());
  EXPECT_THAT(std::string(fixture.offloader().Synchronize().message()),
              ::testing::HasSubstr("'x' did not leave, its copy failed"));
  EXPECT_TRUE(fixture.offloader().Synchronize().ok());
}

// Work that was queued after a failed copy read undefined contents. So a caller must receive the
// error, even if the buffer is freed or prefetched again before the copy has finished.
TEST(OffloaderErrorsTest, OutliveTheBufferWhereWorkWasMisled) {
  for (const bool is_freed : {true, false}) {
    for (const auto release : {kWhenOut, kWhenAwaited}) {
      OffloaderFixtureOptions options;
      options.release = release;
      options.compresses = true;
      OffloaderFixture fixture(options);
      const BufferId buffer = fixture.New(kBufferBytes, 1);
      ASSERT_TRUE(fixture.Send(buffer).ok());
      ASSERT_TRUE(fixture.offloader().Await(buffer).ok());
      // The copy of the first piece waits, that of the second is refused.
      std::promise<void> work = fixture.Block(fixture.stream());
      fixture.device().FailCall(Call::kCopy, 2);
      ASSERT_TRUE(fixture.offloader().Prefetch(buffer, fixture.stream()).ok());
      ASSERT_TRUE(fixture.offloader().Use(buffer, fixture.stream()).ok());
      if (is_freed) {
        ASSERT_TRUE(fixture.offloader().Free(buffer).ok());
      }
      work.set_value();
      ASSERT_TRUE(fixture.device().SynchronizeStream(fixture.stream()).ok());
      while (fixture.offloader().Stats().failures == 0) std::this_thread::yield();
      if (!is_freed) {
        ASSERT_TRUE(fixture.offloader().Prefetch(buffer, fixture.stream()).ok());
        EXPECT_TRUE(fixture.Holds(buffer, kBufferBytes, 1));
      }
      const absl::Status told = fixture.offloader().Synchronize();
      EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
      EXPECT_TRUE(fixture.offloader().Synchronize().ok());
    }
  }
}

// Work that is queued later with an address from Use must not access another buffer there.
TEST(OffloaderErrorsTest, KeepMemoryWithAKnownAddressUntilTheirErrorIsReturned) {
  enum class Told { kByUse, kBySynchronize, kByOffload, kByFree };
  for (const Told told : {Told::kByUse, Told::kBySynchronize, Told::kByOffload, Told::kByFree}) {
    for (const auto release : {kWhenOut, kWhenAwaited}) {
      OffloaderFixtureOptions options;
      options.release = release;
      options.compresses = true;
      options.pool_bytes = 128 << 10;
      OffloaderFixture fixture(options);
      Offloader& offloader = fixture.offloader();
      const BufferId buffer = fixture.New(kBufferBytes, 1, "x");
      ASSERT_TRUE(fixture.Send(buffer).ok());
      ASSERT_TRUE(offloader.Await(buffer).ok());
      // The copy of the first piece waits, that of the second is refused.
      std::promise<void> work = fixture.Block(fixture.stream());
      fixture.device().FailCall(Call::kCopy, 2);
      ASSERT_TRUE(offloader.Prefetch(buffer, fixture.stream()).ok());
      void* const address = offloader.Use(buffer, fixture.stream()).value();
      work.set_value();
      while (offloader.Stats().failures == 0) std::this_thread::yield();
      ASSERT_EQ(fixture.State(buffer), BufferState::kOut);

      const absl::Status refused = offloader.Allocate(kBufferBytes, fixture.stream()).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
      EXPECT_THAT(std::string(refused.message()),
                  ::testing::HasSubstr("68.4 KiB (70000 bytes) are kept"));
      ASSERT_TRUE(fixture.device().Fill(address, 9, kBufferBytes, fixture.stream()).ok());
      switch (told) {
        case Told::kByUse:
          EXPECT_EQ(offloader.Use(buffer, fixture.stream()).status().code(),
                    absl::StatusCode::kUnavailable);
          break;
        case Told::kBySynchronize:
          EXPECT_EQ(offloader.Synchronize().code(), absl::StatusCode::kUnavailable);
          break;
        case Told::kByOffload:
          EXPECT_EQ(fixture.Send(buffer).code(), absl::StatusCode::kUnavailable);
          break;
        case Told::kByFree:
          EXPECT_TRUE(offloader.Free(buffer).ok());
      }
      const absl::StatusOr<BufferId> other = offloader.Allocate(kBufferBytes, fixture.stream());
      EXPECT_TRUE(other.ok()) << other.status();
    }
  }
}

// Another copy back of the same buffer does not release the kept memory: no caller has received the
// error.
TEST(OffloaderErrorsTest, KeepMemoryWithAKnownAddressDuringTheNextPrefetch) {
  OffloaderFixtureOptions options;
  options.compresses = true;
  options.pool_bytes = 192 << 10;
  OffloaderFixture fixture(options);
  Offloader& offloader = fixture.offloader();
  const BufferId buffer = fixture.New(kBufferBytes, 1);
  ASSERT_TRUE(fixture.Send(buffer).ok());
  ASSERT_TRUE(offloader.Await(buffer).ok());
  std::promise<void> work = fixture.Block(fixture.stream());
  fixture.device().FailCall(Call::kCopy, 2);
  ASSERT_TRUE(offloader.Prefetch(buffer, fixture.stream()).ok());
  void* const promised = offloader.Use(buffer, fixture.stream()).value();
  work.set_value();
  while (offloader.Stats().failures == 0) std::this_thread::yield();
  ASSERT_TRUE(offloader.Prefetch(buffer, fixture.stream()).ok());
  void* const address = offloader.Use(buffer, fixture.stream()).value();
  EXPECT_NE(address, promised);
  ASSERT_TRUE(fixture.device().Fill(promised, 9, kBufferBytes, fixture.stream()).ok());
  EXPECT_TRUE(fixture.Holds(address, kBufferBytes, 1));
  EXPECT_FALSE(offloader.Allocate(kBufferBytes, fixture.stream()).ok());
  EXPECT_EQ(offloader.Synchronize().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(offloader.Allocate(kBufferBytes, fixture.stream()).ok());
}

TEST(OffloaderErrorsTest, AreTheBuffersOwn) {
  OffloaderFixtureOptions options;
  options.release = kWhenAwaited;
  OffloaderFixture fixture(options);
  const BufferId first = fixture.New(kBufferBytes, 1);
  const BufferId second = fixture.New(kBufferBytes, 2);
  ASSERT_TRUE(fixture.Send(first).ok());
  fixture.device().FailCall(Call::kSynchronizeEvent, 1);
  // The thread that needs the memory is not the thread that receives the error.
  EXPECT_EQ(fixture.offloader().Allocate(1 << 20, fixture.stream()).status().code(),
            absl::StatusCode::kResourceExhausted);
  const absl::StatusOr<BufferId> third =
      fixture.offloader().Allocate((1 << 20) - 2 * kBufferBytes + 2000, fixture.stream());
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted) << third.status();
  ASSERT_TRUE(fixture.Send(second).ok());
  EXPECT_TRUE(fixture.offloader().Await(second).ok());
  EXPECT_EQ(fixture.offloader().Await(first).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(fixture.Holds(first, kBufferBytes, 1));
  EXPECT_TRUE(fixture.offloader().Synchronize().ok());
}

// The page of the guide promises it. The buffer has stayed, so the call succeeds afterwards.
TEST(OffloaderErrorsTest, OfACopyOutAreToldByTheNextCallForTheBuffer) {
  using Ask = std::function<absl::Status(OffloaderFixture&, BufferId)>;
  const std::vector<Ask> calls = {
      [](OffloaderFixture& fixture, BufferId buffer) {
        return fixture.offloader().Use(buffer, fixture.stream()).status();
      },
      [](OffloaderFixture& fixture, BufferId buffer) {
        return fixture.offloader().Prefetch(buffer, fixture.stream());
      }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    OffloaderFixtureOptions options;
    options.release = kWhenAwaited;
    OffloaderFixture fixture(options);
    const BufferId buffer = fixture.New(kBufferBytes, 1);
    ASSERT_TRUE(fixture.Send(buffer).ok());
    fixture.device().FailCall(Call::kSynchronizeEvent, 1);
    // A request of another caller needs the memory.
    EXPECT_FALSE(fixture.offloader().Allocate(1 << 20, fixture.stream()).ok());
    EXPECT_THAT(std::string(calls[i](fixture, buffer).message()),
                ::testing::HasSubstr("did not leave, its copy failed"));
    EXPECT_EQ(fixture.State(buffer), BufferState::kOnDevice);
    EXPECT_TRUE(fixture.Holds(buffer, kBufferBytes, 1));
    EXPECT_TRUE(calls[i](fixture, buffer).ok());
    EXPECT_TRUE(fixture.offloader().Synchronize().ok());
  }
}

// A device that fails all waits. Its copies finish at once, because no thread could wait for them
// later.
class DeafDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void Fail() { is_deaf_ = true; }
  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    absl::Status status = ForwardingDevice::Copy(to, from, bytes, direction, stream);
    return status.ok() ? ForwardingDevice::SynchronizeStream(stream) : status;
  }
  absl::Status SynchronizeEvent(Event event) override {
    return is_deaf_ ? Deaf() : ForwardingDevice::SynchronizeEvent(event);
  }
  absl::Status SynchronizeStream(Stream stream) override {
    return is_deaf_ ? Deaf() : ForwardingDevice::SynchronizeStream(stream);
  }
  absl::StatusOr<bool> QueryEvent(Event event) override {
    if (is_deaf_) return Deaf();
    return ForwardingDevice::QueryEvent(event);
  }
  absl::Status RecordEvent(Event event, Stream stream) override {
    return is_deaf_ ? Deaf() : ForwardingDevice::RecordEvent(event, stream);
  }

 private:
  static absl::Status Deaf() { return absl::InternalError("lost, expected a device that answers"); }
  std::atomic<bool> is_deaf_ = false;
};

// A device with copies that seem to stay in flight; waits for them fail after it has lost them.
class LosingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void LoseCopies() { has_lost_ = true; }
  absl::StatusOr<bool> QueryEvent(Event) override { return false; }
  absl::Status SynchronizeEvent(Event event) override {
    return has_lost_ ? Lost() : ForwardingDevice::SynchronizeEvent(event);
  }
  absl::Status SynchronizeStream(Stream stream) override {
    const absl::Status status = ForwardingDevice::SynchronizeStream(stream);
    return has_lost_ ? Lost() : status;
  }

 private:
  static absl::Status Lost() { return absl::InternalError("lost, expected a device that copies"); }
  std::atomic<bool> has_lost_ = false;
};

// Synchronize returns the error of the first of two failed raw copies; the memory of the other
// stays.
TEST(OffloaderErrorsTest, KeepMemoryWithAKnownAddressOfRawCopies) {
  constexpr std::int64_t kPoolBytes = 256 << 10;
  const auto host = HostDevice::Create({.memory_bytes = 1 << 20}).value();
  LosingDevice device(*host);
  PoolOptions pool_options;
  pool_options.max_bytes = kPoolBytes;
  const auto pool = Pool::Create(host.get(), pool_options).value();
  const auto pinned = PinnedPool::Create(host.get(), {.max_bytes = 1 << 20}).value();
  auto offloader = Offloader::Create(&device, pool.get(), pinned.get(), {}).value();
  const Stream stream = device.CreateStream().value();
  std::vector<BufferId> buffers;
  std::vector<void*> addresses;
  for (int i = 0; i < 2; ++i) {
    buffers.push_back(offloader->Allocate(kPoolBytes / 2, stream).value());
    ASSERT_TRUE(offloader->Offload(buffers.back(), {}).ok());
    ASSERT_TRUE(offloader->Await(buffers.back()).ok());
  }
  for (const BufferId buffer : buffers) {
    ASSERT_TRUE(offloader->Prefetch(buffer, stream).ok());
    addresses.push_back(offloader->Use(buffer, stream).value());
  }
  device.LoseCopies();
  EXPECT_EQ(offloader->Synchronize().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(pool->Stats().live_bytes, kPoolBytes / 2);
  EXPECT_TRUE(pool->AllocatedOn(addresses[1]).ok());
  EXPECT_EQ(offloader->Use(buffers[1], stream).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(pool->Stats().live_bytes, 0);
}

TEST(OffloaderErrorsTest, ADeadDeviceIsGivenUp) {
  for (const auto release : {kWhenOut, kWhenAwaited}) {
    const auto host = HostDevice::Create({.memory_bytes = 1 << 20}).value();
    DeafDevice device(*host);
    PoolOptions pool_options;
    pool_options.max_bytes = 1 << 20;
    const auto pool = Pool::Create(host.get(), pool_options).value();
    const auto pinned = PinnedPool::Create(host.get(), {.max_bytes = 1 << 20}).value();
    auto offloader =
        Offloader::Create(&device, pool.get(), pinned.get(), {.release = release}).value();
    const Stream stream = device.CreateStream().value();
    const BufferId out = offloader->Allocate(kBufferBytes, stream).value();
    const BufferId in = offloader->Allocate(kBufferBytes, stream).value();
    ASSERT_TRUE(offloader->Offload(in, {}).ok());
    ASSERT_TRUE(offloader->Await(in).ok());
    ASSERT_TRUE(offloader->Offload(out, {}).ok());
    ASSERT_TRUE(offloader->Prefetch(in, stream).ok());
    device.Fail();
    const absl::Status status = offloader->Synchronize();
    EXPECT_TRUE(status.ok() || absl::IsInternal(status)) << status;
    offloader.reset();
    EXPECT_EQ(pool->Stats().live_bytes, 0);
    EXPECT_EQ(pinned->Stats().live_bytes, 0);
  }
}

class BrokenPromiseTest : public ::testing::Test {
 protected:
  static OffloaderFixtureOptions Options() {
    OffloaderFixtureOptions options;
    options.compresses = true;
    return options;
  }
  static BufferId NewOutside(OffloaderFixture& fixture) {
    const BufferId buffer = fixture.New(kBufferBytes, 1);
    EXPECT_TRUE(fixture.Send(buffer).ok());
    EXPECT_TRUE(fixture.offloader().Await(buffer).ok());
    return buffer;
  }
  // The copy back of a buffer fails after Use gave its address.
  static void FailBack(OffloaderFixture& fixture, BufferId buffer, Stream stream,
                       CopyWatch watch = {}) {
    Offloader& offloader = fixture.offloader();
    const std::int64_t failures = offloader.Stats().failures;
    std::promise<void> work = fixture.Block(stream);
    fixture.device().FailCall(Call::kCopy, 2);
    ASSERT_TRUE(
        offloader
            .Prefetch(buffer, stream, Hint::kResident, absl::InfiniteFuture(), std::move(watch))
            .ok());
    ASSERT_TRUE(offloader.Use(buffer, stream).ok());
    work.set_value();
    while (offloader.Stats().failures == failures) std::this_thread::yield();
  }
};

// Its end is known before any call has taken it.
TEST_F(BrokenPromiseTest, IsNotMadeAfterTheCopyHasFailed) {
  for (const auto release : {kWhenOut, kWhenAwaited}) {
    OffloaderFixtureOptions options = Options();
    options.release = release;
    OffloaderFixture fixture(options);
    Offloader& offloader = fixture.offloader();
    const BufferId buffer = NewOutside(fixture);
    // Breaks when the pipeline has reported the end and dropped its function.
    auto ended = std::make_shared<std::promise<void>>();
    const std::future<void> is_reported = ended->get_future();
    fixture.device().FailCall(Call::kCopy, 1);
    ASSERT_TRUE(offloader
                    .Prefetch(buffer, fixture.stream(), Hint::kResident, absl::InfiniteFuture(),
                              {.ended = [owned = std::move(ended)] {}})
                    .ok());
    is_reported.wait();
    const absl::Status told = offloader.Use(buffer, fixture.stream()).status();
    EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable) << told;
    EXPECT_EQ(fixture.State(buffer), BufferState::kOut);
    EXPECT_TRUE(offloader.Synchronize().ok());
    ASSERT_TRUE(offloader.Prefetch(buffer, fixture.stream()).ok());
    EXPECT_TRUE(fixture.Holds(buffer, kBufferBytes, 1));
  }
}

// Regression: memory was freed after the offloader's streams, on a stream that was destroyed.
TEST_F(BrokenPromiseTest, EndsWithTheOffloaderThoughItsStreamIsGone) {
  OffloaderFixture fixture(Options());
  const Stream stream = fixture.device().CreateStream().value();
  for (int i = 0; i < 3; ++i) {
    const BufferId buffer = NewOutside(fixture);
    FailBack(fixture, buffer, stream);
    ASSERT_TRUE(fixture.offloader().Prefetch(buffer, fixture.stream()).ok());
    EXPECT_TRUE(fixture.Holds(buffer, kBufferBytes, 1));
  }
  EXPECT_TRUE(fixture.device().SynchronizeStream(stream).ok());
  EXPECT_TRUE(fixture.device().DestroyStream(stream).ok());
  fixture.Destroy();
  EXPECT_EQ(fixture.pool().Stats().live_bytes, 0);
}

// Regression: the pipeline's thread owned the copy, and so the memory, for longer than the
// offloader existed.
TEST_F(BrokenPromiseTest, EndsWithTheOffloaderThoughAThreadStillHasTheCopy) {
  struct Late {
    explicit Late(std::shared_future<void> awaited) : may_go(std::move(awaited)) {}
    ~Late() { may_go.wait(); }
    const std::shared_future<void> may_go;
  };
  std::promise<void> gone;
  OffloaderFixture fixture(Options());
  const BufferId first = NewOutside(fixture);
  const BufferId second = NewOutside(fixture);
  FailBack(fixture, first, fixture.stream());
  FailBack(fixture, second, fixture.stream(),
           {.ended = [late = std::make_shared<Late>(gone.get_future().share())] {}});
  fixture.Destroy();
  EXPECT_EQ(fixture.pool().Stats().live_bytes, 0);
  gone.set_value();
}

// Regression: the request slept although memory was free, until another copy ended.
TEST_F(BrokenPromiseTest, FreesMemoryForARequestWhenItEnds) {
  OffloaderFixtureOptions options = Options();
  options.pool_bytes = 192 << 10;
  OffloaderFixture fixture(options);
  const BufferId broken = NewOutside(fixture);
  const BufferId leaving = fixture.New(kBufferBytes, 2);
  FailBack(fixture, broken, fixture.stream());
  std::promise<void> work = fixture.Block(fixture.stream());
  ASSERT_TRUE(fixture.Send(leaving, std::nullopt).ok());
  const Stream other = fixture.device().CreateStream().value();
  const std::int64_t refusals = fixture.pool().Stats().failures;
  auto waiting = std::async(std::launch::async, [&] {
    return fixture.offloader().Allocate(kBufferBytes, other).status();
  });
  while (fixture.pool().Stats().failures == refusals) std::this_thread::yield();
  EXPECT_EQ(fixture.offloader().Use(broken, fixture.stream()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(waiting.get().ok());
  work.set_value();
}

// A cancelled copy out must give its pinned memory back.
TEST_F(BrokenPromiseTest, KeepsNothingOfARawCopyOutThatCameAfterIt) {
  OffloaderFixtureOptions options = Options();
  options.release = kWhenAwaited;
  options.pool_bytes = 128 << 10;
  OffloaderFixture fixture(options);
  Offloader& offloader = fixture.offloader();
  const BufferId buffer = NewOutside(fixture);
  const std::int64_t stored_bytes = offloader.Stats().host_bytes;
  std::promise<void> work = fixture.Block(fixture.stream());
  const std::int64_t copies = fixture.device().CountCalls(Call::kCopy);
  fixture.device().FailCall(Call::kCopy, 2);
  ASSERT_TRUE(offloader.Prefetch(buffer, fixture.stream()).ok());
  while (fixture.device().CountCalls(Call::kCopy) < copies + 2) std::this_thread::yield();
  ASSERT_TRUE(offloader.Offload(buffer, {}).ok());
  work.set_value();
  ASSERT_TRUE(offloader.Allocate(100 << 10, fixture.stream()).ok());
  EXPECT_EQ(fixture.State(buffer), BufferState::kOut);
  while (offloader.Stats().host_bytes != stored_bytes) std::this_thread::yield();
  EXPECT_EQ(fixture.host().Stats().live_bytes, 0);
}

// The home stream cannot be made to wait for the copy, which still reads or writes the memory.
TEST(OffloaderFaultTest, NoOwnerFollowsACopyAtOnce) {
  constexpr std::int64_t kRounded = (kBufferBytes + 511) / 512 * 512;
  for (const bool comes_back : {false, true}) {
    OffloaderFixture fixture({.pool_bytes = kRounded});
    const BufferId buffer = fixture.New(kBufferBytes, 1);
    void* const address = fixture.offloader().Use(buffer, fixture.stream()).value();
    ASSERT_TRUE(fixture.device().SynchronizeStream(fixture.stream()).ok());
    if (comes_back) {
      ASSERT_TRUE(fixture.Send(buffer).ok());
      ASSERT_TRUE(fixture.offloader().Await(buffer).ok());
    }
    fixture.device().HoldCopies();
    ASSERT_TRUE(
        (comes_back ? fixture.offloader().Prefetch(buffer, fixture.stream()) : fixture.Send(buffer))
            .ok());
    fixture.device().FailCall(Call::kWaitEvent, 1);
    EXPECT_TRUE(fixture.offloader().Free(buffer).ok());
    fixture.device().FailCall(Call::kWaitEvent, 0);
    const std::int64_t waits = fixture.pool().Stats().stream_waits;
    void* const next = fixture.pool().Allocate(kBufferBytes, fixture.stream()).value();
    EXPECT_EQ(next, address);
    EXPECT_EQ(fixture.pool().Stats().stream_waits, waits + 1);
    fixture.device().ReleaseCopies();
    EXPECT_TRUE(fixture.pool().Free(next, fixture.stream()).ok());
  }
}

}  // namespace
}  // namespace tidepool
