// SPDX-License-Identifier: Apache-2.0
// Thousands of buffers that are sent, fetched, used, written and freed at random, by one thread and
// by several. The pool holds a part of them; copies have any speed; devices may fail. A buffer
// always has the contents that were written last.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/copies/offload/offloader_fixture.h"
#include "tests/support/rounds.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

constexpr std::array kFaults = {Call::kCopy,
                                Call::kRecordEvent,
                                Call::kWaitEvent,
                                Call::kQueryEvent,
                                Call::kSynchronizeEvent,
                                Call::kCreateEvent,
                                Call::kSynchronizeStream,
                                Call::kCallHost};

// Repeats the call until the device does not fail.
template <typename Function>
auto Again(Function function) {
  for (int i = 0; i < 20; ++i) {
    auto result = function();
    if (result.ok()) return result;
  }
  return function();
}

// A thread with buffers and a stream of its own.
class Owner {
 public:
  Owner(OffloaderFixture& fixture, std::uint64_t seed, bool has_faults)
      : fixture_(fixture),
        offloader_(fixture.offloader()),
        random_(seed),
        has_faults_(has_faults),
        stream_(fixture.device().CreateStream().value()),
        event_(Again([&] { return fixture.device().CreateEvent(); }).value()) {}

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (has_faults_ && random_() % 8 == 0) {
        fixture_.device().FailCall(kFaults[random_() % kFaults.size()],
                                   static_cast<std::int64_t>(1 + random_() % 4));
      }
      Step();
    }
  }
  // Checks the remaining buffers, and frees them.
  void CheckWhatIsThere() {
    // Each call returns at most one error.
    while (!offloader_.Synchronize().ok()) {
    }
    for (std::size_t i = owned_.size(); i-- > 0;) {
      if (IsThere(owned_[i])) CheckAndFree(i);
    }
  }
  void End() {
    while (!owned_.empty()) {
      Fetch(owned_.back());
      ASSERT_TRUE(offloader_.Synchronize().ok());
      ASSERT_TRUE(IsThere(owned_.back()));
      CheckAndFree(owned_.size() - 1);
    }
    ASSERT_TRUE(Again([&] { return fixture_.device().SynchronizeStream(stream_); }).ok());
    EXPECT_EQ(wrong_, 0);
    EXPECT_GT(checks_, 0);
  }

 private:
  struct Owned {
    BufferId buffer;
    std::int64_t bytes = 0;
    std::uint64_t seed = 0;
    bool stayed = false;  // a cancelled copy may still read it
  };
  static constexpr std::size_t kMostBuffers = 100;

  bool IsThere(const Owned& owned) const {
    return offloader_.State(owned.buffer).value() == BufferState::kOnDevice;
  }

  void Step() {
    if (owned_.size() < kMostBuffers && random_() % 3 == 0) return Add();
    if (owned_.empty()) return;
    const std::size_t at = random_() % owned_.size();
    Owned& owned = owned_[at];
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        return Send(owned);
      case 3:
      case 4:
        return Fetch(owned);
      case 5:
        // If the copy back fails later, the contents never arrived.
        if (IsThere(owned) || !has_faults_) Check(owned);
        return;
      case 6:
        if (IsThere(owned)) return Write(owned);
        offloader_.Await(owned.buffer).IgnoreError();
        return;
      default:
        return CheckAndFree(at);
    }
  }
  void Add() {
    Owned owned;
    owned.bytes = static_cast<std::int64_t>(1 + random_() % (random_() % 4 == 0 ? 16384 : 2048));
    const auto buffer = offloader_.Allocate(static_cast<std::size_t>(owned.bytes), stream_);
    if (!buffer.ok()) return MakeRoom();
    owned.buffer = *buffer;
    owned_.push_back(owned);
    Write(owned_.back());
  }
  // Offloads and prefetches as a policy would.
  void MakeRoom() {
    for (Owned& owned : owned_) {
      if (random_() % 2 == 0) Send(owned);
    }
  }
  void Send(Owned& owned) {
    if (!Again([&] { return fixture_.device().RecordEvent(event_, stream_); }).ok()) return;
    const bool compresses = random_() % 2 == 0;
    offloader_.Offload(owned.buffer, event_, compresses ? fixture_.word() : std::nullopt)
        .IgnoreError();
  }
  void Fetch(Owned& owned) {
    owned.stayed |= offloader_.State(owned.buffer).value() == BufferState::kGoingOut;
    const absl::Status status = offloader_.Prefetch(owned.buffer, stream_);
    if (absl::IsResourceExhausted(status)) MakeRoom();
  }
  void Write(Owned& owned) {
    const auto address = Again([&] { return offloader_.Use(owned.buffer, stream_); });
    ASSERT_TRUE(address.ok()) << address.status();
    // Waits for the cancelled copy, only because a sanitizer would report a race.
    if (std::exchange(owned.stayed, false)) offloader_.Synchronize().IgnoreError();
    owned.seed = random_();
    ASSERT_TRUE(Again([&] {
                  return fixture_.device().CallHost(stream_, [owned, to = *address] {
                    WritePattern(to, owned.bytes, owned.seed);
                  });
                }).ok());
  }
  void CheckAndFree(std::size_t at) {
    // If the copy back fails later, the contents never arrived.
    if (IsThere(owned_[at]) || !has_faults_) Check(owned_[at]);
    EXPECT_TRUE(offloader_.Free(owned_[at].buffer).ok());
    owned_[at] = owned_.back();
    owned_.pop_back();
  }
  void Check(const Owned& owned) {
    const auto address = offloader_.Use(owned.buffer, stream_);
    if (!address.ok()) return;
    ++checks_;
    ASSERT_TRUE(Again([&] {
                  return fixture_.device().CallHost(stream_, [this, owned, from = *address] {
                    if (!HasPattern(from, owned.bytes, owned.seed)) ++wrong_;
                  });
                }).ok());
  }

  OffloaderFixture& fixture_;
  Offloader& offloader_;
  std::mt19937_64 random_;
  const bool has_faults_;
  const Stream stream_;
  const Event event_;
  std::vector<Owned> owned_;
  std::int64_t checks_ = 0;
  std::atomic<std::int64_t> wrong_ = 0;
};

