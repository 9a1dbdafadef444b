// SPDX-License-Identifier: Apache-2.0
// Regions: pools of tags that share a budget, sleep and wake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/memory/pool/memory_store.h"
#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/range_checker.h"
#include "tests/support/region_checker.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;
using ::testing::HasSubstr;

class RegionsTest : public PoolFixture {
 protected:
  explicit RegionsTest(const HostDeviceOptions& options = {.memory_bytes = 64 * kMiB})
      : PoolFixture(options) {}

  void Make(PoolOptions options = {.max_bytes = 16 * kMiB}) {
    pool_ = NewPool(options);
    weights_ = pool_->Region("weights").value();
    cache_ = pool_->Region("cache").value();
  }
  void* Take(Pool& pool, std::int64_t bytes) {
    const absl::StatusOr<void*> p = pool.Allocate(static_cast<std::size_t>(bytes), stream_);
    EXPECT_TRUE(p.ok()) << p.status();
    ExpectInvariants();
    return p.value_or(nullptr);
  }
  // Fills memory with a value by work of the stream.
  void Fill(void* address, std::int64_t bytes, int value) {
    ASSERT_TRUE(device_->Fill(address, static_cast<std::uint8_t>(value), bytes, stream_).ok());
  }
  void ExpectFilled(void* address, std::int64_t bytes, int value) {
    ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
    const std::string expected(static_cast<std::size_t>(bytes), static_cast<char>(value));
    EXPECT_EQ(std::memcmp(address, expected.data(), expected.size()), 0);
  }
  void Pause(const char* tag, PauseMode mode = PauseMode::kHost) {
    const absl::Status status = pool_->PauseRegion(tag, mode, stream_);
    EXPECT_TRUE(status.ok()) << status;
    ExpectInvariants();
  }
  absl::Status PauseInto(std::unique_ptr<ContentsStore> store) {
    const absl::Status status = pool_->PauseRegionInto("weights", std::move(store), stream_);
    ExpectInvariants();
    return status;
  }
  std::unique_ptr<ContentsStore> NewStore() {
    return std::make_unique<MemoryStore>(kMiB / 2, store_fault_);
  }
  void Resume(const char* tag) {
    const absl::Status status = pool_->ResumeRegion(tag, stream_);
    EXPECT_TRUE(status.ok()) << status;
    ExpectInvariants();
  }
  // Waits for all work that was queued so far.
  void AwaitAllStreams() {
    const Event event = device_->CreateEvent().value();
    ASSERT_TRUE(device_->RecordAll(event).ok());
    ASSERT_TRUE(device_->SynchronizeEvent(event).ok());
    ASSERT_TRUE(device_->DestroyEvent(event).ok());
  }
  void ExpectInvariants() {
    const absl::Status status = pool_->CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
  }
  // Ends the pool, with live allocations.
  void TearDown() override {
    ::testing::internal::CaptureStderr();
    pool_.reset();
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(text, ::testing::Not(HasSubstr("kept")));
    EXPECT_EQ(device_->used_bytes(), 0);
  }
  std::int64_t Calls(Call call) { return device_->CountCalls(call); }
  RegionStats StatsOf(std::size_t region) { return pool_->RegionStatistics().at(region); }

  const Stream stream_ = NewStream();
  std::unique_ptr<Pool> pool_;
  StoreFault store_fault_;
  Pool* weights_ = nullptr;
  Pool* cache_ = nullptr;
};

TEST_F(RegionsTest, ATagNamesOneRegionWithAddressesOfItsOwn) {
  Make();
  EXPECT_EQ(pool_->Region("weights").value(), weights_);
  EXPECT_NE(weights_, cache_);
  void* const p = Take(*weights_, kMiB);
  void* const q = Take(*pool_, kMiB);
  EXPECT_GE(weights_->OffsetOf(p), 0);
  EXPECT_LT(pool_->OffsetOf(p), 0);
  EXPECT_LT(weights_->OffsetOf(q), 0);
  EXPECT_TRUE(weights_->Free(p, stream_).ok());
  EXPECT_TRUE(pool_->Free(q, stream_).ok());
}

