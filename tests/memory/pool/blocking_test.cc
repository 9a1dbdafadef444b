// SPDX-License-Identifier: Apache-2.0
// Allocations that wait: served in order, and woken only by calls that make room for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

// An allocation that waits on a thread of its own.
class Waiting {
 public:
  Waiting(Pool& pool, std::size_t bytes, Stream stream, int priority = 0)
      : thread_([this, &pool, bytes, stream, priority] {
          result_.set_value(pool.AllocateBlocking(
              bytes, stream, Hint::kResident, absl::InfiniteFuture(), stop_.get_token(), priority));
        }) {}
  ~Waiting() { thread_.join(); }

  void Stop() { stop_.request_stop(); }
  absl::StatusOr<void*> Result() { return future_.get(); }

 private:
  std::stop_source stop_;
  std::promise<absl::StatusOr<void*>> result_;
  std::shared_future<absl::StatusOr<void*>> future_ = result_.get_future();
  std::thread thread_;
};

class BlockingTest : public PoolFixture, public ::testing::WithParamInterface<PoolKind> {
 protected:
  BlockingTest()
      : pool_(NewPool({.max_bytes = kMiB, .memory = GetParam().memory})), stream_(NewStream()) {}

  std::unique_ptr<Waiting> Join(std::size_t bytes, int priority = 0) {
    const std::int64_t blocked = pool_->Stats().blocked;
    auto waiting = std::make_unique<Waiting>(*pool_, bytes, stream_, priority);
    while (pool_->Stats().blocked == blocked) std::this_thread::yield();
    return waiting;
  }
  void* Take(std::size_t bytes) { return *pool_->Allocate(bytes, stream_); }
  // The thread that frees serves the queue, so this is exact.
  std::int64_t Live() { return pool_->Stats().live_count; }
  void Free(void* address) { ASSERT_TRUE(pool_->Free(address, stream_).ok()); }

  std::unique_ptr<Pool> pool_;
  Stream stream_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, BlockingTest, ::testing::Values(kVirtualPool, kSegmentPool),
                         [](const auto& test) { return test.param.name; });

TEST_P(BlockingTest, DoesNotWaitWhenThereIsRoom) {
  const absl::StatusOr<void*> p = pool_->AllocateBlocking(kMiB, stream_);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(pool_->Stats().blocked, 0);
  EXPECT_EQ(*pool_->AllocateBlocking(0, stream_), nullptr);
  Free(*p);
}

TEST_P(BlockingTest, IsServedByTheFreeThatMakesRoom) {
  void* const a = Take(512 * kKiB);
  void* const b = Take(512 * kKiB);
  const auto waiting = Join(kMiB);
  Free(a);
  EXPECT_EQ(Live(), 1);
  Free(b);
  Free(*waiting->Result());
}

TEST_P(BlockingTest, ServesInTheOrderOfArrival) {
  void* const all = Take(kMiB);
  const auto first = Join(600 * kKiB);
  const auto second = Join(600 * kKiB);
  Free(all);
  EXPECT_EQ(Live(), 1);
  void* const p = *first->Result();
  Free(p);
  Free(*second->Result());
}

TEST_P(BlockingTest, ServesByPriority) {
  void* const all = Take(kMiB);
  const auto low = Join(600 * kKiB, -1);
  const auto first = Join(600 * kKiB);
  const auto second = Join(600 * kKiB);
  const auto high = Join(600 * kKiB, 7);
  Free(all);
  for (Waiting* const served : {high.get(), first.get(), second.get(), low.get()}) {
    EXPECT_EQ(Live(), 1);
    Free(served->Result().value());
  }
}

TEST_P(BlockingTest, ALowPriorityIsPassedWithoutEnd) {
  void* const held = Take(960 * kKiB);
  const auto low = Join(kMiB, -1);
  for (int i = 0; i < 3 * Pool::kMostOvertakes; ++i) Free(Take(64 * kKiB));
  const auto high = Join(kMiB, 1);
  for (int i = 0; i < Pool::kMostOvertakes; ++i) Free(Take(64 * kKiB));
  EXPECT_FALSE(pool_->Allocate(64 * kKiB, stream_).ok());  // not past the high one
  Free(held);
  Free(high->Result().value());
  Free(low->Result().value());
}

TEST_P(BlockingTest, AHighPriorityGoesPastAClosedQueue) {
  void* const held = Take(960 * kKiB);
  const auto large = Join(kMiB);
  for (int i = 0; i < Pool::kMostOvertakes; ++i) Free(Take(64 * kKiB));
  EXPECT_FALSE(pool_->Allocate(64 * kKiB, stream_).ok());
  const absl::StatusOr<void*> small =
      pool_->AllocateBlocking(64 * kKiB, stream_, Hint::kResident, absl::InfiniteFuture(), {}, 1);
  Free(small.value());
  EXPECT_FALSE(pool_->Allocate(64 * kKiB, stream_).ok());
  Free(held);
  Free(large->Result().value());
}

TEST_P(BlockingTest, LetsTheSmallPassTheLargeButNotForEver) {
  void* small = Take(64 * kKiB);
  void* const rest = Take(960 * kKiB);
  const auto large = Join(kMiB);
  int overtakes = 0;
  for (;;) {
    Free(small);
    const absl::StatusOr<void*> again = pool_->Allocate(64 * kKiB, stream_);
    if (!again.ok()) {
      EXPECT_EQ(again.status().code(), absl::StatusCode::kResourceExhausted);
      break;
    }
    small = *again;
    ASSERT_LE(++overtakes, Pool::kMostOvertakes);
  }
  EXPECT_EQ(overtakes, Pool::kMostOvertakes);
  const auto behind = Join(64 * kKiB);  // there is room, but not past the first in line
  EXPECT_EQ(Live(), 1);
  Free(rest);
  Free(*large->Result());
  Free(*behind->Result());
}

