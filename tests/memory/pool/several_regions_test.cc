// SPDX-License-Identifier: Apache-2.0
// Pauses and resumes of several regions by one call: all of them or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <latch>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/memory/pool/gate.h"
#include "tests/memory/pool/memory_store.h"
#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/rounds.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SeveralRegionsTest : public PoolFixture {
 protected:
  using Tags = std::vector<std::string_view>;

  static constexpr std::int64_t kBudget = 4 * kMiB;
  static constexpr std::int64_t kRegionBytes = kMiB;
  static constexpr std::array kTags = {"a", "b", "c"};

  SeveralRegionsTest() : PoolFixture({.memory_bytes = 4 * kBudget}) {
    for (std::size_t i = 0; i < kTags.size(); ++i) {
      const absl::StatusOr<void*> p = (*pool_->Region(kTags[i]))->Allocate(kRegionBytes, stream_);
      memory_[i] = p.value();
      Fill(i, static_cast<int>(i) + 1);
    }
  }
  void TearDown() override {
    for (void* const p : memory_) ASSERT_TRUE(pool_->Free(p, stream_).ok());
  }

  void Fill(std::size_t region, int value) {
    values_[region] = value;
    const auto byte = static_cast<std::uint8_t>(value);
    ASSERT_TRUE(device_->Fill(memory_[region], byte, kRegionBytes, stream_).ok());
  }
  void ExpectContents(std::size_t region) {
    ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
    const std::string expected(kRegionBytes, static_cast<char>(values_[region]));
    EXPECT_EQ(std::memcmp(memory_[region], expected.data(), expected.size()), 0) << kTags[region];
  }
  void ExpectAwakeWithContents() {
    for (std::size_t i = 0; i < kTags.size(); ++i) {
      EXPECT_FALSE(StatsOf(i).is_asleep) << kTags[i];
      EXPECT_EQ(StatsOf(i).kept_bytes, 0) << kTags[i];
      ExpectContents(i);
    }
    ExpectInvariants();
  }
  // In the order of the tags: to page-locked memory, to a store, and lost.
  std::vector<RegionPause> ByAllWays() {
    std::vector<RegionPause> pauses(3);
    for (std::size_t i = 0; i < pauses.size(); ++i) pauses[i].tag = kTags[i];
    pauses[1].store = std::make_unique<MemoryStore>(kMiB / 4, store_fault_);
    pauses[2].mode = PauseMode::kDiscard;
    return pauses;
  }
  absl::Status PauseAllWays() {
    std::vector<RegionPause> pauses = ByAllWays();
    return pool_->PauseRegions(pauses, stream_);
  }
  absl::Status Pause(const Tags& tags, Stream stream) {
    std::vector<RegionPause> pauses(tags.size());
    for (std::size_t i = 0; i < tags.size(); ++i) pauses[i].tag = tags[i];
    return pool_->PauseRegions(pauses, stream);
  }
  absl::Status Pause(const Tags& tags) { return Pause(tags, stream_); }
  absl::Status Resume(const Tags& tags) { return pool_->ResumeRegions(tags, stream_); }
  // Takes all memory that the regions do not have, and frees it.
  void UseTheRest(std::int64_t bytes) {
    void* const p = pool_->Allocate(static_cast<std::size_t>(bytes), stream_).value();
    ASSERT_TRUE(device_->Fill(p, 0xee, bytes, stream_).ok());
    ASSERT_TRUE(pool_->Free(p, stream_).ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  }
  void ExpectInvariants() {
    const absl::Status status = pool_->CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
  }
  RegionStats StatsOf(std::size_t region) { return pool_->RegionStatistics().at(region); }
  // Returns the calls of the device that move or copy memory.
  std::int64_t CallsForMemory() {
    std::int64_t calls = 0;
    for (const Call call : {Call::kMap, Call::kUnmap, Call::kCreatePhysical, Call::kReleasePhysical,
                            Call::kCopy, Call::kAllocatePinned}) {
      calls += device_->CountCalls(call);
    }
    return calls;
  }
  // Fails the n-th call of each kind in `run` until that makes fewer calls, and checks the error.
  template <typename Run, typename Check>
  void FailEachCall(Run run, Check check) {
    for (const Call call :
         {Call::kCreateEvent, Call::kRecordEvent, Call::kWaitEvent, Call::kSynchronizeEvent,
          Call::kCopy, Call::kAllocatePinned, Call::kCreatePhysical, Call::kMap, Call::kUnmap}) {
      for (std::int64_t n = 1;; ++n) {
        SCOPED_TRACE(::testing::Message() << "call " << static_cast<int>(call) << ", " << n);
        const std::int64_t before = device_->CountCalls(call);
        device_->FailCall(call, n);
        const absl::Status status = run();
        device_->FailCall(call, 0);
        const bool was_made = device_->CountCalls(call) - before >= n;
        check(status, was_made);
        if (HasFailure() || !was_made) break;
      }
    }
  }

  const Tags all_ = {kTags.begin(), kTags.end()};
  const Stream stream_ = NewStream();
  StoreFault store_fault_;
  std::unique_ptr<Pool> pool_ = NewPool({.max_bytes = kBudget});
  std::array<void*, 3> memory_ = {};
  std::array<int, 3> values_ = {};
};

