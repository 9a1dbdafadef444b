// SPDX-License-Identifier: Apache-2.0
// Waiters and room: each call that makes room serves them, and no request that fits stays queued.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/memory/pool/caching_pool.h"
#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/rounds.h"

namespace tidepool {
namespace {

// A device with events that finish at once, which can be full for a few calls. No thread sleeps in
// a call of it.
class IdleDevice : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<Event> CreateEvent(EventKind /*kind*/) override { return Event{1}; }
  absl::Status DestroyEvent(Event /*event*/) override { return absl::OkStatus(); }
  absl::Status RecordEvent(Event /*event*/, Stream /*stream*/) override { return absl::OkStatus(); }
  absl::Status WaitEvent(Stream /*stream*/, Event /*event*/) override { return absl::OkStatus(); }
  absl::StatusOr<bool> QueryEvent(Event /*event*/) override { return true; }
  absl::Status SynchronizeEvent(Event /*event*/) override { return absl::OkStatus(); }
  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) override {
    if (full_calls-- > 0) return absl::ResourceExhaustedError("the device is full");
    return ForwardingDevice::CreatePhysical(bytes);
  }
  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) override {
    if (full_calls-- > 0) return absl::ResourceExhaustedError("the device is full");
    return ForwardingDevice::AllocateMemory(bytes);
  }

  int full_calls = 0;
};

// An allocation that may wait, on a thread of its own.
class WaitingRequest {
 public:
  WaitingRequest(Pool& pool, std::int64_t bytes, Stream stream,
                 absl::Time deadline = absl::InfiniteFuture())
      : bytes_(bytes), thread_([this, &pool, stream, deadline] {
          result_ = pool.AllocateBlocking(static_cast<std::size_t>(bytes_), stream, Hint::kResident,
                                          deadline);
          is_done_ = true;
        }) {}
  ~WaitingRequest() {
    if (thread_.joinable()) thread_.join();
  }

  bool is_done() const { return is_done_; }
  absl::StatusOr<void*> Result() {
    if (thread_.joinable()) thread_.join();
    return result_;
  }
  std::int64_t bytes() const { return bytes_; }

  int overtakes = 0;

 private:
  const std::int64_t bytes_;
  std::atomic<bool> is_done_ = false;
  absl::StatusOr<void*> result_ = nullptr;
  std::thread thread_;
};

struct WaitersCase {
  PoolKind kind;
  bool planned = false;
};

class WaitersFixture : public PoolFixture {
 protected:
  static constexpr std::int64_t kUnit = 64 * kKiB;

  WaitersFixture() : PoolFixture({.memory_bytes = 40 * kUnit, .granularity = kUnit}) {}

  void Make(const WaitersCase& made, PoolOptions options) {
    options.memory = made.kind.memory;
    options.remap = made.kind.remap;
    if (made.planned) {
      options.placement = "planned";
      options.plan_seconds = 0;
    }
    pool_ = Pool::Create(&idle_, options).value();
  }
  absl::StatusOr<void*> Allocate(std::int64_t bytes) {
    return pool_->Allocate(static_cast<std::size_t>(bytes), stream_);
  }
  void Free(void* address) { ASSERT_TRUE(pool_->Free(address, stream_).ok()); }
  void Free(const std::vector<void*>& addresses) {
    for (void* const address : addresses) Free(address);
  }
  // Leaves this part of the device to the pool.
  void LeaveToPool(std::int64_t bytes) {
    if (others_ != nullptr) {
      ASSERT_TRUE(device_->FreeMemory(others_).ok());
      others_ = nullptr;
    }
    const std::int64_t taken = device_->memory_bytes() - device_->used_bytes() - bytes;
    if (taken > 0) others_ = device_->AllocateMemory(taken).value();
  }
  std::unique_ptr<WaitingRequest> Join(std::int64_t bytes,
                                       absl::Time deadline = absl::InfiniteFuture()) {
    const std::int64_t blocked = pool_->Stats().blocked;
    auto waiting = std::make_unique<WaitingRequest>(*pool_, bytes, stream_, deadline);
    while (pool_->Stats().blocked == blocked) std::this_thread::yield();
    return waiting;
  }

  IdleDevice idle_{*device_};
  const Stream stream_ = NewStream();
  std::unique_ptr<Pool> pool_;
  void* others_ = nullptr;  // memory of the device that the pool does not have
};

