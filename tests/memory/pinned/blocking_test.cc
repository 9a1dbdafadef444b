// SPDX-License-Identifier: Apache-2.0
// Allocations that wait for pinned memory: in order, woken by the call that makes room for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "lib/memory/pinned/create_pools.h"
#include "tests/memory/pinned/model_device.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"

namespace tidepool {
namespace {

using testing::kKiB;
using testing::kMiB;
using testing::ModelDevice;

// An allocation that waits on a thread of its own.
class Waiting {
 public:
  Waiting(PinnedPool& pool, std::size_t bytes)
      : thread_([this, &pool, bytes] { result_.set_value(pool.AllocateBlocking(bytes)); }) {}
  ~Waiting() { thread_.join(); }

  absl::StatusOr<void*> Result() { return future_.get(); }

 private:
  std::promise<absl::StatusOr<void*>> result_;
  std::shared_future<absl::StatusOr<void*>> future_ = result_.get_future();
  std::thread thread_;
};

class PinnedBlockingTest : public ::testing::Test {
 protected:
  std::unique_ptr<Waiting> Join(std::size_t bytes) {
    const std::int64_t blocked = pool_->Stats().blocked;
    auto waiting = std::make_unique<Waiting>(*pool_, bytes);
    while (pool_->Stats().blocked == blocked) std::this_thread::yield();
    return waiting;
  }
  void* Take(std::size_t bytes) { return *pool_->Allocate(bytes); }
  // A thread that frees serves the waiters itself, so the count is exact.
  std::int64_t Live() { return pool_->Stats().live_count; }
  void Free(void* address) { ASSERT_TRUE(pool_->Free(address).ok()); }

  ModelDevice device_;
  std::unique_ptr<PinnedPool> pool_ = *PinnedPool::Create(&device_, {.max_bytes = kMiB});
};

TEST_F(PinnedBlockingTest, DoesNotWaitWhenThereIsRoom) {
  const absl::StatusOr<void*> p = pool_->AllocateBlocking(kMiB);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(pool_->Stats().blocked, 0);
  EXPECT_EQ(*pool_->AllocateBlocking(0), nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(pool_->AllocateBlocking(kMiB + 1).status()));
  Free(*p);
}

TEST_F(PinnedBlockingTest, IsServedByTheFreeThatMakesRoom) {
  void* const a = Take(512 * kKiB);
  void* const b = Take(512 * kKiB);
  const auto waiting = Join(kMiB);
  Free(a);
  EXPECT_EQ(Live(), 1);
  Free(b);
  Free(*waiting->Result());
}

TEST_F(PinnedBlockingTest, ServesInTheOrderOfArrival) {
  void* const all = Take(kMiB);
  const auto first = Join(600 * kKiB);
  const auto second = Join(600 * kKiB);
  Free(all);
  EXPECT_EQ(Live(), 1);
  Free(*first->Result());
  Free(*second->Result());
}

TEST_F(PinnedBlockingTest, LetsTheSmallPassTheLargeButNotForEver) {
  void* small = Take(64 * kKiB);
  void* const rest = Take(960 * kKiB);
  const auto large = Join(kMiB);
  int overtakes = 0;
  for (;;) {
    Free(small);
    const absl::StatusOr<void*> again = pool_->Allocate(64 * kKiB);
    if (!again.ok()) {
      EXPECT_THAT(std::string(again.status().message()), ::testing::HasSubstr("kept for"));
      break;
    }
    small = *again;
    ASSERT_LE(++overtakes, Pool::kMostOvertakes);
  }
  EXPECT_EQ(overtakes, Pool::kMostOvertakes);
  const auto behind = Join(64 * kKiB);  // there is room, but not past the first waiter
  EXPECT_EQ(Live(), 1);
  Free(rest);
  Free(*large->Result());
  Free(*behind->Result());
}

TEST_F(PinnedBlockingTest, GivesUpAtTheDeadline) {
  void* const all = Take(kMiB);
  const absl::Status status = pool_->AllocateBlocking(1, absl::Now()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::HasSubstr("no room for 1 byte until the deadline, 1.0 MiB (1048576 bytes) live"));
  EXPECT_EQ(pool_->Stats().failures, 1);
  Free(all);
  Free(*pool_->AllocateBlocking(kMiB, absl::Now()));
}

TEST_F(PinnedBlockingTest, AWaiterThatGivesUpLetsOthersPass) {
  void* const a = Take(512 * kKiB);
  auto gives_up = std::async(std::launch::async, [&] {
    return pool_->AllocateBlocking(kMiB, absl::Now() + absl::Milliseconds(20)).status();
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(gives_up.get()));
  Free(*pool_->AllocateBlocking(512 * kKiB));
  Free(a);
}

TEST_F(PinnedBlockingTest, IsRefusedWithTheLastFreeWhenNoneCanHelp) {
  pool_ = *PinnedPool::Create(&device_, {.max_bytes = kMiB, .initial_bytes = 512 * kKiB});
  void* const a = Take(4096);
  const auto waiting = Join(kMiB);
  Free(a);
  EXPECT_TRUE(absl::IsResourceExhausted(waiting->Result().status()));
}

TEST_F(PinnedBlockingTest, IsServedByAReserve) {
  pool_ = *PinnedPool::Create(&device_, {.max_bytes = kMiB, .initial_bytes = 256 * kKiB});
  void* const a = Take(4096);
  const auto waiting = Join(512 * kKiB);
  ASSERT_TRUE(pool_->Reserve(kMiB).ok());
  Free(*waiting->Result());
  Free(a);
}

TEST_F(PinnedBlockingTest, IsServedByAReserveThatFailsHalfWay) {
  pool_ = *pinned::CreatePinnedPool(&device_, {.max_bytes = kMiB, .initial_bytes = 4 * kKiB},
                                    {.most_bytes = 4 * kKiB});
  void* const live = Take(4 * kKiB);
  const auto waiting = Join(4 * kKiB);
  device_.host().FailCall(HostDevice::Call::kRegisterHostMemory, 2);
  EXPECT_TRUE(absl::IsUnavailable(pool_->Reserve(12 * kKiB)));
  EXPECT_EQ(pool_->Stats().reserved_bytes, 8 * kKiB);
  EXPECT_EQ(Live(), 2);
  Free(live);
  Free(*waiting->Result());
}

TEST_F(PinnedBlockingTest, IsServedByAFreeAfterWhichThePoolCanGrow) {
  pool_ = *pinned::CreatePinnedPool(
      &device_, {.max_bytes = kMiB, .initial_bytes = 0, .may_grow = true}, {.growth_bytes = 0});
  void* const a = Take(512 * kKiB);
  void* const b = Take(4096);
  const auto waiting = Join(1000 * kKiB);
  Free(a);
  Free(*waiting->Result());
  Free(b);
}

}  // namespace
}  // namespace tidepool