TEST_F(SeveralRegionsTest, SleepAndWakeTogether) {
  ASSERT_TRUE(PauseAllWays().ok());
  for (std::size_t i = 0; i < kTags.size(); ++i) {
    EXPECT_TRUE(StatsOf(i).is_asleep);
    EXPECT_EQ(StatsOf(i).kept_bytes, i == 2 ? 0 : kRegionBytes);
    EXPECT_EQ(StatsOf(i).stored_bytes, i == 1 ? kRegionBytes : 0);
    EXPECT_EQ(StatsOf(i).copied_out_bytes, i == 2 ? 0 : kRegionBytes);
  }
  UseTheRest(kBudget);
  ASSERT_TRUE(Resume({"c", "a", "b"}).ok());
  Fill(2, 7);
  ExpectAwakeWithContents();
  for (std::size_t i = 0; i < kTags.size(); ++i) {
    EXPECT_EQ(StatsOf(i).pauses, 1);
    EXPECT_EQ(StatsOf(i).resumes, 1);
  }
}

TEST_F(SeveralRegionsTest, AnEmptyListChangesNothing) {
  EXPECT_TRUE(Pause({}).ok());
  EXPECT_TRUE(Resume({}).ok());
  ExpectAwakeWithContents();
}

// The last of the list is the reason, and the first ones have not changed.
TEST_F(SeveralRegionsTest, AreAskedBeforeTheFirstSleeps) {
  const auto ask = [&] {  // whether the first one takes requests
    EXPECT_TRUE(pool_->Free((*pool_->Region("a"))->Allocate(1, stream_).value(), stream_).ok());
  };
  ask();  // takes the memory for the others
  const std::int64_t calls = CallsForMemory();
  const auto expect_error = [&](const absl::Status& status, absl::StatusCode code,
                                const auto& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), text);
    EXPECT_EQ(StatsOf(0).pauses, 0);
    EXPECT_FALSE(StatsOf(0).is_asleep);
    ask();
  };
  constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
  expect_error(Pause({"a", "x"}), absl::StatusCode::kNotFound, HasSubstr("no region \"x\""));
  expect_error(Pause({"a", "b", "a"}), absl::StatusCode::kInvalidArgument,
               HasSubstr("region \"a\" is in the list twice, expected each tag once"));
  expect_error(Pause({"a", "b"}, Stream{12345}), absl::StatusCode::kNotFound,
               HasSubstr("no stream with id 12345"));
  std::vector<RegionPause> pauses = ByAllWays();
  pauses[2] = {"c", PauseMode::kHost, std::make_unique<MemoryStore>(0, store_fault_)};
  expect_error(pool_->PauseRegions(pauses, stream_), absl::StatusCode::kInvalidArgument,
               HasSubstr("blocks of 0 bytes"));
  ASSERT_TRUE(pool_->BeginRegistration(memory_[2], 10).ok());
  expect_error(PauseAllWays(), kFailedPrecondition,
               AllOf(HasSubstr("regions \"a\", \"b\", \"c\" were not paused: 10 bytes"),
                     HasSubstr("of region \"c\" are registered by others")));
  ASSERT_TRUE(pool_->EndRegistration(memory_[2], 10).ok());
  EXPECT_EQ(CallsForMemory(), calls);
  ASSERT_TRUE(Pause({"c"}).ok());
  expect_error(Pause(all_), kFailedPrecondition, HasSubstr("region \"c\" sleeps already"));
  ASSERT_TRUE(Resume({"c"}).ok());
  ExpectAwakeWithContents();
}