TEST_F(RegionsTest, ThePoolTakesAddressesOfItsRegions) {
  Make();
  const Stream other = NewStream();
  void* const p = Take(*weights_, kMiB);
  EXPECT_EQ(*pool_->AllocatedOn(p), stream_);
  EXPECT_TRUE(pool_->RecordUse(p, other).ok());
  EXPECT_EQ(pool_->FreeOwn(p, other).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(pool_->FreeOwn(p, stream_).ok());
  void* const q = Take(*cache_, kMiB);
  EXPECT_TRUE(pool_->Free(q, other).ok());
  EXPECT_EQ(pool_->Free(q, other).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_->Stats().live_count, 0);
}

TEST_F(RegionsTest, ContentsComeBackAfterAnotherTakerHadTheMemory) {
  Make();
  void* const p = Take(*weights_, 6 * kMiB);
  void* const q = Take(*weights_, 5 * kMiB);
  Fill(p, 6 * kMiB, 1);
  Fill(q, 5 * kMiB, 2);
  Pause("weights");
  EXPECT_EQ(weights_->Stats().reserved_bytes, 0);
  void* const all = Take(*cache_, 16 * kMiB);
  Fill(all, 16 * kMiB, 3);
  EXPECT_TRUE(cache_->Free(all, stream_).ok());
  Resume("weights");
  ExpectFilled(p, 6 * kMiB, 1);
  ExpectFilled(q, 5 * kMiB, 2);
  const RegionStats stats = StatsOf(0);
  EXPECT_EQ(stats.tag, "weights");
  EXPECT_FALSE(stats.is_asleep);
  EXPECT_EQ(stats.live_bytes, 11 * kMiB);
  EXPECT_EQ(stats.live_count, 2);
  EXPECT_GE(stats.reserved_bytes, 11 * kMiB);
  EXPECT_EQ(stats.host_bytes, 11 * kMiB);
  EXPECT_EQ(stats.pauses, 1);
  EXPECT_EQ(stats.resumes, 1);
  EXPECT_EQ(stats.copied_out_bytes, 11 * kMiB);
  EXPECT_EQ(stats.copied_in_bytes, 11 * kMiB);
}

TEST_F(RegionsTest, ThePeakOfTheBudgetIsThatOfAllPoolsTogether) {
  Make();
  const auto peak = [this] { return pool_->Stats().peak_budget_bytes; };
  void* const p = Take(*weights_, 8 * kMiB);
  EXPECT_EQ(peak(), 8 * kMiB);
  Pause("weights", PauseMode::kDiscard);
  void* const q = Take(*cache_, 6 * kMiB);
  EXPECT_EQ(peak(), 8 * kMiB);
  Resume("weights");
  EXPECT_EQ(peak(), 14 * kMiB);
  EXPECT_TRUE(cache_->Free(q, stream_).ok());
  EXPECT_TRUE(cache_->Trim().ok());
  EXPECT_EQ(peak(), 14 * kMiB);
  EXPECT_EQ(weights_->Stats().peak_budget_bytes, 8 * kMiB);
  pool_->ResetPeaks();
  EXPECT_EQ(peak(), 8 * kMiB);
  EXPECT_TRUE(weights_->Free(p, stream_).ok());
}

TEST_F(RegionsTest, MemoryMovesBetweenTagsWithoutCreationsAndReleases) {
  Make();
  Take(*weights_, 12 * kMiB);
  const std::int64_t created = Calls(Call::kCreatePhysical);
  Pause("weights", PauseMode::kDiscard);
  AwaitAllStreams();
  Take(*cache_, 12 * kMiB);
  EXPECT_EQ(Calls(Call::kCreatePhysical), created);
  EXPECT_EQ(Calls(Call::kReleasePhysical), 0);
}

TEST_F(RegionsTest, APauseThatNobodyUsesCostsNoCallForMemoryAndNoCopyBack) {
  Make();
  void* const p = Take(*weights_, 12 * kMiB);
  Fill(p, 12 * kMiB, 7);
  const std::int64_t maps = Calls(Call::kMap);
  Pause("weights");
  Resume("weights");
  EXPECT_EQ(Calls(Call::kMap), maps);
  EXPECT_EQ(Calls(Call::kUnmap), 0);
  EXPECT_EQ(StatsOf(0).copied_in_bytes, 0);
  ExpectFilled(p, 12 * kMiB, 7);
}

TEST_F(RegionsTest, OnlyDisplacedPiecesAreCopiedBack) {
  Make();
  void* const p = Take(*weights_, 16 * kMiB);
  Fill(p, 16 * kMiB, 7);
  Pause("weights");
  void* const taken = Take(*cache_, 2 * kMiB);
  Fill(taken, 2 * kMiB, 8);
  EXPECT_TRUE(cache_->Free(taken, stream_).ok());
  Resume("weights");
  EXPECT_EQ(StatsOf(0).copied_in_bytes, 2 * kMiB);
  ExpectFilled(p, 16 * kMiB, 7);
}

TEST_F(RegionsTest, AStoreKeepsContents) {
  Make();
  void* const p = Take(*weights_, 6 * kMiB);
  void* const hole = Take(*weights_, kMiB / 4);
  void* const q = Take(*weights_, 5 * kMiB + 512);
  Fill(p, 6 * kMiB, 1);
  Fill(q, 5 * kMiB + 512, 2);
  EXPECT_TRUE(weights_->Free(hole, stream_).ok());
  Pause("weights");  // takes page-locked memory for the contents, which a store does not need
  Resume("weights");
  ASSERT_TRUE(PauseInto(NewStore()).ok());
  EXPECT_EQ(StatsOf(0).host_bytes, kMiB);
  EXPECT_EQ(StatsOf(0).stored_bytes, 11 * kMiB + 512);
  EXPECT_EQ(StatsOf(0).kept_bytes, 11 * kMiB + 512);
  void* const all = Take(*cache_, 16 * kMiB);
  Fill(all, 16 * kMiB, 3);
  EXPECT_TRUE(cache_->Free(all, stream_).ok());
  Resume("weights");
  ExpectFilled(p, 6 * kMiB, 1);
  ExpectFilled(q, 5 * kMiB + 512, 2);
  EXPECT_EQ(StatsOf(0).stored_bytes, 0);
  EXPECT_EQ(StatsOf(0).kept_bytes, 0);
  EXPECT_EQ(StatsOf(0).copied_in_bytes, 11 * kMiB + 512);
}

TEST_F(RegionsTest, OnlyBlocksOfDisplacedPiecesAreRead) {
  Make();
  void* const p = Take(*weights_, 16 * kMiB);
  Fill(p, 16 * kMiB, 7);
  ASSERT_TRUE(PauseInto(NewStore()).ok());
  AwaitAllStreams();  // so that all pieces can be taken, and neighbours are
  void* const taken = Take(*cache_, 2 * kMiB);
  Fill(taken, 2 * kMiB, 8);
  EXPECT_TRUE(cache_->Free(taken, stream_).ok());
  store_fault_.call = 3;
  EXPECT_TRUE(absl::IsUnavailable(pool_->ResumeRegion("weights", stream_)));
  EXPECT_TRUE(StatsOf(0).is_asleep);
  store_fault_.reads = 0;
  Resume("weights");
  EXPECT_EQ(store_fault_.reads, 4);
  ExpectFilled(p, 16 * kMiB, 7);
}

TEST_F(RegionsTest, APauseWhoseStoreFailsChangesNothing) {
  Make();
  void* const p = Take(*weights_, 3 * kMiB);
  Fill(p, 3 * kMiB, 9);
  EXPECT_EQ(PauseInto(nullptr).code(), absl::StatusCode::kInvalidArgument);
  for (const std::int64_t call : {1, 2, 5}) {  // its Begin, its first Put and a later one
    store_fault_.call = call;
    const absl::Status refused = PauseInto(NewStore());
    EXPECT_TRUE(absl::IsUnavailable(refused));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("\"weights\" was not paused: "));
    EXPECT_FALSE(StatsOf(0).is_asleep);
    EXPECT_EQ(StatsOf(0).stored_bytes, 0);
    ExpectFilled(p, 3 * kMiB, 9);
  }
  EXPECT_TRUE(weights_->Free(Take(*weights_, kMiB), stream_).ok());
}

TEST_F(RegionsTest, AStoreHasBlocksOfSomeBytes) {
  Make();
  Take(*weights_, kMiB);
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 62}) {
    const absl::Status refused = PauseInto(std::make_unique<MemoryStore>(bytes, store_fault_));
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("blocks of ", bytes)));
    EXPECT_FALSE(StatsOf(0).is_asleep);
  }
}

TEST_F(RegionsTest, ARegionWakesWithoutContentsThatItsStoreCannotRead) {
  Make();
  void* const p = Take(*weights_, 3 * kMiB);
  EXPECT_EQ(pool_->DiscardContents("weights").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::IsNotFound(pool_->DiscardContents("unknown")));
  ASSERT_TRUE(PauseInto(NewStore()).ok());
  EXPECT_TRUE(cache_->Free(Take(*cache_, 16 * kMiB), stream_).ok());  // displaces the contents
  for (int i = 0; i < 2; ++i) {
    store_fault_.call = 1;
    const absl::Status refused = pool_->ResumeRegion("weights", stream_);
    EXPECT_TRUE(absl::IsUnavailable(refused));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("discard them (DiscardContents)"));
  }
  ASSERT_TRUE(pool_->DiscardContents("weights").ok());
  EXPECT_EQ(StatsOf(0).stored_bytes, 0);
  store_fault_.call = 1;
  Resume("weights");
  EXPECT_EQ(store_fault_.call, 1) << "no call of the store";
  Fill(p, 3 * kMiB, 2);
  ExpectFilled(p, 3 * kMiB, 2);
}

