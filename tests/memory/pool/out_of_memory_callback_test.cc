// SPDX-License-Identifier: Apache-2.0
// The function that a pool calls before it refuses a request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Buffers that a framework keeps for later, and gives up when memory is short.
class Cache {
 public:
  void Keep(void* buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.push_back(buffer);
  }
  // Frees a buffer. Returns false when no buffer was left.
  bool FreeOne(Pool& pool) {
    const std::lock_guard lock(mutex_);
    if (buffers_.empty()) return false;
    EXPECT_TRUE(pool.Free(buffers_.back(), pool.AllocatedOn(buffers_.back()).value()).ok());
    buffers_.pop_back();
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<void*> buffers_;
};

class OutOfMemoryCallback : public PoolFixture, public ::testing::WithParamInterface<PoolKind> {
 protected:
  using Function = std::function<bool(const OutOfMemoryRequest&)>;

  // Returns a pool of four megabytes.
  std::unique_ptr<Pool> NewPoolWith(Function function) {
    return NewPool({.max_bytes = 4 * kMiB,
                    .memory = GetParam().memory,
                    .remap = GetParam().remap,
                    .on_out_of_memory = std::move(function)});
  }

  const Stream stream_ = NewStream();
};

INSTANTIATE_TEST_SUITE_P(Kinds, OutOfMemoryCallback, ::testing::ValuesIn(kPoolKinds),
                         [](const auto& test) { return test.param.name; });

TEST_P(OutOfMemoryCallback, MakesRoomUntilTheRequestFits) {
  Cache cache;
  std::unique_ptr<Pool> pool;
  std::vector<OutOfMemoryRequest> requests;
  pool = NewPoolWith([&](const OutOfMemoryRequest& request) {
    requests.push_back(request);
    return cache.FreeOne(*pool);
  });
  for (int i = 0; i < 4; ++i) cache.Keep(pool->Allocate(kMiB, stream_).value());
  EXPECT_THAT(requests, IsEmpty());
  ASSERT_NE(pool->Allocate(3 * kMiB, stream_, Hint::kOffloadable).value(), nullptr);
  ASSERT_THAT(requests, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(requests[i].bytes, 3 * kMiB);
    EXPECT_EQ(requests[i].stream, stream_);
    EXPECT_EQ(requests[i].hint, Hint::kOffloadable);
    EXPECT_EQ(requests[i].attempt, i + 1);
  }
  EXPECT_EQ(pool->Stats().failures, 0);
  EXPECT_EQ(pool->Stats().allocations, 5);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

TEST_P(OutOfMemoryCallback, EndsInARefusalWhenItReturnsFalse) {
  int calls = 0;
  const auto pool = NewPoolWith([&](const OutOfMemoryRequest&) {
    ++calls;
    return false;
  });
  ASSERT_TRUE(pool->Allocate(3 * kMiB, stream_).ok());
  EXPECT_EQ(pool->Allocate(2 * kMiB, stream_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(pool->Stats().failures, 1);
}

TEST_P(OutOfMemoryCallback, IsCalledABoundedNumberOfTimes) {
  int calls = 0;
  const auto pool = NewPoolWith([&](const OutOfMemoryRequest& request) {
    EXPECT_EQ(request.attempt, ++calls);
    return true;
  });
  ASSERT_TRUE(pool->Allocate(3 * kMiB, stream_).ok());
  EXPECT_EQ(pool->Allocate(2 * kMiB, stream_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(calls, Pool::kMostOutOfMemoryCalls);
  EXPECT_EQ(pool->Stats().failures, 1);
  EXPECT_TRUE(pool->Allocate(kMiB, stream_).ok());
}

TEST_P(OutOfMemoryCallback, IsNotCalledWhereMemoryIsNotTheReason) {
  const auto pool = NewPoolWith([&](const OutOfMemoryRequest&) {
    ADD_FAILURE() << "called";
    return false;
  });
  ASSERT_NE(pool->Allocate(3 * kMiB, stream_).value(), nullptr);
  EXPECT_EQ(pool->Allocate(0, stream_).value(), nullptr);
  EXPECT_FALSE(pool->Allocate(5 * kMiB, stream_).ok());     // beyond the budget
  EXPECT_FALSE(pool->Allocate(kMiB, Stream{123456}).ok());  // an unknown stream
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_TRUE(absl::IsCancelled(pool->AllocateBlocking(2 * kMiB, stream_, Hint::kResident,
                                                       absl::InfiniteFuture(), stopped.get_token())
                                    .status()));
}

TEST_P(OutOfMemoryCallback, MakesRoomForARequestThatWouldWait) {
  Cache cache;
  std::unique_ptr<Pool> pool;
  std::vector<int> attempts;
  pool = NewPoolWith([&](const OutOfMemoryRequest& request) {
    attempts.push_back(request.attempt);
    return cache.FreeOne(*pool);
  });
  for (int i = 0; i < 4; ++i) cache.Keep(pool->Allocate(kMiB, stream_).value());
  const absl::StatusOr<void*> served =
      pool->AllocateBlocking(3 * kMiB, stream_, Hint::kResident, absl::Now());
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_THAT(attempts, ElementsAre(1, 2, 3));
  EXPECT_EQ(pool->Stats().blocked, 0);
  EXPECT_EQ(pool->Stats().failures, 0);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

// The pool hears nothing of memory that the function can free later.
TEST_P(OutOfMemoryCallback, IsCalledAgainWhileARequestWaits) {
  Cache cache;
  std::unique_ptr<Pool> pool;
  int calls = 0;
  pool =
      NewPoolWith([&](const OutOfMemoryRequest&) { return ++calls > 2 && cache.FreeOne(*pool); });
  cache.Keep(pool->Allocate(4 * kMiB, stream_).value());
  EXPECT_TRUE(pool->AllocateBlocking(4 * kMiB, stream_).ok());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(pool->Stats().blocked, 1);
}

TEST_P(OutOfMemoryCallback, IsCalledAtTheEndOfAWait) {
  Cache cache;
  std::unique_ptr<Pool> pool;
  int calls = 0;
  pool =
      NewPoolWith([&](const OutOfMemoryRequest&) { return ++calls > 1 && cache.FreeOne(*pool); });
  cache.Keep(pool->Allocate(4 * kMiB, stream_).value());
  EXPECT_TRUE(pool->AllocateBlocking(4 * kMiB, stream_, Hint::kResident, absl::Now()).ok());
  EXPECT_EQ(calls, 2);
}

TEST_P(OutOfMemoryCallback, IsCalledABoundedNumberOfTimesForARequestThatWaits) {
  int calls = 0;
  const auto pool = NewPoolWith([&](const OutOfMemoryRequest&) { return ++calls > 0; });
  ASSERT_TRUE(pool->Allocate(3 * kMiB, stream_).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      pool->AllocateBlocking(2 * kMiB, stream_, Hint::kResident, absl::Now()).status()));
  EXPECT_EQ(calls, Pool::kMostOutOfMemoryCalls);
  EXPECT_EQ(pool->Stats().failures, 1);
}

// Nothing is live at the end of the function, so that no free would come.
TEST_P(OutOfMemoryCallback, MayFreeAllThatARequestWaitsFor) {
  Cache cache;
  std::unique_ptr<Pool> pool;
  pool = NewPoolWith([&](const OutOfMemoryRequest&) { return cache.FreeOne(*pool), false; });
  cache.Keep(pool->Allocate(4 * kMiB, stream_).value());
  EXPECT_TRUE(pool->AllocateBlocking(4 * kMiB, stream_).ok());
}

TEST_P(OutOfMemoryCallback, MayTrimAnotherPoolOfTheDevice) {
  const auto all = HostDevice::Create({.memory_bytes = 8 * kMiB}).value();
  const Stream stream = all->CreateStream().value();
  const PoolOptions options = {.max_bytes = 8 * kMiB, .memory = GetParam().memory};
  const auto rich = Pool::Create(all.get(), options).value();
  PoolOptions with_function = options;
  with_function.on_out_of_memory = [&](const OutOfMemoryRequest&) {
    return rich->Trim().value() > 0;
  };
  const auto poor = Pool::Create(all.get(), with_function).value();
  ASSERT_TRUE(rich->Free(rich->Allocate(6 * kMiB, stream).value(), stream).ok());
  EXPECT_NE(poor->Allocate(4 * kMiB, stream).value(), nullptr);
  EXPECT_EQ(rich->Stats().reserved_bytes, 0);
}

TEST_P(OutOfMemoryCallback, MayAllocateAndTrimInTheSamePool) {
  std::unique_ptr<Pool> pool;
  void* kept = nullptr;
  std::vector<int> attempts;
  pool = NewPoolWith([&](const OutOfMemoryRequest& request) {
    attempts.push_back(request.attempt);
    if (request.bytes < 2 * kMiB) return false;  // the request below
    EXPECT_FALSE(pool->Allocate(kMiB, stream_).ok());
    EXPECT_TRUE(pool->Free(kept, stream_).ok());
    EXPECT_TRUE(pool->Trim().ok());
    return true;
  });
  kept = pool->Allocate(4 * kMiB, stream_).value();
  EXPECT_NE(pool->Allocate(2 * kMiB, stream_).value(), nullptr);
  EXPECT_THAT(attempts, ElementsAre(1, 1));
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

// Blocks go from stream to stream, so the caches of streams are at work.
TEST_P(OutOfMemoryCallback, ServesThreadsThatMakeRoomForEachOther) {
  Cache cache;
  std::unique_ptr<Pool> pool;
  std::atomic<int> calls = 0;
  pool = NewPoolWith([&](const OutOfMemoryRequest&) {
    ++calls;
    return cache.FreeOne(*pool);
  });
  constexpr int kRequests = 500;
  const auto work = [&](Stream stream) {
    for (int i = 0; i < kRequests; ++i) {
      const std::size_t bytes = static_cast<std::size_t>(i % 7 + 1) * 128 * kKiB;
      const absl::StatusOr<void*> buffer = pool->Allocate(bytes, stream);
      // The other thread may hold the only buffer that is not in the cache.
      if (buffer.ok()) cache.Keep(*buffer);
    }
  };
  std::thread other([&, stream = NewStream()] { work(stream); });
  work(stream_);
  other.join();
  EXPECT_GT(calls, 0);
  while (cache.FreeOne(*pool)) {
  }
  EXPECT_EQ(pool->Stats().live_count, 0);
  EXPECT_EQ(pool->Stats().allocations + pool->Stats().failures, 2 * kRequests);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

// Each thread keeps its buffers, so that only the function makes room. The one that ends first
// frees them: the other one may have been overtaken in all its kMostOutOfMemoryCalls.
TEST_P(OutOfMemoryCallback, ServesThreadsThatWaitAndFreeNothing) {
  Cache cache;
  std::unique_ptr<Pool> pool;
  pool = NewPoolWith([&](const OutOfMemoryRequest&) { return cache.FreeOne(*pool); });
  constexpr int kRequests = 200;
  const auto work = [&](Pool& region, Stream stream) {
    for (int i = 0; i < kRequests; ++i) {
      const std::size_t bytes = static_cast<std::size_t>(i % 7 + 1) * 128 * kKiB;
      const absl::StatusOr<void*> buffer = region.AllocateBlocking(bytes, stream);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      cache.Keep(*buffer);
    }
    while (cache.FreeOne(*pool)) {
    }
  };
  const bool has_regions = GetParam().memory == PoolMemory::kVirtual;
  Pool& other_pool = has_regions ? **pool->Region("other") : *pool;
  std::thread other([&, stream = NewStream()] { work(other_pool, stream); });
  work(*pool, stream_);
  other.join();
  EXPECT_EQ(pool->Stats().failures, 0);
  EXPECT_EQ(pool->Stats().live_count, 0);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

// The function makes room in another pool of the budget, once.
class OutOfMemoryCallbackOfRegions : public PoolFixture {
 protected:
  void SetUp() override {
    pool_ = NewPool({.max_bytes = 16 * kMiB, .on_out_of_memory = [this](const OutOfMemoryRequest&) {
                       ++calls_;
                       return make_room_();
                     }});
    held_ = pool_->Region("kv").value()->Allocate(12 * kMiB, stream_).value();
  }
  void ExpectServed() {
    const absl::StatusOr<void*> served = pool_->Allocate(10 * kMiB, stream_);
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_EQ(calls_, 1);
    EXPECT_TRUE(pool_->Free(*served, stream_).ok());
    EXPECT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
  }
  void FreeHeld() { EXPECT_TRUE(pool_->Free(std::exchange(held_, nullptr), stream_).ok()); }
  bool Pause(PauseMode mode) {
    const absl::Status status = pool_->PauseRegion("kv", mode, stream_);
    EXPECT_TRUE(status.ok()) << status;
    return true;
  }

  const Stream stream_ = NewStream();
  std::unique_ptr<Pool> pool_;
  std::function<bool()> make_room_ = [] { return false; };
  std::atomic<int> calls_ = 0;
  void* held_ = nullptr;
};

TEST_F(OutOfMemoryCallbackOfRegions, MayFreeInARegion) {
  make_room_ = [this] { return FreeHeld(), true; };
  ExpectServed();
}

TEST_F(OutOfMemoryCallbackOfRegions, MayDiscardARegion) {
  make_room_ = [this] { return Pause(PauseMode::kDiscard); };
  ExpectServed();
  FreeHeld();
}

TEST_F(OutOfMemoryCallbackOfRegions, MayMakeRoomForARequestThatWouldWait) {
  make_room_ = [this] { return Pause(PauseMode::kDiscard); };
  const absl::StatusOr<void*> served = pool_->AllocateBlocking(10 * kMiB, stream_);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(calls_, 1);
  EXPECT_TRUE(pool_->Free(*served, stream_).ok());
  FreeHeld();
}

// No free would make room, so the request would be refused without a wait.
TEST_F(OutOfMemoryCallbackOfRegions, MayLowerABoundBeforeARequestIsRefused) {
  FreeHeld();
  ASSERT_TRUE(pool_->LimitRegion("kv", 12 * kMiB, 16 * kMiB).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(
      pool_->AllocateBlocking(10 * kMiB, stream_, Hint::kResident).status()));
  EXPECT_EQ(calls_, 1);
  make_room_ = [this] { return pool_->LimitRegion("kv", 0, 16 * kMiB).ok(); };
  const absl::StatusOr<void*> served = pool_->AllocateBlocking(10 * kMiB, stream_);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_TRUE(pool_->Free(*served, stream_).ok());
}

// Each call wakes all that wait, and none of them finds room.
TEST_F(OutOfMemoryCallbackOfRegions, RequestsThatWakeEachOtherEnd) {
  make_room_ = [this] { return pool_->LimitRegion("kv", 0, 16 * kMiB).ok(); };
  const auto wait = [this](Pool& pool) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(
        pool.AllocateBlocking(10 * kMiB, stream_, Hint::kResident, absl::Now()).status()));
  };
  std::thread other([&] { wait(**pool_->Region("other")); });
  wait(*pool_);
  other.join();
  EXPECT_EQ(calls_, 2 * Pool::kMostOutOfMemoryCalls);
  FreeHeld();
}

TEST_F(OutOfMemoryCallbackOfRegions, MayPauseARegionThatIsBeingCopied) {
  device_->HoldCopies();
  make_room_ = [this] { return Pause(PauseMode::kHost); };
  const auto waits = [this] { return device_->CountCalls(HostDevice::Call::kSynchronizeEvent); };
  const std::int64_t before = waits();
  std::atomic<bool> has_ended = false;
  std::thread asking([&] {
    ExpectServed();
    has_ended = true;
  });
  while (!has_ended && waits() == before) std::this_thread::yield();
  EXPECT_FALSE(has_ended);
  device_->ReleaseCopies();
  asking.join();
  FreeHeld();
}

}  // namespace
}  // namespace tidepool