TEST_F(SeveralRegionsTest, AreAskedBeforeTheFirstWakes) {
  ASSERT_TRUE(Pause({"a", "b"}).ok());
  const std::int64_t calls = CallsForMemory();
  EXPECT_TRUE(absl::IsNotFound(Resume({"a", "x"})));
  EXPECT_TRUE(absl::IsInvalidArgument(Resume({"a", "b", "b"})));
  const absl::Status awake = Resume(all_);
  EXPECT_TRUE(absl::IsFailedPrecondition(awake)) << awake;
  EXPECT_THAT(std::string(awake.message()), HasSubstr("region \"c\" does not sleep"));
  EXPECT_EQ(CallsForMemory(), calls);
  EXPECT_TRUE(StatsOf(0).is_asleep && StatsOf(1).is_asleep);
  ASSERT_TRUE(Resume({"a", "b"}).ok());
  ExpectAwakeWithContents();
}

// Each of them would fit alone.
TEST_F(SeveralRegionsTest, MustFitTogether) {
  ASSERT_TRUE(Pause(all_).ok());
  void* const other = pool_->Allocate(kBudget, stream_).value();
  ASSERT_TRUE(pool_->Free(other, stream_).ok());
  void* const held = pool_->Allocate(kBudget - 2 * kRegionBytes, stream_).value();
  ASSERT_TRUE(pool_->Trim().ok());
  const std::int64_t calls = CallsForMemory();
  const absl::Status status = Resume(all_);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("regions \"a\", \"b\", \"c\" sleep on: 3.0 MiB (3145728 bytes) more of "
                        "the device's memory are needed"));
  EXPECT_EQ(CallsForMemory(), calls);
  ExpectInvariants();
  ASSERT_TRUE(Resume({"b", "c"}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Resume({"a"})));
  ASSERT_TRUE(pool_->Free(held, stream_).ok());
  ASSERT_TRUE(Resume({"a"}).ok());
  ExpectAwakeWithContents();
}

// Memory that other pools do not use serves all of them, where it serves the last one last.
TEST_F(SeveralRegionsTest, TakeUnusedMemoryOfOthers) {
  ASSERT_TRUE(Pause(all_).ok());
  UseTheRest(kBudget);
  ASSERT_TRUE(Resume(all_).ok());
  ExpectAwakeWithContents();
}

TEST_F(SeveralRegionsTest, NeedTheirLeastTogether) {
  for (const char* const tag : {"a", "b"}) {
    ASSERT_TRUE(pool_->LimitRegion(tag, kMiB / 4 * 5, kBudget).ok());
  }
  ASSERT_TRUE(Pause({"a", "b"}).ok());
  // Beside region "c" there is room for both, but not for both with their least.
  void* const held = pool_->Allocate(kMiB / 4 * 3, stream_).value();
  const absl::Status status = Resume({"a", "b"});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  ExpectInvariants();
  ASSERT_TRUE(pool_->Free(held, stream_).ok());
  ASSERT_TRUE(Resume({"a", "b"}).ok());
  ExpectAwakeWithContents();
  for (const char* const tag : {"a", "b"}) {
    ASSERT_TRUE(pool_->LimitRegion(tag, 0, std::numeric_limits<std::int64_t>::max()).ok());
  }
}

// What a pause would lose is there too when another region could not be kept.
TEST_F(SeveralRegionsTest, StayAwakeWhereOneCannotSleep) {
  const auto run = [&] { return PauseAllWays(); };
  FailEachCall(run, [&](const absl::Status& status, bool was_made) {
    EXPECT_TRUE(status.ok() ? !was_made || StatsOf(0).is_asleep : absl::IsUnavailable(status))
        << status;
    if (!status.ok()) return ExpectAwakeWithContents();
    UseTheRest(kBudget);
    ASSERT_TRUE(Resume(all_).ok());
    Fill(2, values_[2] + 1);
    ExpectAwakeWithContents();
    ASSERT_TRUE(pool_->Trim().ok());  // the next pause page-locks memory again
  });
  for (store_fault_.call = 1;; ++store_fault_.call) {
    const std::int64_t call = store_fault_.call;
    const absl::Status status = PauseAllWays();
    const bool was_made = store_fault_.call == 0;
    EXPECT_EQ(status.ok(), !was_made) << status;
    if (status.ok()) break;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("were not paused: region \"b\": the store fails"));
    ExpectAwakeWithContents();
    store_fault_.call = call;
  }
  store_fault_.call = 0;
  ASSERT_TRUE(Resume(all_).ok());
}