class OffloaderPropertyTest
    : public ::testing::TestWithParam<std::tuple<OffloaderOptions::Release, bool, int, bool>> {};
INSTANTIATE_TEST_SUITE_P(Ways, OffloaderPropertyTest,
                         ::testing::Combine(::testing::Values(kWhenOut, kWhenAwaited),
                                            ::testing::Bool(), ::testing::Values(1, 3),
                                            ::testing::Bool()));

TEST_P(OffloaderPropertyTest, ContentsAreTheLastWritten) {
  const auto& [release, compresses, threads, has_faults] = GetParam();
  for (int round = 0; round < testing::Rounds(5); ++round) {
    SCOPED_TRACE(round);
    const auto seed = static_cast<std::uint64_t>(round) * 100;
    std::mt19937_64 random(seed);
    OffloaderFixtureOptions options;
    options.release = release;
    options.compresses = compresses;
    options.pool_bytes = 128 << 10;
    options.host_bytes = round % 2 == 0 ? 4 << 20 : 256 << 10;
    options.page_bytes = round % 3 == 0 ? 4 << 20 : 256 << 10;
    options.one_transfer_at_a_time = round == 3;
    if (round > 0) {
      options.device.copy_bytes_per_second = 1e8 * static_cast<double>(1 + random() % 50);
      options.device.copy_latency_ns = static_cast<std::int64_t>(random() % 20'000);
    }
    OffloaderFixture fixture(options);
    std::vector<std::unique_ptr<Owner>> owners;
    for (int i = 0; i < threads; ++i) {
      owners.push_back(
          std::make_unique<Owner>(fixture, seed + static_cast<std::uint64_t>(i) + 1, has_faults));
    }
    std::vector<std::thread> running;
    for (const auto& owner : owners) running.emplace_back([&] { owner->Run(1000 / threads); });
    for (std::thread& thread : running) thread.join();
    for (int call = 0; call <= static_cast<int>(Call::kUnmap); ++call) {
      fixture.device().FailCall(static_cast<Call>(call), 0);
    }
    for (const auto& owner : owners) owner->CheckWhatIsThere();
    for (const auto& owner : owners) owner->End();
    EXPECT_EQ(fixture.offloader().Stats().host_bytes, 0);
    EXPECT_EQ(fixture.offloader().Stats().device_bytes, 0);
    EXPECT_LE(fixture.host().Stats().peak_live_bytes, options.host_bytes);
    if (!has_faults) {
      EXPECT_EQ(fixture.offloader().Stats().failures, 0);
    }
  }
}

// A buffer, and an event after which its memory is the buffer's: before it, a copy out could read
// the memory while the former owner's copy in still writes there.
struct SharedBuffer {
  BufferId id;
  Event allocated;
};

template <typename Function>
auto Locked(std::mutex& mutex, const Function& function) {
  const std::lock_guard lock(mutex);
  return function();
}

// Buffers that several threads share: any order of calls leaves the offloader consistent.
TEST(OffloaderSharedTest, ThreadsShareBuffers) {
  for (const auto release : {kWhenOut, kWhenAwaited}) {
    OffloaderFixtureOptions options;
    options.release = release;
    options.compresses = true;
    options.pool_bytes = 128 << 10;
    OffloaderFixture fixture(options);
    constexpr std::size_t kBuffers = 8;
    std::mutex mutex;
    std::array<SharedBuffer, kBuffers> shared;
    const auto work = [&](std::uint64_t seed) {
      std::mt19937_64 random(seed);
      const Stream stream = fixture.device().CreateStream().value();
      Offloader& offloader = fixture.offloader();
      for (int step = 0; step < testing::Rounds(2000); ++step) {
        SharedBuffer& slot = shared[random() % kBuffers];
        const auto [buffer, allocated] = Locked(mutex, [&] { return slot; });
        switch (random() % 7) {
          case 0: {
            const auto made = offloader.Allocate(1 + random() % 30'000, stream);
            if (!made.ok()) break;
            const Event event = fixture.device().CreateEvent().value();
            ASSERT_TRUE(fixture.device().RecordEvent(event, stream).ok());
            const SharedBuffer former = Locked(mutex, [&] {
              return std::exchange(slot, {*made, event});
            });
            offloader.Free(former.id).IgnoreError();
            break;
          }
          case 1:
          case 2:
            offloader.Offload(buffer, allocated, random() % 2 == 0 ? fixture.word() : std::nullopt)
                .IgnoreError();
            break;
          case 3:
            offloader.Prefetch(buffer, stream).IgnoreError();
            break;
          case 4:
            offloader.Use(buffer, stream).status().IgnoreError();
            break;
          case 5:
            offloader.Await(buffer).IgnoreError();
            break;
          default:
            if (random() % 4 == 0) offloader.Synchronize().IgnoreError();
            offloader.Stats();
        }
      }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tidepool