TEST_F(RegionsTest, PageLockedContentsThatWereDiscardedNeedNoMemory) {
  Make();
  Fill(Take(*weights_, 3 * kMiB), 3 * kMiB, 1);
  device_->HoldCopies();
  Pause("weights");
  ASSERT_TRUE(pool_->DiscardContents("weights").ok());
  EXPECT_EQ(StatsOf(0).host_bytes, 3 * kMiB);
  device_->ReleaseCopies();
  ASSERT_TRUE(pool_->Trim().ok());
  EXPECT_EQ(StatsOf(0).host_bytes, 0);
  Resume("weights");
  EXPECT_EQ(StatsOf(0).copied_in_bytes, 0);
}

TEST_F(RegionsTest, AResumeFromAStoreEndsAfterItsCopies) {
  Make();
  void* const p = Take(*weights_, 1024);
  Fill(p, 1024, 9);
  ASSERT_TRUE(PauseInto(NewStore()).ok());
  ASSERT_TRUE(pool_->Trim().ok());
  device_->HoldCopies();
  // One wait for a free slot, and one for the copy.
  const std::int64_t waits = Calls(Call::kSynchronizeEvent) + 2;
  std::atomic<bool> has_ended = false;
  std::thread waker([&] {
    EXPECT_TRUE(pool_->ResumeRegion("weights", stream_).ok());
    has_ended = true;
  });
  while (!has_ended && Calls(Call::kSynchronizeEvent) < waits) std::this_thread::yield();
  EXPECT_FALSE(has_ended);
  device_->ReleaseCopies();
  waker.join();
  ExpectFilled(p, 1024, 9);
}

TEST_F(RegionsTest, AWaitForOneRegionHoldsUpNoOther) {
  Make();
  Fill(Take(*weights_, kMiB), kMiB, 9);
  void* const q = Take(*cache_, kMiB);
  device_->HoldCopies();
  Pause("weights");
  Resume("weights");
  const std::int64_t waits = Calls(Call::kSynchronizeEvent) + 1;
  std::thread trimmer([&] { EXPECT_TRUE(pool_->Trim().ok()); });  // waits for the copies
  while (Calls(Call::kSynchronizeEvent) < waits) std::this_thread::yield();
  EXPECT_TRUE(pool_->Region("new").ok());
  EXPECT_TRUE(pool_->AwaitContents(q, kMiB, stream_).ok());
  Pause("cache", PauseMode::kDiscard);
  Resume("cache");
  device_->ReleaseCopies();
  trimmer.join();
}

TEST_F(RegionsTest, TrimTakesThePageLockedMemoryBesideAStore) {
  Make();
  void* const p = Take(*weights_, 3 * kMiB);
  Fill(p, 3 * kMiB, 9);
  ASSERT_TRUE(PauseInto(NewStore()).ok());
  EXPECT_EQ(*pool_->Trim(), 3 * kMiB);
  EXPECT_EQ(StatsOf(0).host_bytes, 0);
  Resume("weights");
  ExpectFilled(p, 3 * kMiB, 9);
}

TEST_F(RegionsTest, ADiscardedRegionKeepsItsAddresses) {
  Make();
  void* const p = Take(*weights_, 12 * kMiB);
  Pause("weights", PauseMode::kDiscard);
  EXPECT_EQ(Calls(Call::kCopy), 0);
  EXPECT_EQ(StatsOf(0).host_bytes, 0);
  void* const q = Take(*pool_, 16 * kMiB);
  EXPECT_TRUE(pool_->Free(q, stream_).ok());
  Resume("weights");
  Fill(p, 12 * kMiB, 3);
  ExpectFilled(p, 12 * kMiB, 3);
}

TEST_F(RegionsTest, TheBudgetHoldsAllRegions) {
  Make();
  Take(*weights_, 6 * kMiB);
  Take(*cache_, 6 * kMiB);
  Take(*pool_, 4 * kMiB);
  EXPECT_EQ(device_->used_bytes(), 16 * kMiB);
  const absl::Status refused = pool_->Allocate(kMiB, stream_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("pause a region"));
  Pause("cache");
  Take(*pool_, kMiB);
  EXPECT_LE(device_->used_bytes(), 16 * kMiB);
}

TEST_F(RegionsTest, UnusedMemoryGoesToOthersWithoutNewMemoryOfTheDevice) {
  Make();
  EXPECT_TRUE(weights_->Free(Take(*weights_, 16 * kMiB), stream_).ok());
  const std::int64_t created = Calls(Call::kCreatePhysical);
  const std::int64_t unmapped = Calls(Call::kUnmap);
  const std::int64_t mapped = Calls(Call::kMap);
  void* const half = Take(*cache_, 8 * kMiB);
  EXPECT_EQ(Calls(Call::kUnmap) - unmapped, Calls(Call::kMap) - mapped);
  EXPECT_EQ(weights_->Stats().reserved_bytes, 8 * kMiB);
  void* const other_half = Take(*pool_, 8 * kMiB);
  EXPECT_TRUE(cache_->Free(half, stream_).ok());
  ASSERT_TRUE(pool_->LimitRegion("cache", 0, kMiB).ok());
  EXPECT_EQ(cache_->Stats().reserved_bytes, 0);
  Take(*weights_, 7 * kMiB);
  EXPECT_EQ(Calls(Call::kCreatePhysical), created);
  EXPECT_EQ(Calls(Call::kReleasePhysical), 0);
  EXPECT_EQ(device_->used_bytes(), 16 * kMiB);
  EXPECT_TRUE(pool_->Free(other_half, stream_).ok());
  EXPECT_EQ(*pool_->Trim(), 9 * kMiB);
  EXPECT_EQ(device_->used_bytes(), 7 * kMiB);
}

TEST_F(RegionsTest, TrimGivesUnusedMemoryThatNobodyTookToTheDevice) {
  Make();
  void* const kept = Take(*cache_, kMiB);
  EXPECT_TRUE(cache_->Free(Take(*cache_, 8 * kMiB), stream_).ok());
  ASSERT_TRUE(pool_->LimitRegion("cache", 0, kMiB).ok());
  EXPECT_EQ(device_->used_bytes(), 9 * kMiB);
  EXPECT_EQ(*pool_->Trim(), 8 * kMiB);
  EXPECT_EQ(device_->used_bytes(), kMiB);
  EXPECT_TRUE(cache_->Free(kept, stream_).ok());
}

TEST_F(RegionsTest, UnusedMemoryOfOthersServesARequestAndAResume) {
  Make();
  void* const p = Take(*weights_, 16 * kMiB);
  EXPECT_TRUE(weights_->Free(p, stream_).ok());
  void* const q = Take(*cache_, 16 * kMiB);
  Fill(q, 16 * kMiB, 4);
  Pause("cache");
  void* const r = Take(*pool_, 16 * kMiB);
  EXPECT_TRUE(pool_->Free(r, stream_).ok());
  Resume("cache");
  ExpectFilled(q, 16 * kMiB, 4);
}

