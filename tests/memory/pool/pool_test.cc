// SPDX-License-Identifier: Apache-2.0
// The pool on one stream: placement, budget, growth, trimming, books, and every misuse.
#include "tidepool/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/slow_arena.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

class VirtualPoolTest : public PoolFixture {};

class PoolTest : public PoolFixture, public ::testing::WithParamInterface<PoolKind> {
 protected:
  std::unique_ptr<Pool> NewPool(PoolOptions options) {
    options.memory = GetParam().memory;
    return PoolFixture::NewPool(options);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, PoolTest, ::testing::Values(kVirtualPool, kSegmentPool),
                         [](const auto& test) { return test.param.name; });

TEST_P(PoolTest, HandsOutMemoryThatCanBeUsed) {
  auto pool = NewPool({.initial_bytes = kMiB, .max_bytes = 4 * kMiB});
  const Stream stream = NewStream();
  const absl::StatusOr<void*> p = pool->Allocate(1000, stream, Hint::kResident);
  ASSERT_TRUE(p.ok()) << p.status();
  std::memset(*p, 1, 1000);
  EXPECT_EQ(pool->Stats().live_bytes, 1024);
  EXPECT_TRUE(pool->Free(*p, stream).ok());
  EXPECT_EQ(pool->Stats().live_bytes, 0);
  EXPECT_EQ(pool->Stats().peak_live_bytes, 1024);
}

TEST_P(PoolTest, PlacesOneStreamLikeTheBareEngine) {
  for (const std::string& policy : PlacementPolicyNames()) {
    constexpr std::int64_t kBudget = 8 * kMiB;
    auto pool = NewPool({.initial_bytes = kBudget, .max_bytes = kBudget, .placement = policy});
    const Stream stream = NewStream();
    testing::SlowArena oracle(kBudget, 512, policy);
    std::mt19937_64 random(7);
    std::vector<void*> live;
    for (int i = 0; i < 4000; ++i) {
      if (live.empty() || random() % 2 == 0) {
        const std::size_t bytes = 1 + random() % (200 * kKiB);
        const Hint hint = random() % 3 == 0 ? Hint::kOffloadable : Hint::kResident;
        const absl::StatusOr<void*> p = pool->Allocate(bytes, stream, hint);
        const std::int64_t expected = oracle.Allocate(static_cast<std::int64_t>(bytes), hint);
        ASSERT_EQ(p.ok() ? OffsetOf(*pool, *p) : -1, expected) << policy << " " << i;
        if (p.ok()) live.push_back(*p);
      } else {
        std::swap(live[random() % live.size()], live.back());
        oracle.Free(OffsetOf(*pool, live.back()));
        ASSERT_TRUE(pool->Free(live.back(), stream).ok());
        live.pop_back();
      }
      ASSERT_EQ(pool->Stats().largest_hole_bytes, oracle.LargestFree());
    }
    ASSERT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    EXPECT_EQ(pool->Stats().event_records, 0);
    for (void* p : live) ASSERT_TRUE(pool->Free(p, stream).ok());
  }
}

TEST_P(PoolTest, GrowsWithinItsBudgetIntoOnePiece) {
  auto pool = NewPool({.max_bytes = 16 * kMiB});
  const Stream stream = NewStream();
  EXPECT_EQ(device_->used_bytes(), 0);
  std::vector<void*> live;
  for (;;) {
    const absl::StatusOr<void*> p = pool->Allocate(100 * kKiB, stream);
    if (!p.ok()) break;
    live.push_back(*p);
    ASSERT_LE(device_->used_bytes(), 16 * kMiB);
    ASSERT_EQ(pool->Stats().reserved_bytes, device_->used_bytes());
  }
  EXPECT_EQ(live.size(), 16 * kMiB / (100 * kKiB));
  for (void* p : live) ASSERT_TRUE(pool->Free(p, stream).ok());
  const absl::StatusOr<void*> all = pool->Allocate(16 * kMiB, stream);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE(pool->Allocate(1, stream).ok());
  EXPECT_TRUE(pool->Free(*all, stream).ok());
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

TEST_P(PoolTest, HandsOutAnOddBudgetToTheLastBlock) {
  auto pool = NewPool({.max_bytes = 1000 * 512 + 100});
  const Stream stream = NewStream();
  const absl::StatusOr<void*> all = pool->Allocate(1000 * 512, stream);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE(pool->Allocate(1, stream).ok());
  ASSERT_TRUE(pool->Free(*all, stream).ok());
  EXPECT_TRUE(pool->Trim().ok());
  EXPECT_TRUE(pool->Allocate(1000 * 512, stream).ok());
}

// A hole without memory lets the whole last granule be in the arena. After the hole is filled, the
// arena is too large by the bytes that the budget lacks of a granule.
TEST_P(PoolTest, HandsOutAnOddBudgetInOnePieceAfterAHoleInIt) {
  constexpr std::int64_t kGranule = 64 * kKiB;
  for (const std::int64_t missing : {std::int64_t{512}, 3 * kGranule / 4, kGranule - 512}) {
    const std::int64_t budget = 20 * kGranule - missing;
    auto pool = NewPool({.max_bytes = budget, .growth = 0});
    const Stream stream = NewStream();
    const auto take = [&](std::int64_t bytes) { return pool->Allocate(bytes, stream); };
    const auto low = take(10 * kGranule);
    const auto hole = take(kGranule);
    const auto high = take(5 * kGranule);
    ASSERT_TRUE(low.ok() && hole.ok() && high.ok());
    EXPECT_TRUE(pool->Free(*hole, stream).ok());
    EXPECT_EQ(*pool->Trim(), kGranule);
    const auto last = take(4 * kGranule - missing);
    ASSERT_TRUE(last.ok());
    for (const auto& block : {low, high, last}) EXPECT_TRUE(pool->Free(*block, stream).ok());
    const auto all = take(budget);
    ASSERT_TRUE(all.ok()) << all.status();
    std::memset(*all, 1, budget);
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    EXPECT_FALSE(take(1).ok());
    EXPECT_TRUE(pool->Free(*all, stream).ok());
    EXPECT_GT(*pool->Trim(), 0);
    EXPECT_EQ(device_->used_bytes(), 0);
  }
}

TEST_P(PoolTest, TakesAnInitialSizeThatIsNoMultipleOfTheAlignment) {
  for (const std::int64_t bytes : {131172, 131583, 1000}) {
    auto pool = NewPool({.initial_bytes = bytes, .max_bytes = bytes});
    const Stream stream = NewStream();
    const auto most = static_cast<std::size_t>(bytes & -512);
    void* const all = *pool->Allocate(most, stream);
    EXPECT_TRUE(pool->Free(all, stream).ok());
  }
}

TEST_F(VirtualPoolTest, GrowsInFewSteps) {
  auto pool = NewPool({.initial_bytes = kMiB, .max_bytes = 128 * kMiB, .growth = 0.125});
  const Stream stream = NewStream();
  while (pool->Allocate(64 * kKiB, stream).ok()) {
  }
  EXPECT_EQ(pool->Stats().live_bytes, 128 * kMiB);
  // ln(128) / ln(1.125) = 41 steps, each at most after one that is exact, and some of a granule.
  EXPECT_LE(pool->Stats().growths, 100);
  EXPECT_EQ(pool->Stats().failures, 1);
}

TEST_F(VirtualPoolTest, TakesWhatTheDeviceHasLeft) {
  auto first = NewPool({.initial_bytes = 200 * kMiB, .max_bytes = 200 * kMiB});
  auto second = NewPool({.max_bytes = 256 * kMiB, .growth = 1});
  const Stream stream = NewStream();
  const absl::StatusOr<void*> p = second->Allocate(40 * kMiB, stream);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_TRUE(second->Allocate(10 * kMiB, stream).ok());  // doubling would take more than is left
  const absl::Status refused = second->Allocate(10 * kMiB, stream).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("cannot grow"));
  EXPECT_TRUE(second->CheckInvariants().ok());
}

TEST_F(VirtualPoolTest, TrimsWhatIsUnusedAtTheEnd) {
  auto pool = NewPool({.initial_bytes = 16 * kMiB, .max_bytes = 64 * kMiB});
  const Stream stream = NewStream();
  void* const low = *pool->Allocate(kMiB, stream);
  void* const high = *pool->Allocate(40 * kMiB, stream);
  EXPECT_EQ(*pool->Trim(), pool->Stats().peak_reserved_bytes - pool->Stats().reserved_bytes);
  ASSERT_TRUE(pool->Free(high, stream).ok());
  EXPECT_GE(*pool->Trim(30 * kMiB), 1);
  EXPECT_GE(pool->Stats().reserved_bytes, 30 * kMiB);
  EXPECT_GE(*pool->Trim(), 1);
  EXPECT_EQ(pool->Stats().reserved_bytes, kMiB);  // a sixteenth of its initial bytes
  EXPECT_EQ(device_->used_bytes(), kMiB);
  EXPECT_EQ(*pool->Trim(), 0);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  void* const again = *pool->Allocate(63 * kMiB, stream);
  std::memset(again, 3, 63 * kMiB);
  ASSERT_TRUE(pool->Free(again, stream).ok());
  ASSERT_TRUE(pool->Free(low, stream).ok());
  EXPECT_GT(*pool->Trim(), 0);
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_F(VirtualPoolTest, SaysWhatIsWrongWithOptions) {
  const auto error = [&](const PoolOptions& options) {
    const auto pool = Pool::Create(device_.get(), options);
    EXPECT_FALSE(pool.ok());
    return std::string(pool.status().message());
  };
  EXPECT_THAT(error({.initial_bytes = 2 * kMiB, .max_bytes = kMiB}), HasSubstr("initial_bytes"));
  EXPECT_THAT(error({.initial_bytes = -1, .max_bytes = kMiB}), HasSubstr("initial_bytes"));
  EXPECT_THAT(error({.max_bytes = -1}), HasSubstr("max_bytes"));
  EXPECT_THAT(error({.max_bytes = 257 * kMiB}), HasSubstr("max_bytes"));
  EXPECT_THAT(error({.max_bytes = INT64_MAX}), HasSubstr("max_bytes"));
  EXPECT_THAT(error({.alignment = 500}), HasSubstr("alignment"));
  EXPECT_THAT(error({.alignment = 0}), HasSubstr("alignment"));
  EXPECT_THAT(error({.alignment = 1 << 30}), HasSubstr("alignment"));
  EXPECT_THAT(error({.placement = "worst-fit"}), HasSubstr("best-fit"));
  EXPECT_THAT(error({.growth = -1}), HasSubstr("growth"));
  EXPECT_FALSE(Pool::Create(nullptr, {}).ok());
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_P(PoolTest, RefusesWhatCanNeverFitAndSaysWhatWouldHelp) {
  auto pool = NewPool({.initial_bytes = 4 * kMiB, .max_bytes = 4 * kMiB});
  const Stream stream = NewStream();
  for (const std::size_t bytes : {std::size_t{1} << 63, SIZE_MAX, std::size_t{4 * kMiB + 1}}) {
    const absl::Status refused = pool->Allocate(bytes, stream).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("it can never fit"));
    EXPECT_EQ(pool->AllocateBlocking(bytes, stream).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(pool->Stats().failures, 6);
  void* const a = *pool->Allocate(kMiB, stream);
  void* const b = *pool->Allocate(2 * kMiB, stream);
  ASSERT_TRUE(pool->Free(a, stream).ok());
  EXPECT_THAT(std::string(pool->Allocate(2 * kMiB, stream).status().message()),
              HasSubstr("not in one piece"));
  EXPECT_THAT(std::string(pool->Allocate(3 * kMiB, stream).status().message()),
              HasSubstr("free or offload 1.0 MiB (1048576 bytes)"));
  EXPECT_TRUE(pool->Free(b, stream).ok());
}

TEST_P(PoolTest, RefusesMisuseAndChangesNothing) {
  auto pool = NewPool({.max_bytes = 4 * kMiB});
  const Stream stream = NewStream();
  const auto other_device = HostDevice::Create({}).value();
  const Stream foreign = other_device->CreateStream().value();
  char* const p = static_cast<char*>(*pool->Allocate(4096, stream));
  void* const freed = *pool->Allocate(4096, stream);
  ASSERT_TRUE(pool->Free(freed, stream).ok());
  int outside = 0;

  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(pool->Free(&outside, stream).code(), invalid);
  EXPECT_EQ(pool->Free(p + 512, stream).code(), invalid);
  EXPECT_EQ(pool->Free(p - 1, stream).code(), invalid);
  EXPECT_EQ(pool->Free(p + 4 * kMiB, stream).code(), invalid);
  EXPECT_THAT(std::string(pool->Free(freed, stream).message()), HasSubstr("double free"));
  EXPECT_EQ(pool->RecordUse(freed, stream).code(), invalid);
  const auto not_found = absl::StatusCode::kNotFound;
  for (const Stream unknown : {foreign, Stream{}, Stream{UINT64_MAX}}) {
    EXPECT_EQ(pool->Free(p, unknown).code(), not_found);
    EXPECT_EQ(pool->RecordUse(p, unknown).code(), not_found);
    EXPECT_EQ(pool->Allocate(1, unknown).status().code(), not_found);
    EXPECT_EQ(pool->AllocateBlocking(1, unknown).status().code(), not_found);
  }
  EXPECT_EQ(pool->Stats().live_count, 1);
  EXPECT_TRUE(pool->CheckInvariants().ok());
  EXPECT_TRUE(pool->Free(p, stream).ok());
}

TEST_P(PoolTest, KnowsTheStreamOfAnAllocation) {
  auto pool = NewPool({.max_bytes = 8 * kMiB});
  const Stream first = NewStream();
  const Stream second = NewStream();
  void* const p = *pool->Allocate(kMiB, first);
  EXPECT_EQ(*pool->AllocatedOn(p), first);
  EXPECT_TRUE(absl::IsFailedPrecondition(pool->FreeOwn(p, second)));
  EXPECT_EQ(*pool->AllocatedOn(p), first) << "refused, so nothing happened";
  void* const q = *pool->Allocate(kKiB, second);
  EXPECT_EQ(*pool->AllocatedOn(q), second);
  EXPECT_TRUE(absl::IsInvalidArgument(pool->AllocatedOn(static_cast<char*>(p) + 512).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(pool->FreeOwn(static_cast<char*>(p) + 512, first)));
  EXPECT_TRUE(pool->FreeOwn(p, first).ok());
  EXPECT_TRUE(pool->FreeOwn(nullptr, first).ok());
  // Also when it is in a cache until its stream asks again.
  for (int i = 0; i < 8; ++i) {
    void* const again = *pool->Allocate(kKiB, first);
    EXPECT_TRUE(pool->FreeOwn(again, first).ok());
    for (const Stream stream : {first, second}) {
      EXPECT_TRUE(absl::IsInvalidArgument(pool->FreeOwn(again, stream))) << i;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(pool->AllocatedOn(again).status())) << i;
  }
  ASSERT_TRUE(device_->DestroyStream(second).ok());
  EXPECT_EQ(*pool->AllocatedOn(q), second) << "a stream that is gone is known still";
  EXPECT_TRUE(absl::IsFailedPrecondition(pool->FreeOwn(q, first)));
  EXPECT_TRUE(absl::IsNotFound(pool->FreeOwn(q, second)));
  EXPECT_TRUE(pool->Free(q, first).ok());
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

TEST_P(PoolTest, TakesZeroBytesForNothing) {
  auto pool = NewPool({.max_bytes = 4 * kMiB});
  const Stream stream = NewStream();
  const absl::StatusOr<void*> nothing = pool->Allocate(0, stream);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(*nothing, nullptr);
  EXPECT_TRUE(pool->Free(nullptr, stream).ok());
  EXPECT_TRUE(pool->RecordUse(nullptr, stream).ok());
  EXPECT_EQ(pool->Stats().allocations, 0);
}

TEST_P(PoolTest, ReportsWhatIsLiveWhenItIsDestroyed) {
  auto pool = NewPool({.max_bytes = 4 * kMiB});
  const Stream stream = NewStream();
  ASSERT_TRUE(pool->Allocate(1000, stream).ok());
  ::testing::internal::CaptureStderr();
  pool.reset();
  const std::string report = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(report, HasSubstr("1.0 KiB (1024 bytes) live in 1 allocation\n"));
  EXPECT_THAT(report,
              HasSubstr(absl::StrCat(": 1.0 KiB (1024 bytes), allocated on the stream with id ",
                                     stream.id, "\n")));
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_P(PoolTest, SaysHowThingsStand) {
  auto pool = NewPool({.initial_bytes = kMiB, .max_bytes = 4 * kMiB});
  const Stream stream = NewStream();
  void* const a = *pool->Allocate(256 * kKiB, stream);
  void* const b = *pool->Allocate(256 * kKiB, stream);
  ASSERT_TRUE(pool->Free(a, stream).ok());
  const PoolStats stats = pool->Stats();
  EXPECT_EQ(stats.live_bytes, 256 * kKiB);
  EXPECT_EQ(stats.live_count, 1);
  EXPECT_EQ(stats.peak_live_bytes, 512 * kKiB);
  EXPECT_EQ(stats.reserved_bytes, kMiB);
  EXPECT_EQ(stats.max_bytes, 4 * kMiB);
  EXPECT_EQ(stats.high_water_bytes, 512 * kKiB);
  EXPECT_EQ(stats.free_bytes, 768 * kKiB);
  EXPECT_EQ(stats.largest_hole_bytes, 512 * kKiB);
  EXPECT_DOUBLE_EQ(stats.fragmentation, 1 - 512.0 / 768.0);
  EXPECT_EQ(stats.allocations, 2);
  EXPECT_EQ(stats.frees, 1);
  const std::vector<PoolBlock> blocks = pool->Snapshot();
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_FALSE(blocks[0].used);
  EXPECT_EQ(blocks[1].address, b);
  EXPECT_TRUE(blocks[1].used);
  EXPECT_EQ(blocks[1].stream, stream);
  EXPECT_EQ(blocks[2].bytes, 512 * kKiB);
  EXPECT_TRUE(pool->Free(b, stream).ok());
}

}  // namespace
}  // namespace tidepool