TEST_F(SeveralRegionsTest, SleepOnWhereOneCannotWake) {
  const auto pause = [&] {
    ASSERT_TRUE(PauseAllWays().ok());
    UseTheRest(kBudget);
  };
  pause();
  const auto run = [&] { return Resume(all_); };
  FailEachCall(run, [&](const absl::Status& status, bool) {
    ExpectInvariants();
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      for (std::size_t i = 0; i < kTags.size(); ++i) EXPECT_TRUE(StatsOf(i).is_asleep);
      return UseTheRest(kBudget);
    }
    Fill(2, values_[2] + 1);
    ExpectAwakeWithContents();
    pause();
  });
  store_fault_.call = 3;
  const absl::Status status = Resume(all_);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("sleep on: region \"b\": the store fails"),
                    HasSubstr("discard them (DiscardContents)")));
  ASSERT_TRUE(Resume(all_).ok());
  Fill(2, 9);
  ExpectAwakeWithContents();
}

// The memory of one has no room between that of others.
TEST_F(SeveralRegionsTest, GiveARequestTheMemoryOfAll) {
  ASSERT_TRUE(Pause({"a", "c"}).ok());
  void* const p = pool_->Allocate(kBudget - kRegionBytes, stream_).value();
  ExpectContents(1);
  ASSERT_TRUE(pool_->Free(p, stream_).ok());
  ASSERT_TRUE(Resume({"a", "c"}).ok());
  ExpectAwakeWithContents();
}

// Others wait for the copies of all of them.
TEST_F(SeveralRegionsTest, LendTheirMemoryAfterTheCopiesOfAll) {
  Gate gate;
  gate.Close(*device_, stream_);
  ASSERT_TRUE(Pause(all_).ok());
  const Stream other = NewStream();
  const std::int64_t waits = device_->CountCalls(Call::kSynchronizeEvent);
  std::atomic<bool> is_served = false;
  std::thread opener([&] {
    while (device_->CountCalls(Call::kSynchronizeEvent) == waits && !is_served) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(is_served);
    gate.Open();
  });
  void* const p = pool_->Allocate(kBudget, other).value();
  is_served = true;
  opener.join();
  ASSERT_TRUE(device_->Fill(p, 0xee, kBudget, other).ok());
  ASSERT_TRUE(device_->SynchronizeStream(other).ok());
  ASSERT_TRUE(pool_->Free(p, other).ok());
  ASSERT_TRUE(Resume(all_).ok());
  ExpectAwakeWithContents();
}

// Two threads name the same regions in different orders. The one that paused all finds all asleep.
// Locks in the order of the list would be a deadlock now and then; ThreadSanitizer always tells.
TEST_F(SeveralRegionsTest, BelongToOneThreadAtATime) {
  std::latch both_lock(2);
  std::latch both_pause(2);
  const auto use = [&](const Tags& tags, std::int64_t& pauses) {
    const Stream stream = NewStream();
    both_lock.arrive_and_wait();
    bool are_awake = true;
    for (int i = testing::Rounds(60000); i > 0; --i) {  // calls that do little but lock
      are_awake &= absl::IsFailedPrecondition(pool_->ResumeRegions(tags, stream));
    }
    EXPECT_TRUE(are_awake);
    both_pause.arrive_and_wait();
    for (int i = testing::Rounds(1500); i > 0; --i) {
      const absl::Status paused = Pause(tags, stream);
      if (!paused.ok()) {
        ASSERT_TRUE(absl::IsFailedPrecondition(paused)) << paused;
        continue;
      }
      ++pauses;
      const absl::Status resumed = pool_->ResumeRegions(tags, stream);
      ASSERT_TRUE(resumed.ok()) << resumed;
    }
  };
  std::array<std::int64_t, 2> pauses = {};
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  std::thread other([&] { use({"c", "b", "a"}, pauses[1]); });
  use({"a", "b", "c"}, pauses[0]);
  other.join();
  for (std::size_t i = 0; i < kTags.size(); ++i) {
    EXPECT_EQ(StatsOf(i).pauses, pauses[0] + pauses[1]);
    EXPECT_EQ(StatsOf(i).resumes, pauses[0] + pauses[1]);
  }
  ExpectAwakeWithContents();
}

}  // namespace
}  // namespace tidepool