TEST_F(RegionsTest, OthersGiveBackOnlyAsMuchAsIsMissing) {
  Make();
  EXPECT_TRUE(weights_->Free(Take(*weights_, 8 * kMiB), stream_).ok());
  Take(*pool_, 8 * kMiB);
  const std::int64_t unmapped = Calls(Call::kUnmap);
  Take(*cache_, 64 * kKiB);
  EXPECT_EQ(StatsOf(0).reserved_bytes, 8 * kMiB - 64 * kKiB);
  EXPECT_EQ(Calls(Call::kUnmap) - unmapped, 1);
  Take(*cache_, 4 * kMiB);
  EXPECT_EQ(StatsOf(0).reserved_bytes, 4 * kMiB - 64 * kKiB);
  EXPECT_EQ(Calls(Call::kUnmap) - unmapped, 65);
}

TEST_F(RegionsTest, OthersGiveBackOnlyTheBytesThatABoundLacks) {
  Make();
  EXPECT_TRUE(weights_->Free(Take(*weights_, 8 * kMiB), stream_).ok());
  Take(*pool_, 8 * kMiB);
  ASSERT_TRUE(pool_->LimitRegion("cache", kMiB, 16 * kMiB).ok());
  EXPECT_EQ(StatsOf(0).reserved_bytes, 7 * kMiB);
}

// Memory that the pool had before its first region is in larger pieces.
TEST_F(RegionsTest, AnotherPoolGivesBackAPieceThatIsLargerThanTheMissingBytes) {
  pool_ = NewPool({.max_bytes = 16 * kMiB});
  EXPECT_TRUE(pool_->Free(Take(*pool_, 16 * kMiB), stream_).ok());
  weights_ = pool_->Region("weights").value();
  Take(*weights_, 64 * kKiB);
  EXPECT_GT(pool_->Stats().reserved_bytes, 0);
}

TEST_F(RegionsTest, AResumeThatDoesNotFitChangesNothing) {
  Make();
  void* const p = Take(*weights_, 12 * kMiB);
  Fill(p, 12 * kMiB, 1);
  Pause("weights");
  void* const q = Take(*cache_, 6 * kMiB);
  const std::int64_t maps = Calls(Call::kMap);
  const std::int64_t created = Calls(Call::kCreatePhysical);
  const absl::Status refused = pool_->ResumeRegion("weights", stream_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"weights\" sleeps on"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("pause a region"));
  EXPECT_EQ(Calls(Call::kMap), maps);
  EXPECT_EQ(Calls(Call::kCreatePhysical), created);
  EXPECT_TRUE(StatsOf(0).is_asleep);
  ExpectInvariants();
  EXPECT_TRUE(cache_->Free(q, stream_).ok());
  Resume("weights");
  ExpectFilled(p, 12 * kMiB, 1);
}

TEST_F(RegionsTest, FreeMemoryOfASleeperNeedNotComeBack) {
  Make();
  void* const p = Take(*weights_, 4 * kMiB);
  void* const hole = Take(*weights_, 5 * kMiB);
  void* const q = Take(*weights_, 3 * kMiB);
  void* const end = Take(*weights_, 4 * kMiB);
  Fill(p, 4 * kMiB, 1);
  Fill(q, 3 * kMiB, 2);
  EXPECT_TRUE(weights_->Free(hole, stream_).ok());
  Pause("weights");
  EXPECT_TRUE(weights_->Free(end, stream_).ok());
  void* const all = Take(*cache_, 16 * kMiB);
  Fill(all, 16 * kMiB, 3);
  EXPECT_TRUE(cache_->Free(all, stream_).ok());
  void* const kept = Take(*cache_, 9 * kMiB);
  Resume("weights");
  EXPECT_EQ(weights_->Stats().reserved_bytes, 7 * kMiB);
  ExpectFilled(p, 4 * kMiB, 1);
  ExpectFilled(q, 3 * kMiB, 2);
  EXPECT_TRUE(cache_->Free(kept, stream_).ok());
  EXPECT_EQ(Take(*weights_, 5 * kMiB), hole);
}

TEST_F(RegionsTest, WorkThatUsesThePausedMemoryComesBeforeItsNextOwner) {
  Make();
  void* const p = Take(*weights_, 16 * kMiB);
  Fill(p, 16 * kMiB, 5);
  device_->HoldCopies();
  Pause("weights");
  // Only memory that is being copied is left, so the request waits for them.
  std::atomic<bool> is_served = false;
  std::thread taker([&] {
    const Stream own = NewStream();
    void* const q = pool_->Allocate(16 * kMiB, own).value();
    is_served = true;
    EXPECT_TRUE(device_->Fill(q, 6, 16 * kMiB, own).ok());
    EXPECT_TRUE(device_->SynchronizeStream(own).ok());
    EXPECT_TRUE(pool_->Free(q, own).ok());
  });
  while (Calls(Call::kSynchronizeEvent) == 0) std::this_thread::yield();
  EXPECT_FALSE(is_served);
  device_->ReleaseCopies();
  taker.join();
  Resume("weights");
  ExpectFilled(p, 16 * kMiB, 5);
}

TEST_F(RegionsTest, UnusedMemoryServesARequestBeforeAPauseHasCopied) {
  Make();
  Take(*weights_, 8 * kMiB);
  EXPECT_TRUE(cache_->Free(Take(*cache_, 8 * kMiB), stream_).ok());
  const Stream copier = NewStream();
  device_->HoldCopies();
  ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kHost, copier).ok());
  Take(*pool_, 8 * kMiB);
  device_->ReleaseCopies();
}

TEST_F(RegionsTest, AnotherStreamResumesWhileThePauseCopies) {
  Make();
  void* const p = Take(*weights_, 8 * kMiB);
  Fill(p, 8 * kMiB, 5);
  const Stream waker = NewStream();
  device_->HoldCopies();
  Pause("weights");
  ASSERT_TRUE(pool_->ResumeRegion("weights", waker).ok());
  // The stream waits for the copy, so this does not reach it.
  ASSERT_TRUE(device_->Fill(p, 6, 8 * kMiB, waker).ok());
  device_->ReleaseCopies();
  ASSERT_TRUE(device_->SynchronizeStream(waker).ok());
  ExpectFilled(p, 8 * kMiB, 6);
}

TEST_F(RegionsTest, AFreedAllocationStaysUntilItsCopyHasRead) {
  Make();
  void* const p = Take(*weights_, 8 * kMiB);
  Fill(p, 8 * kMiB, 5);
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  const Stream copier = NewStream();
  device_->HoldCopies();
  ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kHost, copier).ok());
  EXPECT_TRUE(weights_->Free(p, stream_).ok());
  ASSERT_TRUE(pool_->ResumeRegion("weights", NewStream()).ok());
  const std::vector<PoolBlock> blocks = weights_->Snapshot();
  ASSERT_EQ(blocks.front().address, p);
  EXPECT_FALSE(blocks.front().used);
  EXPECT_THAT(blocks.front().pending, ::testing::Contains(copier));
  device_->ReleaseCopies();
}