class WaitersTest : public WaitersFixture, public ::testing::WithParamInterface<WaitersCase> {
 protected:
  void Make(PoolOptions options) { WaitersFixture::Make(GetParam(), options); }
};

INSTANTIATE_TEST_SUITE_P(Kinds, WaitersTest,
                         ::testing::Values(WaitersCase{kVirtualPool}, WaitersCase{kRemappingPool},
                                           WaitersCase{kSegmentPool},
                                           WaitersCase{kVirtualPool, true},
                                           WaitersCase{kSegmentPool, true}),
                         [](const auto& test) {
                           return std::string(test.param.kind.name) +
                                  (test.param.planned ? "_planned" : "");
                         });

TEST_P(WaitersTest, AreServedAfterTheGrowthOfAnother) {
  Make({.max_bytes = 32 * kUnit});
  void* const live = *Allocate(kUnit);
  LeaveToPool(0);
  const auto waiting = Join(4 * kUnit);
  LeaveToPool(20 * kUnit);
  const absl::StatusOr<void*> p = pool_->AllocateBlocking(2 * kUnit, stream_);
  ASSERT_TRUE(p.ok()) << p.status();
  Free({live, *p, *waiting->Result()});
}

TEST_P(WaitersTest, AreServedAfterATrim) {
  Make({.max_bytes = 32 * kUnit});
  void* const live = *Allocate(kUnit);
  LeaveToPool(0);
  const auto waiting = Join(4 * kUnit);
  LeaveToPool(20 * kUnit);
  EXPECT_TRUE(pool_->Trim(32 * kUnit).ok());
  Free({live, *waiting->Result()});
}

TEST_P(WaitersTest, AreServedAfterAMark) {
  Make({.max_bytes = 32 * kUnit});
  void* const live = *Allocate(kUnit);
  LeaveToPool(0);
  const auto waiting = Join(4 * kUnit);
  LeaveToPool(20 * kUnit);
  pool_->MarkIteration();
  Free({live, *waiting->Result()});
}

// The device has room again, and no call told the waiter.
TEST_P(WaitersTest, LookOnceMoreOnTheirDeadline) {
  Make({.max_bytes = 32 * kUnit, .growth = 0});
  void* const live = *Allocate(kUnit);
  idle_.full_calls = 1;
  const absl::StatusOr<void*> p =
      pool_->AllocateBlocking(4 * kUnit, stream_, Hint::kResident, absl::InfinitePast());
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(pool_->Stats().blocked, 1);
  Free({live, *p});
}

TEST_P(WaitersTest, AreRefusedWhenNothingIsLiveAnyMore) {
  Make({.max_bytes = 32 * kUnit});
  void* const live = *Allocate(kUnit);
  LeaveToPool(0);
  const auto waiting = Join(4 * kUnit);
  Free(live);
  EXPECT_TRUE(absl::IsResourceExhausted(waiting->Result().status())) << waiting->Result().status();
}

TEST_P(WaitersTest, LetOthersPassWhenTheyLeave) {
  Make({.initial_bytes = 8 * kUnit, .max_bytes = 8 * kUnit});
  void* const live = *Allocate(6 * kUnit);
  const auto large = Join(8 * kUnit, absl::Now() + absl::Milliseconds(100));
  for (;;) {
    const absl::StatusOr<void*> p = Allocate(kUnit);
    if (!p.ok()) break;
    Free(*p);
    if (large->is_done()) break;
  }
  WaitingRequest small(*pool_, kUnit, stream_);  // there is room, but not past the first in line
  EXPECT_TRUE(absl::IsDeadlineExceeded(large->Result().status()));
  Free({live, *small.Result()});
}

// Random calls, and after each: every request in line is one that the pool cannot serve.
class WaitersPropertyTest : public WaitersTest {
 protected:
  void Play(unsigned seed) {
    random_.seed(seed);
    const bool is_odd = random_() % 2 == 0;  // a budget that is no whole number of granules
    Make({.max_bytes = 32 * kUnit + (is_odd ? kUnit / 2 : 0)});
    const Stream other = NewStream();
    streams_ = {stream_, random_() % 2 == 0 ? other : stream_};
    for (int step = 0; step < 200 && !HasFailure(); ++step) {
      Step();
      Settle();
      Probe();
      Settle();
    }
    LeaveToPool(40 * kUnit);
    while (!live_.empty() || !waiting_.empty()) {
      if (!live_.empty()) FreeOne();
      Settle();
    }
    EXPECT_TRUE(pool_->Trim().ok());
    EXPECT_EQ(device_->used_bytes(), 0);
    pool_.reset();
  }