TEST_P(BlockingTest, WakesAllThatFit) {
  void* const all = Take(kMiB);
  std::vector<std::unique_ptr<Waiting>> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(Join(256 * kKiB));
  Free(all);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(waiting[i]->Result().ok());
  EXPECT_EQ(Live(), 4);
  Free(*waiting[0]->Result());
  ASSERT_TRUE(waiting[4]->Result().ok());
  for (int i = 1; i < 5; ++i) Free(*waiting[i]->Result());
}

TEST_P(BlockingTest, LetsNoMorePassWithinOneFree) {
  void* const most = Take(512 * kKiB);
  void* const rest = Take(512 * kKiB);
  const auto large = Join(kMiB);
  std::vector<std::unique_ptr<Waiting>> small;
  for (int i = 0; i < Pool::kMostOvertakes + 4; ++i) small.push_back(Join(4 * kKiB));
  Free(most);
  for (int i = 0; i < Pool::kMostOvertakes; ++i) ASSERT_TRUE(small[i]->Result().ok());
  EXPECT_EQ(Live(), 1 + Pool::kMostOvertakes);
  for (int i = 0; i < Pool::kMostOvertakes; ++i) Free(*small[i]->Result());
  Free(rest);
  Free(*large->Result());
  for (int i = 0; i < 4; ++i) Free(*small[Pool::kMostOvertakes + i]->Result());
}

TEST_P(BlockingTest, IsNotOvertakenByWhoIsRefused) {
  void* const all = Take(960 * kKiB);
  const auto large = Join(kMiB);
  const Stream doomed = NewStream();
  std::vector<std::unique_ptr<Waiting>> refused;
  for (int i = 0; i < Pool::kMostOvertakes; ++i) {
    const std::int64_t blocked = pool_->Stats().blocked;
    refused.push_back(std::make_unique<Waiting>(*pool_, 128 * kKiB, doomed));
    while (pool_->Stats().blocked == blocked) std::this_thread::yield();
  }
  ASSERT_TRUE(device_->DestroyStream(doomed).ok());
  void* const small = Take(32 * kKiB);
  Free(small);
  for (const auto& waiting : refused) {
    EXPECT_EQ(waiting->Result().status().code(), absl::StatusCode::kNotFound);
  }
  Free(Take(64 * kKiB));  // one more may pass
  Free(all);
  Free(*large->Result());
}

TEST_P(BlockingTest, GivesUpAtItsDeadlineAndLetsOthersPass) {
  void* const a = Take(512 * kKiB);
  void* const b = Take(512 * kKiB);
  EXPECT_EQ(
      pool_->AllocateBlocking(kMiB, stream_, Hint::kResident, absl::InfinitePast()).status().code(),
      absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(pool_->Stats().failures, 1);
  Free(a);
  EXPECT_TRUE(pool_->AllocateBlocking(512 * kKiB, stream_).ok());
  Free(b);
}

TEST_P(BlockingTest, AStopEndsAWaitAndLetsOthersPass) {
  void* const half = Take(512 * kKiB);
  const auto all = Join(kMiB);
  for (int i = 0; i < Pool::kMostOvertakes; ++i) Free(Take(512 * kKiB));
  const auto other = Join(512 * kKiB);  // there is room, and the queue is closed
  all->Stop();
  EXPECT_EQ(all->Result().status().code(), absl::StatusCode::kCancelled);
  Free(other->Result().value());
  EXPECT_EQ(pool_->Stats().failures, 0);
  Free(half);
  EXPECT_EQ(Live(), 0);
}

TEST_P(BlockingTest, AStopBeforeTheCallOnlyTries) {
  std::stop_source stop;
  stop.request_stop();
  const auto attempt = [&] {
    return pool_->AllocateBlocking(kMiB, stream_, Hint::kResident, absl::InfiniteFuture(),
                                   stop.get_token());
  };
  void* const all = attempt().value();
  EXPECT_EQ(attempt().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(pool_->Stats().blocked, 0);
  EXPECT_EQ(pool_->Stats().failures, 0);
  Free(all);
}

TEST_P(BlockingTest, FailsAtOnceWhenNoFreeCanHelp) {
  auto hog = NewPool({.initial_bytes = 256 * kMiB, .max_bytes = 256 * kMiB});
  auto starved = NewPool({.max_bytes = kMiB, .memory = GetParam().memory});
  EXPECT_EQ(starved->AllocateBlocking(kMiB, stream_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(starved->Stats().blocked, 0);
}

TEST_P(BlockingTest, FailsWhenItsStreamIsDestroyedMeanwhile) {
  void* const all = Take(kMiB);
  const Stream doomed = NewStream();
  const std::int64_t blocked = pool_->Stats().blocked;
  Waiting waiting(*pool_, kMiB, doomed);
  while (pool_->Stats().blocked == blocked) std::this_thread::yield();
  ASSERT_TRUE(device_->DestroyStream(doomed).ok());
  Free(all);
  EXPECT_EQ(waiting.Result().status().code(), absl::StatusCode::kNotFound);
}

TEST_P(BlockingTest, ManyThreadsShareLittleMemory) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      for (int j = 0; j < 500; ++j) {
        const std::size_t bytes = static_cast<std::size_t>(1 + (i * 7 + j * 13) % 16) * 64 * kKiB;
        const absl::StatusOr<void*> p = pool_->AllocateBlocking(bytes, stream_);
        ASSERT_TRUE(p.ok()) << p.status();
        ASSERT_TRUE(pool_->Free(*p, stream_).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool_->Stats().allocations, 4000);
  EXPECT_TRUE(pool_->CheckInvariants().ok());
}

}  // namespace
}  // namespace tidepool