TEST_F(RegionsTest, AllocationsMayBeFreedAsleep) {
  Make();
  void* const p = Take(*weights_, 4 * kMiB);
  void* const q = Take(*weights_, 4 * kMiB);
  void* const r = Take(*weights_, 4 * kMiB);
  Fill(p, 4 * kMiB, 1);
  Fill(r, 4 * kMiB, 3);
  Pause("weights");
  EXPECT_TRUE(pool_->Free(q, stream_).ok());
  void* const all = Take(*cache_, 16 * kMiB);
  EXPECT_TRUE(cache_->Free(all, stream_).ok());
  Resume("weights");
  EXPECT_EQ(StatsOf(0).copied_in_bytes, 8 * kMiB);
  ExpectFilled(p, 4 * kMiB, 1);
  ExpectFilled(r, 4 * kMiB, 3);
  EXPECT_EQ(Take(*weights_, 4 * kMiB), q);
}

TEST_F(RegionsTest, ASleepingRegionRefusesRequests) {
  Make();
  Take(*weights_, kMiB);
  Pause("weights");
  const absl::Status refused = weights_->Allocate(kMiB, stream_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("resume it"));
  EXPECT_EQ(weights_->AllocateBlocking(kMiB, stream_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*weights_->Trim(), 0);
  Resume("weights");
  Take(*weights_, kMiB);
}

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

TEST_F(RegionsTest, ARegionStaysBelowItsMost) {
  Make();
  EXPECT_TRUE(weights_->Free(Take(*weights_, 2 * kMiB), stream_).ok());
  ASSERT_TRUE(pool_->LimitRegion("cache", 0, 4 * kMiB).ok());
  void* const p = Take(*cache_, 4 * kMiB);
  const absl::Status refused = cache_->Allocate(1, stream_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("of the 4.0 MiB (4194304 bytes) that it may hold (LimitRegion)"));
  EXPECT_EQ(weights_->Stats().reserved_bytes, 2 * kMiB) << "others keep unused memory";
  ASSERT_TRUE(pool_->LimitRegion("cache", 0, 5 * kMiB).ok());
  Take(*cache_, kMiB);
  EXPECT_TRUE(cache_->Free(p, stream_).ok());
  Take(*cache_, 3 * kMiB);
  Take(*weights_, 11 * kMiB);
}

TEST_F(RegionsTest, OthersLeaveRoomForTheLeastOfARegion) {
  Make();
  ASSERT_TRUE(pool_->LimitRegion("cache", 6 * kMiB, kNoLimit).ok());
  Take(*cache_, 2 * kMiB);
  Take(*weights_, 10 * kMiB);
  for (Pool* const pool : {weights_, pool_.get()}) {
    const absl::Status refused = pool->Allocate(kMiB, stream_).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("other regions keep room for 4.0 MiB"));
  }
  Take(*cache_, 4 * kMiB);
  // Asleep, it keeps no room, and it needs its least to wake.
  Pause("cache");
  void* const p = Take(*pool_, kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(pool_->ResumeRegion("cache", stream_)));
  EXPECT_TRUE(pool_->Free(p, stream_).ok());
  Resume("cache");
}

TEST_F(RegionsTest, UnusedMemoryOfTheLeastStays) {
  Make();
  ASSERT_TRUE(pool_->LimitRegion("cache", 4 * kMiB, kNoLimit).ok());
  EXPECT_TRUE(cache_->Free(Take(*cache_, 8 * kMiB), stream_).ok());
  Take(*weights_, 12 * kMiB);
  EXPECT_EQ(cache_->Stats().reserved_bytes, 4 * kMiB);
}

TEST_F(RegionsTest, UnusedMemoryMakesRoomForBounds) {
  Make();
  EXPECT_TRUE(weights_->Free(Take(*weights_, 12 * kMiB), stream_).ok());
  ASSERT_TRUE(pool_->LimitRegion("cache", 8 * kMiB, kNoLimit).ok());
  EXPECT_LE(weights_->Stats().reserved_bytes, 8 * kMiB);
  EXPECT_TRUE(cache_->Free(Take(*cache_, 8 * kMiB), stream_).ok());
  ASSERT_TRUE(pool_->LimitRegion("cache", 0, kMiB).ok());
  EXPECT_LE(cache_->Stats().reserved_bytes, kMiB);
  ExpectInvariants();
}

TEST_F(RegionsTest, BoundsMayLieBetweenPieces) {
  Make();
  EXPECT_TRUE(cache_->Free(Take(*cache_, 128 * kKiB), stream_).ok());  // two pieces
  const absl::Status limited = pool_->LimitRegion("cache", 100 * kKiB, 100 * kKiB);
  EXPECT_TRUE(limited.ok()) << limited;
  ExpectInvariants();
}

TEST_F(RegionsTest, UnusedMemoryMakesRoomForBoundsOfAFullRegion) {
  Make();
  ASSERT_TRUE(pool_->LimitRegion("weights", 0, kMiB).ok());
  Take(*weights_, kMiB);
  EXPECT_FALSE(weights_->Allocate(kMiB, stream_).ok());
  EXPECT_TRUE(pool_->Free(Take(*pool_, 15 * kMiB), stream_).ok());
  const absl::Status limited = pool_->LimitRegion("weights", 4 * kMiB, 8 * kMiB);
  EXPECT_TRUE(limited.ok()) << limited;
  ExpectInvariants();
}

