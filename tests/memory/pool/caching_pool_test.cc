// SPDX-License-Identifier: Apache-2.0
// The caches of streams: which blocks they give back, and that the pool's callers cannot tell that
// they exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CachingPoolTest : public PoolFixture, public ::testing::WithParamInterface<PoolKind> {
 protected:
  // Returns a pool that has served two streams, and so uses its caches.
  std::unique_ptr<Pool> NewSharedPool(std::int64_t max_bytes) {
    auto pool =
        NewPool({.initial_bytes = max_bytes, .max_bytes = max_bytes, .memory = GetParam().memory});
    for (const Stream stream : {first_, second_}) {
      EXPECT_TRUE(pool->Free(*pool->Allocate(4096, stream), stream).ok());
    }
    return pool;
  }

  const Stream first_ = NewStream();
  const Stream second_ = NewStream();
};

INSTANTIATE_TEST_SUITE_P(Kinds, CachingPoolTest, ::testing::Values(kVirtualPool, kSegmentPool),
                         [](const auto& test) { return test.param.name; });

TEST_P(CachingPoolTest, GivesAStreamItsOwnBlocksBack) {
  auto pool = NewSharedPool(16 * kMiB);
  void* const p = *pool->Allocate(4096, first_);
  void* const q = *pool->Allocate(4096, first_);
  ASSERT_TRUE(pool->Free(p, first_).ok());
  EXPECT_EQ(*pool->Allocate(4096, first_), p);  // although it is not the lowest hole
  ASSERT_TRUE(pool->Free(q, first_).ok());
  EXPECT_NE(*pool->Allocate(4096, second_), q);
  const std::int64_t waits = pool->Stats().stream_waits;
  EXPECT_EQ(*pool->Allocate(4000, first_), q);
  EXPECT_EQ(pool->Stats().stream_waits, waits);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

TEST_P(CachingPoolTest, CountsWhatItHoldsAsFree) {
  auto pool = NewSharedPool(16 * kMiB);
  void* const p = *pool->Allocate(4096, first_);
  ASSERT_TRUE(pool->Free(p, first_).ok());
  const PoolStats stats = pool->Stats();
  EXPECT_EQ(stats.live_bytes, 0);
  EXPECT_EQ(stats.live_count, 0);
  EXPECT_EQ(stats.free_bytes, 16 * kMiB);
  EXPECT_EQ(stats.allocations, 3);
  EXPECT_EQ(stats.frees, 3);
  for (const PoolBlock& block : pool->Snapshot()) {
    EXPECT_FALSE(block.used);
    if (block.address == p) {
      EXPECT_THAT(block.pending, ElementsAre(first_));
    }
  }
}

TEST_P(CachingPoolTest, KnowsADoubleFree) {
  auto pool = NewSharedPool(16 * kMiB);
  void* const p = *pool->Allocate(4096, first_);
  ASSERT_TRUE(pool->Free(p, first_).ok());
  for (const Stream stream : {first_, second_}) {
    const absl::Status again = pool->Free(p, stream);
    EXPECT_EQ(again.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(again.message()), HasSubstr("double free"));
    EXPECT_EQ(pool->RecordUse(p, stream).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(*pool->Allocate(4096, first_), p);
}

TEST_P(CachingPoolTest, LeavesBlocksOfSeveralStreamsToThePool) {
  auto pool = NewSharedPool(16 * kMiB);
  void* const p = *pool->Allocate(4096, first_);
  ASSERT_TRUE(pool->RecordUse(p, second_).ok());
  ASSERT_TRUE(pool->Free(p, first_).ok());
  void* const freed_elsewhere = *pool->Allocate(8192, first_);
  ASSERT_TRUE(pool->Free(freed_elsewhere, second_).ok());
  for (const PoolBlock& block : pool->Snapshot()) {
    if (block.address == p) {
      EXPECT_THAT(block.pending, Contains(second_));
    }
  }
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

TEST_P(CachingPoolTest, IsEmptiedBeforeMemoryIsShort) {
  auto pool = NewSharedPool(kMiB);
  std::vector<void*> live;
  for (int i = 0; i < 256; ++i) live.push_back(*pool->Allocate(4096, first_));
  for (void* p : live) ASSERT_TRUE(pool->Free(p, first_).ok());
  void* const all = *pool->Allocate(kMiB, second_);
  EXPECT_FALSE(pool->Allocate(4096, first_).ok());
  EXPECT_TRUE(pool->Free(all, second_).ok());
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

TEST_P(CachingPoolTest, IsEmptiedByTrimming) {
  auto pool = NewSharedPool(16 * kMiB);
  ASSERT_TRUE(pool->Free(*pool->Allocate(4096, first_), first_).ok());
  EXPECT_EQ(*pool->Trim(), 16 * kMiB);
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_P(CachingPoolTest, EndsWithItsStream) {
  auto pool = NewSharedPool(16 * kMiB);
  void* const p = *pool->Allocate(4096, first_);
  void* const q = *pool->Allocate(4096, first_);
  ASSERT_TRUE(pool->Free(p, first_).ok());
  ASSERT_TRUE(device_->DestroyStream(first_).ok());
  EXPECT_EQ(pool->Allocate(4096, first_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pool->Free(q, first_).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(pool->Free(q, second_).ok());
  EXPECT_EQ(pool->Stats().live_count, 0);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

TEST_P(CachingPoolTest, HidesNoFreeFromWaiters) {
  auto pool = NewSharedPool(kMiB);
  std::vector<void*> live;
  for (int i = 0; i < 256; ++i) live.push_back(*pool->Allocate(4096, first_));
  const std::int64_t blocked = pool->Stats().blocked;
  absl::StatusOr<void*> all;
  std::thread waiter([&] { all = pool->AllocateBlocking(kMiB, second_); });
  while (pool->Stats().blocked == blocked) std::this_thread::yield();
  for (void* p : live) ASSERT_TRUE(pool->Free(p, first_).ok());
  waiter.join();
  EXPECT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(pool->Free(*all, second_).ok());
}

}  // namespace
}  // namespace tidepool