 private:
  Stream AnyStream() { return streams_[random_() % 2]; }
  std::int64_t AnyBytes() {
    const std::int64_t most = std::vector{1, 4, 12, 32}[random_() % 4] * kUnit;
    return 1 + static_cast<std::int64_t>(random_() % static_cast<unsigned>(most));
  }
  void FreeOne() {
    std::swap(live_[random_() % live_.size()], live_.back());
    ASSERT_TRUE(pool_->Free(live_.back(), AnyStream()).ok());
    live_.pop_back();
  }
  // Notes a request that was served and did not wait.
  void NoteServed(const absl::StatusOr<void*>& address) {
    if (!address.ok()) return;
    live_.push_back(*address);
    for (const auto& waiting : waiting_) ++waiting->overtakes;
  }

  void Step() {
    const unsigned what = random_() % 16;
    const auto bytes = static_cast<std::size_t>(AnyBytes());
    if (what < 4) {
      NoteServed(pool_->Allocate(bytes, AnyStream()));
    } else if (what < 6) {
      NoteServed(
          pool_->AllocateBlocking(bytes, AnyStream(), Hint::kResident, absl::InfinitePast()));
    } else if (what < 10) {
      if (!live_.empty()) FreeOne();
    } else if (what < 11) {
      EXPECT_TRUE(pool_->Trim(static_cast<std::int64_t>(random_() % 40) * kUnit).ok());
    } else if (what < 12) {
      pool_->MarkIteration();
      pool_->AwaitPlans();
    } else if (what < 14) {
      LeaveToPool(static_cast<std::int64_t>(random_() % 40) * kUnit);
      EXPECT_TRUE(pool_->Trim(40 * kUnit).ok());  // it gives nothing back, but it looks
    } else if (waiting_.size() < 3) {
      waiting_.push_back(
          std::make_unique<WaitingRequest>(*pool_, static_cast<std::int64_t>(bytes), AnyStream()));
    }
  }

  // Until every waiter has its result or sleeps: then none wakes another.
  void Settle() {
    for (;;) {
      const auto waiting =
          std::ranges::count_if(waiting_, [](const auto& w) { return !w->is_done(); });
      if (CountAsleep() == waiting) break;
      std::this_thread::yield();
    }
    TakeResults();
  }
  std::int64_t CountAsleep() const {
    const auto* const caching = dynamic_cast<const pool::CachingPool*>(pool_.get());
    return caching != nullptr ? caching->CountAsleep()
                              : static_cast<const pool::PoolImpl&>(*pool_).CountAsleep();
  }
  void TakeResults() {
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (!waiting_[i]->is_done()) continue;
      const absl::StatusOr<void*> result = waiting_[i]->Result();
      if (result.ok()) {
        live_.push_back(*result);
        for (std::size_t before = 0; before < i; ++before) ++waiting_[before]->overtakes;
      } else {
        EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
      }
    }
    std::erase_if(waiting_, [](const auto& waiting) { return waiting->is_done(); });
  }

  void Probe() {
    const absl::Status status = pool_->CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
    for (const auto& waiting : waiting_) {
      EXPECT_LE(waiting->overtakes, Pool::kMostOvertakes);
      const absl::StatusOr<void*> p =
          pool_->Allocate(static_cast<std::size_t>(waiting->bytes()), streams_[0]);
      EXPECT_FALSE(p.ok()) << waiting->bytes() << " bytes of a waiter";
      if (p.ok()) {
        live_.push_back(*p);
        return;
      }
    }
  }

  std::mt19937 random_;
  std::vector<Stream> streams_;
  std::vector<void*> live_;
  std::vector<std::unique_ptr<WaitingRequest>> waiting_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, WaitersPropertyTest,
                         ::testing::Values(WaitersCase{kVirtualPool}, WaitersCase{kRemappingPool},
                                           WaitersCase{kSegmentPool},
                                           WaitersCase{kVirtualPool, true},
                                           WaitersCase{kSegmentPool, true}),
                         [](const auto& test) {
                           return std::string(test.param.kind.name) +
                                  (test.param.planned ? "_planned" : "");
                         });

TEST_P(WaitersPropertyTest, NoneIsLeftInLineThatAnAllocationWouldServe) {
  for (int seed = 1; seed <= testing::Rounds(50) && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Play(static_cast<unsigned>(seed));
  }
}

}  // namespace
}  // namespace tidepool