TEST_F(RegionsTest, BoundsThatCannotBeAreRefused) {
  Make();
  Take(*weights_, 10 * kMiB);
  const auto expect = [&](std::int64_t least, std::int64_t most, absl::StatusCode code,
                          const char* text) {
    const absl::Status status = pool_->LimitRegion("weights", least, most);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  using enum absl::StatusCode;
  expect(-1, kMiB, kInvalidArgument, "0 <= least <= most");
  expect(2, 1, kInvalidArgument, "at least 2 and at most 1 bytes");
  expect(0, 9 * kMiB, kFailedPrecondition,
         "it holds 10.0 MiB (10485760 bytes), expected at most 9.0");
  expect(17 * kMiB, kNoLimit, kResourceExhausted, "raise max_bytes");
  EXPECT_TRUE(absl::IsNotFound(pool_->LimitRegion("kv", 0, 1)));
  EXPECT_TRUE(absl::IsResourceExhausted(pool_->LimitRegion("cache", 7 * kMiB, kNoLimit)));
  EXPECT_TRUE(absl::IsResourceExhausted(pool_->LimitRegion("cache", kNoLimit, kNoLimit)));
  EXPECT_TRUE(absl::IsInvalidArgument(weights_->LimitRegion("cache", 0, 1)));
  Take(*weights_, 6 * kMiB);
  Pause("weights");
  expect(0, kNoLimit, kFailedPrecondition, "resume it before you limit it");
}

TEST_F(RegionsTest, RegisteredMemoryStaysInPlace) {
  Make();
  auto* const memory = static_cast<std::byte*>(Take(*weights_, kMiB));
  void* const other = Take(*weights_, kMiB);
  const std::string address = absl::StrCat(
      "4.0 KiB (4096 bytes) at 0x", absl::Hex(reinterpret_cast<std::uintptr_t>(memory + 512)));
  ASSERT_TRUE(pool_->BeginRegistration(memory + 512, 4096).ok());
  ASSERT_TRUE(pool_->BeginRegistration(memory + 512, 4096).ok());
  ASSERT_TRUE(pool_->BeginRegistration(memory + 512, 8).ok());
  const std::int64_t calls = Calls(Call::kAllocatePinned);
  for (const PauseMode mode : {PauseMode::kHost, PauseMode::kDiscard}) {
    const absl::Status paused = pool_->PauseRegion("weights", mode, stream_);
    EXPECT_TRUE(absl::IsFailedPrecondition(paused)) << paused;
    EXPECT_THAT(std::string(paused.message()),
                AllOf(HasSubstr("region \"weights\" was not paused"), HasSubstr(address),
                      HasSubstr("end the registration")));
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(PauseInto(NewStore())));
  EXPECT_EQ(Calls(Call::kAllocatePinned), calls);
  for (Pool* const pool : {pool_.get(), weights_}) {
    const absl::Status freed = pool->Free(memory, stream_);
    EXPECT_TRUE(absl::IsFailedPrecondition(freed)) << freed;
    EXPECT_THAT(std::string(freed.message()),
                AllOf(HasSubstr("was not freed: "), HasSubstr(address)));
    EXPECT_TRUE(absl::IsFailedPrecondition(pool->FreeOwn(memory, stream_)));
  }
  EXPECT_TRUE(pool_->Free(other, stream_).ok());  // others are free to go
  Take(*weights_, kMiB);
  Pause("cache");
  for (const std::int64_t bytes : {4096, 8, 4096}) {
    EXPECT_FALSE(pool_->PauseRegion("weights", PauseMode::kHost, stream_).ok());
    EXPECT_TRUE(pool_->EndRegistration(memory + 512, bytes).ok());
  }
  EXPECT_TRUE(absl::IsInvalidArgument(pool_->EndRegistration(memory + 512, 4096)));
  Pause("weights");
  Resume("weights");
  EXPECT_TRUE(pool_->Free(memory, stream_).ok());
}

TEST_F(RegionsTest, RegistrationsOfOtherMemoryAreRefused) {
  Make();
  auto* const memory = static_cast<std::byte*>(Take(*weights_, kMiB));
  Take(*weights_, kMiB);
  void* const outside = Take(*pool_, kMiB);
  const auto refused = [&](const void* address, std::int64_t bytes) {
    return absl::IsInvalidArgument(pool_->BeginRegistration(address, bytes));
  };
  EXPECT_TRUE(refused(memory, kMiB + 1));      // of two allocations
  EXPECT_TRUE(refused(memory + 5 * kMiB, 1));  // never allocated
  EXPECT_TRUE(refused(memory, 0));
  EXPECT_TRUE(refused(memory, std::int64_t{1} << 62));
  int elsewhere = 0;
  EXPECT_TRUE(refused(&elsewhere, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(weights_->BeginRegistration(memory, 1)));  // asks its pool
  EXPECT_TRUE(absl::IsInvalidArgument(pool_->EndRegistration(&elsewhere, 1)));
  EXPECT_TRUE(pool_->BeginRegistration(outside, 1).ok());  // stays until it is freed
  EXPECT_TRUE(pool_->Free(outside, stream_).ok());
  ASSERT_TRUE(pool_->Free(memory, stream_).ok());
  EXPECT_TRUE(refused(memory, 1));
  Pause("weights");
  EXPECT_TRUE(absl::IsFailedPrecondition(pool_->BeginRegistration(memory + kMiB, 1)));
}

// The system reads the byte for a pipe, and refuses where the address has no memory.
bool MayBeRead(const void* address) {
  std::array<int, 2> ends = {};
  EXPECT_EQ(pipe(ends.data()), 0);
  const bool is_read = write(ends[1], address, 1) == 1;
  EXPECT_TRUE(is_read || errno == EFAULT);
  for (const int end : ends) close(end);
  return is_read;
}

// Work that touches sleeping memory finds the old bytes, and faults where another has the memory.
TEST_F(RegionsTest, SleepingMemoryNeverReachesThatOfOthers) {
  Make();
  auto* const memory = static_cast<std::byte*>(Take(*weights_, kMiB));
  Fill(memory, kMiB, 5);
  Pause("weights");
  ExpectFilled(memory, kMiB, 5);
  EXPECT_TRUE(MayBeRead(memory));
  void* const taken = Take(*pool_, 16 * kMiB);
  EXPECT_FALSE(MayBeRead(memory));
  EXPECT_FALSE(MayBeRead(memory + kMiB - 1));
  ASSERT_TRUE(pool_->Free(taken, stream_).ok());
  Resume("weights");
  ExpectFilled(memory, kMiB, 5);
  ASSERT_TRUE(pool_->Free(memory, stream_).ok());
}

TEST_F(RegionsTest, AnAddressIsDescribed) {
  Make();
  auto* const memory = static_cast<std::byte*>(Take(*weights_, kMiB));
  auto* const outside = static_cast<std::byte*>(Take(*pool_, 4 * kKiB));
  const auto hex = [](const void* address) {
    return absl::StrCat("0x", absl::Hex(reinterpret_cast<std::uintptr_t>(address)));
  };
  const auto inside = [&](const std::byte* address, int bytes) {
    return absl::StrCat("address ", hex(address + bytes), " is ", bytes,
                        " bytes inside an allocation of ");
  };
  EXPECT_EQ(pool_->Describe(outside + 128),
            absl::StrCat(inside(outside, 128), "4.0 KiB (4096 bytes) at ", hex(outside)));
  const std::string awake = absl::StrCat(inside(memory, 100), "1.0 MiB (1048576 bytes) at ",
                                         hex(memory), ", of region \"weights\"");
  EXPECT_EQ(pool_->Describe(memory + 100), awake);
  Pause("weights");
  EXPECT_EQ(pool_->Describe(memory + 100), awake + ", which sleeps: resume it before work uses it");
  EXPECT_EQ(weights_->Describe(memory + 100), pool_->Describe(memory + 100));
  EXPECT_THAT(pool_->Describe(memory + 9 * kMiB),
              HasSubstr("is in the pool and has no memory now, of region \"weights\", which"));
  Resume("weights");
  ASSERT_TRUE(pool_->Free(memory, stream_).ok());
  EXPECT_THAT(pool_->Describe(memory + 1), HasSubstr("is 1 byte inside free memory of"));
  int elsewhere = 0;
  EXPECT_EQ(pool_->Describe(&elsewhere),
            absl::StrCat("address ", hex(&elsewhere), " is not in this pool"));
}

TEST_F(RegionsTest, EmptyRegionsSleepToo) {
  Make();
  Pause("weights");
  Resume("weights");
  Take(*weights_, 16 * kMiB);
}

TEST_F(RegionsTest, ErrorsSayWhatToDo) {
  Make();
  const auto expect = [](const absl::Status& status, absl::StatusCode code, const char* text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  using enum absl::StatusCode;
  expect(pool_->Region("").status(), kInvalidArgument, "a tag of 0 bytes");
  expect(pool_->Region(std::string(256, 'x')).status(), kInvalidArgument, "1 to 255");
  expect(weights_->Region("inner").status(), kInvalidArgument, "is the region \"weights\"");
  expect(pool_->PauseRegion("kv", PauseMode::kHost, stream_), kNotFound, "weights, cache");
  expect(pool_->ResumeRegion("kv", stream_), kNotFound, "no region \"kv\"");
  const std::string nul("kv\0\n", 4);
  expect(pool_->ResumeRegion(nul, stream_), kNotFound, "no region \"kv\\x00\\n\"");
  const absl::Status longest = pool_->ResumeRegion(std::string(1'000'000, 'x'), stream_);
  expect(longest, kNotFound, "no region with a tag of 1000000 bytes");
  EXPECT_LT(longest.message().size(), 200);
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(pool_->Region(absl::StrCat("r", i)).ok());
  expect(pool_->ResumeRegion("kv", stream_), kNotFound, "r12, r13 or one of 1 more");
  expect(pool_->PauseRegion("weights", PauseMode::kHost, {12345}), kNotFound, "no stream");
  expect(pool_->ResumeRegion("weights", stream_), kFailedPrecondition, "pause it");
  Pause("weights");
  expect(pool_->PauseRegion("weights", PauseMode::kHost, stream_), kFailedPrecondition,
         "resume it");
  expect(pool_->ResumeRegion("weights", {12345}), kNotFound, "no stream");
  pool_.reset();
  const auto segments = NewPool({.max_bytes = 16 * kMiB, .memory = PoolMemory::kSegments});
  expect(segments->Region("weights").status(), kUnimplemented, "virtual memory");
}

// Page-locked memory that no copy used yet is freed for larger contents.
TEST_F(RegionsTest, APauseThatFailedBeforeItsFirstCopyCanBeRepeated) {
  Make();
  Take(*weights_, kMiB);
  device_->FailCall(Call::kCreateEvent, 1);
  EXPECT_TRUE(absl::IsUnavailable(pool_->PauseRegion("weights", PauseMode::kHost, stream_)));
  device_->FailCall(Call::kCreateEvent, 0);
  EXPECT_EQ(StatsOf(0).host_bytes, kMiB);
  Take(*weights_, kMiB);
  Pause("weights");
  Resume("weights");
}

TEST_F(RegionsTest, TheHostMayHaveNoMemoryForContents) {
  Make();
  void* const p = Take(*weights_, kMiB);
  Fill(p, kMiB, 9);
  device_->FailCall(Call::kAllocatePinned, 1);
  const absl::Status refused = pool_->PauseRegion("weights", PauseMode::kHost, stream_);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("discard"));
  EXPECT_FALSE(StatsOf(0).is_asleep);
  Take(*weights_, kMiB);
  ExpectFilled(p, kMiB, 9);
}

TEST_F(RegionsTest, TrimGivesTheMemoryOfSleepersToTheDevice) {
  Make();
  void* const p = Take(*weights_, 8 * kMiB);
  Fill(p, 8 * kMiB, 2);
  Pause("weights");
  EXPECT_EQ(*pool_->Trim(), 8 * kMiB);
  EXPECT_EQ(device_->used_bytes(), 0);
  EXPECT_EQ(StatsOf(0).host_bytes, 8 * kMiB);
  Resume("weights");
  ExpectFilled(p, 8 * kMiB, 2);
  ExpectInvariants();
  EXPECT_EQ(*pool_->Trim(), 0);
  EXPECT_EQ(StatsOf(0).host_bytes, 0);
}

// Each has the whole device for a budget, as processes that share it do.
TEST_F(RegionsTest, PoolsOfOneDeviceTakeTurns) {
  Make({.max_bytes = 64 * kMiB});
  void* const p = Take(*weights_, 48 * kMiB);
  Fill(p, 48 * kMiB, 2);
  Pause("weights");
  const auto other = NewPool({.max_bytes = 64 * kMiB});
  const absl::Status refused = other->Allocate(48 * kMiB, stream_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("within its budget but cannot grow"));
  EXPECT_EQ(*pool_->Trim(), 48 * kMiB);
  void* const q = Take(*other, 48 * kMiB);
  const absl::Status early = pool_->ResumeRegion("weights", stream_);
  EXPECT_EQ(early.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(early.message()), HasSubstr("\"weights\" sleeps on"));
  EXPECT_TRUE(other->Free(q, stream_).ok());
  EXPECT_EQ(*other->Trim(), 48 * kMiB);
  Resume("weights");
  ExpectFilled(p, 48 * kMiB, 2);
}

TEST_F(RegionsTest, APoolEndsWhileRegionsSleep) {
  Make();
  Take(*weights_, 8 * kMiB);
  Pause("weights");
  Take(*cache_, 12 * kMiB);
  ::testing::internal::CaptureStderr();
  pool_.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("8.0 MiB"));
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_F(RegionsTest, WaitersGetTheMemoryOfARegionThatPauses) {
  Make();
  Take(*weights_, 15 * kMiB);
  void* const kept = Take(*cache_, kMiB);  // without it a wait in the region would be hopeless
  void* served = nullptr;
  std::thread waiter([&] { served = cache_->AllocateBlocking(8 * kMiB, NewStream()).value(); });
  while (cache_->Stats().blocked == 0) std::this_thread::yield();
  Pause("weights", PauseMode::kDiscard);
  waiter.join();
  EXPECT_TRUE(cache_->Free(served, stream_).ok());
  EXPECT_TRUE(cache_->Free(kept, stream_).ok());
}

TEST_F(RegionsTest, InvariantsHoldWhileMemoryMoves) {
  Make();
  std::atomic<bool> has_ended = false;
  std::thread mover([&] {
    for (int i = 0; i < 100; ++i) {
      Pool& pool = i % 2 == 0 ? *weights_ : *cache_;
      EXPECT_TRUE(pool.Free(pool.Allocate(16 * kMiB, stream_).value(), stream_).ok());
    }
    has_ended = true;
  });
  do ExpectInvariants();
  while (!has_ended);
  mover.join();
}

TEST_F(RegionsTest, WaitersGetTheMemoryOfAHigherMost) {
  Make();
  ASSERT_TRUE(pool_->LimitRegion("weights", 0, kMiB).ok());
  void* const p = Take(*weights_, kMiB);
  void* served = nullptr;
  std::thread waiter([&] { served = weights_->AllocateBlocking(kMiB, NewStream()).value(); });
  while (weights_->Stats().blocked == 0) std::this_thread::yield();
  ASSERT_TRUE(pool_->LimitRegion("weights", 0, 2 * kMiB).ok());
  waiter.join();
  EXPECT_TRUE(weights_->Free(served, stream_).ok());
  EXPECT_TRUE(weights_->Free(p, stream_).ok());
}

TEST_F(RegionsTest, AWaiterOfARegionWaitsOnUntilItWakes) {
  Make();
  void* const p = Take(*weights_, 16 * kMiB);
  void* served = nullptr;
  std::thread waiter([&] { served = weights_->AllocateBlocking(kMiB, NewStream()).value(); });
  while (weights_->Stats().blocked == 0) std::this_thread::yield();
  Pause("weights", PauseMode::kDiscard);
  EXPECT_TRUE(weights_->Free(p, stream_).ok());
  EXPECT_EQ(weights_->Stats().live_count, 0);  // not served asleep
  Resume("weights");
  waiter.join();
  EXPECT_TRUE(weights_->Free(served, stream_).ok());
}

TEST_F(RegionsTest, OneRegionSharesWithAPlannedPool) {
  Make({.max_bytes = 16 * kMiB, .placement = "planned"});
  void* const p = Take(*weights_, 12 * kMiB);
  Fill(p, 12 * kMiB, 2);
  Pause("weights");
  for (int i = 0; i < 6; ++i) {
    void* const q = Take(*pool_, 10 * kMiB);
    EXPECT_TRUE(pool_->Free(q, stream_).ok());
    pool_->MarkIteration();
    pool_->AwaitPlans();
    ExpectInvariants();
  }
  Resume("weights");
  ExpectFilled(p, 12 * kMiB, 2);
}

// The budget is no multiple of the granule.
class RegionsInLargeGranulesTest : public RegionsTest {
 protected:
  RegionsInLargeGranulesTest()
      : RegionsTest({.memory_bytes = 64 * kMiB, .granularity = 2 * kMiB}) {}
};

TEST_F(RegionsInLargeGranulesTest, AllOfTheLastGranuleBelongsToTheRegion) {
  Make({.max_bytes = 7 * kMiB});
  const auto free = [&](void* address) { EXPECT_TRUE(pool_->Free(address, stream_).ok()); };
  void* const first = Take(*weights_, 2 * kMiB - 512);
  void* const small = Take(*weights_, 512);
  void* const hole = Take(*weights_, 2 * kMiB);
  void* const before_end = Take(*weights_, 512);
  free(first);
  free(hole);
  EXPECT_EQ(*weights_->Trim(), 2 * kMiB);
  void* const large = Take(*weights_, 3 * kMiB);  // reaches beyond the budget by the hole
  void* const last = Take(*weights_, kMiB / 2);
  EXPECT_EQ(weights_->OffsetOf(last), 7 * kMiB + 512);
  free(before_end);
  free(large);
  Fill(small, 512, 1);
  Fill(last, kMiB / 2, 2);
  Pause("weights");
  EXPECT_EQ(StatsOf(0).copied_out_bytes, kMiB / 2 + 512);
  free(Take(*cache_, 7 * kMiB));
  Resume("weights");
  ExpectFilled(small, 512, 1);
  ExpectFilled(last, kMiB / 2, 2);
  EXPECT_TRUE(pool_->AwaitContents(last, kMiB / 2, stream_).ok());
  free(small);
  free(last);
}

// The observer of a pool hears of its regions too.
class ObservedRegionsTest : public RegionsTest {
 protected:
  void TearDown() override {
    RegionsTest::TearDown();
    EXPECT_EQ(ranges_.ranges(), 0);
  }
  testing::RegionChecker books_{64 * kMiB};
  testing::RangeChecker ranges_;
};

TEST_F(ObservedRegionsTest, TellWhichRegionSleepsAndHow) {
  Make({.max_bytes = 16 * kMiB, .recorder = &books_});
  void* const p = Take(*weights_, 2 * kMiB);
  void* const q = Take(*pool_, kMiB);
  EXPECT_EQ(books_.BooksOf("weights").live.at(p), 2 * kMiB);
  EXPECT_EQ(books_.BooksOf("").live.at(q), kMiB);
  EXPECT_FALSE(weights_->Allocate(14 * kMiB, stream_).ok());
  EXPECT_EQ(books_.BooksOf("weights").failures, 1);
  Pause("weights");
  EXPECT_TRUE(books_.BooksOf("weights").is_asleep);
  EXPECT_EQ(books_.BooksOf("weights").last_mode, SleepMode::kHost);
  EXPECT_FALSE(weights_->Allocate(kMiB, stream_).ok());
  EXPECT_FALSE(pool_->PauseRegion("weights", PauseMode::kHost, stream_).ok());
  EXPECT_EQ(books_.BooksOf("weights").pauses, 1);
  Resume("weights");
  EXPECT_FALSE(books_.BooksOf("weights").is_asleep);
  Pause("weights", PauseMode::kDiscard);
  EXPECT_EQ(books_.BooksOf("weights").last_mode, SleepMode::kDiscard);
  EXPECT_TRUE(pool_->Free(p, stream_).ok());
  EXPECT_TRUE(books_.BooksOf("weights").live.empty());
  Resume("weights");
  EXPECT_TRUE(PauseInto(NewStore()).ok());
  EXPECT_EQ(books_.BooksOf("weights").last_mode, SleepMode::kStore);
  EXPECT_EQ(books_.BooksOf("cache").pauses, 0);
}

// A pause or a resume that fails is not told.
TEST_F(ObservedRegionsTest, TellNothingOfFailures) {
  Make({.max_bytes = 8 * kMiB, .recorder = &books_});
  Take(*weights_, 6 * kMiB);
  device_->FailCall(Call::kAllocatePinned, 1);
  EXPECT_FALSE(pool_->PauseRegion("weights", PauseMode::kHost, stream_).ok());
  EXPECT_EQ(books_.BooksOf("weights").pauses, 0);
  Pause("weights");
  Take(*cache_, 6 * kMiB);
  EXPECT_FALSE(pool_->ResumeRegion("weights", stream_).ok());
  EXPECT_TRUE(books_.BooksOf("weights").is_asleep);
}

TEST_F(ObservedRegionsTest, TellTheRangesOfRegions) {
  Make({.max_bytes = 16 * kMiB, .recorder = &ranges_});
  EXPECT_EQ(ranges_.ranges(), 3);
  Take(*weights_, kMiB);
  Take(*pool_, kMiB);
  ranges_.ExpectLive();
}

}  // namespace
}  // namespace tidepool
