// SPDX-License-Identifier: Apache-2.0
// AllocateBlocking with regions: a request waits for frees in any pool of the budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "lib/memory/pool/pool_impl.h"
#include "tests/memory/pool/hooked_device.h"
#include "tests/memory/pool/memory_store.h"
#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

class RegionsWaitTest : public PoolFixture {
 protected:
  static constexpr std::int64_t kBudget = 16 * kMiB;

  explicit RegionsWaitTest(std::int64_t budget = kBudget, std::int64_t granule = 64 * kKiB)
      : PoolFixture({.memory_bytes = 4 * kBudget, .granularity = granule}),
        pool_(NewPool({.max_bytes = budget})) {}

  void* Take(Pool& pool, std::int64_t bytes) {
    return pool.Allocate(static_cast<std::size_t>(bytes), stream_).value();
  }
  void Free(void* address) {
    const absl::Status status = pool_->Free(address, stream_);
    EXPECT_TRUE(status.ok()) << status;
  }
  absl::StatusOr<void*> Wait(Pool& pool, std::int64_t bytes) {
    return pool.AllocateBlocking(static_cast<std::size_t>(bytes), stream_);
  }
  // Frees the memory of a request after `use()`.
  void AskAndFree(Pool& pool, std::int64_t bytes, int priority, const std::function<void()>& use) {
    const absl::StatusOr<void*> served =
        pool.AllocateBlocking(static_cast<std::size_t>(bytes), stream_, Hint::kResident,
                              absl::InfiniteFuture(), {}, priority);
    ASSERT_TRUE(served.ok()) << served.status();
    use();
    Free(*served);
  }
  // Lets a stream's cache keep free blocks of the pool.
  void FillCaches() {
    const Stream other = NewStream();
    for (int i = 0; i < 4; ++i) {  // caches begin with the second stream
      for (const Stream stream : {stream_, other}) {
        void* const p = pool_->Allocate(kBudget, stream).value();
        ASSERT_TRUE(pool_->Free(p, stream).ok());
      }
    }
    std::vector<void*> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(Take(*pool_, 4 * kKiB));
    for (void* const block : blocks) Free(block);
  }
  // Returns when a request sleeps in a pool.
  static void AwaitSleeper(const Pool& pool) {
    while (pool.Stats().blocked == 0) std::this_thread::yield();
  }
  // Returns the requests of a region that sleep and were not alerted.
  static std::int64_t CountAsleep(const Pool& region) {
    return static_cast<const pool::PoolImpl&>(region).CountAsleep();
  }

  static std::int64_t CountLooks(const Pool& region) {
    return static_cast<const pool::PoolImpl&>(region).CountLooks();
  }

  // Makes a request on a thread of its own. Returns when it sleeps or has ended.
  void Ask(Pool& pool, std::int64_t bytes) {
    const std::int64_t slept = pool.Stats().blocked;
    asked_ = std::async(std::launch::async, [=, this, &pool] { return Wait(pool, bytes); });
    while (pool.Stats().blocked == slept && !HasEnded()) std::this_thread::yield();
  }
  bool HasEnded() const {
    return asked_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void FreeAsked() {
    const absl::StatusOr<void*> served = asked_.get();
    ASSERT_TRUE(served.ok()) << served.status();
    Free(*served);
  }
  absl::Status PauseWeights() {
    return pool_->PauseRegionInto("weights", std::make_unique<MemoryStore>(kMiB, store_), stream_);
  }
  absl::Status ResumeWeights() { return pool_->ResumeRegion("weights", stream_); }

  const Stream stream_ = NewStream();
  StoreFault store_;
  const std::unique_ptr<Pool> pool_;
  Pool* const weights_ = pool_->Region("weights").value();
  Pool* const cache_ = pool_->Region("cache").value();
  std::future<absl::StatusOr<void*>> asked_;
};

TEST_F(RegionsWaitTest, ARequestGetsMemoryThatAnotherPoolFrees) {
  for (const auto& [holding, waiting] :
       {std::pair{pool_.get(), cache_}, {weights_, cache_}, {weights_, pool_.get()}}) {
    void* const held = Take(*holding, kBudget);
    const std::int64_t slept = waiting->Stats().blocked;
    absl::StatusOr<void*> served = nullptr;
    std::thread waiter([&, pool = waiting] { served = Wait(*pool, kBudget / 2); });
    while (waiting->Stats().blocked == slept) std::this_thread::yield();
    Free(held);
    waiter.join();
    ASSERT_TRUE(served.ok()) << served.status();
    Free(*served);
  }
  EXPECT_TRUE(pool_->CheckInvariants().ok());
}

TEST_F(RegionsWaitTest, EachFreeThatLeavesRoomCounts) {
  const std::vector<void*> held = {Take(*pool_, 6 * kMiB), Take(*weights_, 6 * kMiB),
                                   Take(*cache_, 4 * kMiB)};
  absl::StatusOr<void*> served = nullptr;
  std::thread waiter([&] { served = Wait(*cache_, 12 * kMiB); });
  AwaitSleeper(*cache_);
  for (void* const address : held) Free(address);
  waiter.join();
  ASSERT_TRUE(served.ok()) << served.status();
  Free(*served);
}

TEST_F(RegionsWaitTest, ARequestThatNoFreeCanServeIsRefused) {
  ASSERT_TRUE(pool_->LimitRegion("weights", kBudget / 2, kBudget).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Wait(*cache_, kBudget).status()));
  void* const held = Take(*weights_, kMiB);
  absl::StatusOr<void*> served = nullptr;
  std::thread waiter([&] { served = Wait(*cache_, kBudget); });
  AwaitSleeper(*cache_);
  Free(held);  // the last live memory
  waiter.join();
  EXPECT_TRUE(absl::IsResourceExhausted(served.status())) << served.status();
}

TEST_F(RegionsWaitTest, RequestsThatNoFreeCanServeAreRefusedTogether) {
  ASSERT_TRUE(pool_->LimitRegion("weights", kBudget / 2, kBudget).ok());
  for (int i = 0; i < 100; ++i) {
    absl::Status refused;
    std::thread other([&] { refused = Wait(*pool_, kBudget).status(); });
    EXPECT_TRUE(absl::IsResourceExhausted(Wait(*cache_, kBudget).status()));
    other.join();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  }
}

// While a request of the region grows, it may look as if a free could come.
TEST_F(RegionsWaitTest, ARequestIsRefusedAfterAnotherOfItsRegionGrewInVain) {
  HookedDevice hooked(*device_);
  const auto pool = Pool::Create(&hooked, {.max_bytes = kBudget}).value();
  Pool* const cache = pool->Region("cache").value();
  ASSERT_TRUE(pool->Region("weights").ok());
  ASSERT_TRUE(pool->LimitRegion("weights", kBudget / 2, kBudget).ok());
  hooked.before_create = [&] {
    asked_ = std::async(std::launch::async, [&] { return Wait(*cache, kBudget); });
    while (CountLooks(*cache) == 0) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // it may see the growth
    device_->FailCall(HostDevice::Call::kCreatePhysical, 1);
  };
  EXPECT_TRUE(absl::IsUnavailable(cache->Allocate(kMiB, stream_).status()));
  while (!HasEnded() && CountAsleep(*cache) == 0) std::this_thread::yield();
  EXPECT_EQ(CountAsleep(*cache), 0) << "nothing is live, so no free comes";
  ASSERT_TRUE(pool->LimitRegion("weights", 0, kBudget).ok());  // would serve it
  EXPECT_TRUE(absl::IsResourceExhausted(asked_.get().status()));
}

TEST_F(RegionsWaitTest, ALowerLeastServesAWaiter) {
  ASSERT_TRUE(pool_->LimitRegion("weights", kBudget / 2, kBudget).ok());
  Free(Take(*weights_, kBudget / 2));  // the region keeps the memory
  void* const held = Take(*cache_, kMiB);
  absl::StatusOr<void*> served = nullptr;
  std::thread waiter([&] { served = Wait(*cache_, kBudget - kMiB); });
  AwaitSleeper(*cache_);
  ASSERT_TRUE(pool_->LimitRegion("weights", 0, kBudget).ok());
  waiter.join();
  ASSERT_TRUE(served.ok()) << served.status();
  for (void* const address : {held, *served}) Free(address);
}

TEST_F(RegionsWaitTest, ARequestAboveTheMostOfItsRegionDoesNotWaitForOthers) {
  ASSERT_TRUE(pool_->LimitRegion("cache", 0, kMiB).ok());
  void* const held = Take(*weights_, kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(Wait(*cache_, 2 * kMiB).status()));
  Free(held);
}

TEST_F(RegionsWaitTest, RequestsThatSleepDoNotWakeEachOther) {
  std::vector<void*> held;
  std::vector<std::future<absl::StatusOr<void*>>> asked;
  for (Pool* const region : {weights_, cache_}) {
    const std::string tag = region == weights_ ? "weights" : "cache";
    ASSERT_TRUE(pool_->LimitRegion(tag, 0, kMiB).ok());
    held.push_back(Take(*region, kMiB));
  }
  for (Pool* const region : {weights_, cache_}) {
    Ask(*region, kMiB);
    asked.push_back(std::move(asked_));
  }
  int times_awake = 0;
  for (int i = 0; i < 1000; ++i) {
    times_awake += CountAsleep(*weights_) + CountAsleep(*cache_) == 2 ? 0 : 1;
    std::this_thread::yield();
  }
  EXPECT_EQ(times_awake, 0);
  for (void* const address : held) Free(address);
  for (auto& each : asked) {
    asked_ = std::move(each);
    FreeAsked();
  }
}

// Requests of 4 MiB wait in a region, those of higher priority last.
class RegionsQueueTest : public RegionsWaitTest {
 protected:
  static constexpr int kWaiters = 6;

  void SetUp() override {
    other_ = Take(*weights_, 4 * kMiB);
    for (int i = 0; i < 4; ++i) {  // no two of them are neighbours
      small_.push_back(Take(*cache_, kMiB));
      kept_.push_back(Take(*cache_, kMiB / 4));
    }
    kept_.push_back(Take(*weights_, 7 * kMiB));
    for (int priority = 0; priority < kWaiters; ++priority) {
      waiting_.push_back(std::async(std::launch::async, [this, priority] {
        return cache_->AllocateBlocking(4 * kMiB, stream_, Hint::kResident, absl::InfiniteFuture(),
                                        {}, priority);
      }));
      AwaitSleepers(priority + 1);
    }
    looks_ = CountLooks(*cache_);
  }
  void TearDown() override {
    if (other_ != nullptr) Free(other_);
    for (void* const address : small_) Free(address);
    for (void* const address : kept_) Free(address);
    for (; !waiting_.empty(); waiting_.pop_back()) FreeLast();
    EXPECT_TRUE(pool_->CheckInvariants().ok());
  }
  // Frees the memory of the request of the highest priority, once it has some.
  void FreeLast() {
    const absl::StatusOr<void*> served = waiting_.back().get();
    ASSERT_TRUE(served.ok()) << served.status();
    Free(*served);
  }
  void AwaitSleepers(std::int64_t count) {
    while (cache_->Stats().blocked < count || CountAsleep(*cache_) != count) {
      std::this_thread::yield();
    }
  }
  std::int64_t NewLooks() const { return CountLooks(*cache_) - looks_; }

  void* other_ = nullptr;
  std::vector<void*> small_;
  std::vector<void*> kept_;
  std::vector<std::future<absl::StatusOr<void*>>> waiting_;
  std::int64_t looks_ = 0;
};

TEST_F(RegionsQueueTest, AFreeThatLeavesTooLittleRoomWakesNone) {
  for (int i = 0; i < 3; ++i) {
    Free(small_.back());
    small_.pop_back();
    EXPECT_EQ(CountAsleep(*cache_), kWaiters);
  }
  EXPECT_EQ(NewLooks(), 0);
}

TEST_F(RegionsQueueTest, AFreeWakesNoMoreThanItServes) {
  Free(std::exchange(other_, nullptr));
  const absl::StatusOr<void*> served = waiting_.back().get();
  ASSERT_TRUE(served.ok()) << served.status();
  kept_.push_back(*served);
  waiting_.pop_back();
  AwaitSleepers(kWaiters - 1);
  EXPECT_EQ(NewLooks(), 1);
}

TEST_F(RegionsQueueTest, AFreeWakesNoRequestOfARegionThatSleeps) {
  ASSERT_TRUE(pool_->PauseRegion("cache", PauseMode::kDiscard, stream_).ok());
  Free(std::exchange(other_, nullptr));
  ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kDiscard, stream_).ok());
  EXPECT_EQ(CountAsleep(*cache_), kWaiters);
  EXPECT_EQ(NewLooks(), 0);
  ASSERT_TRUE(pool_->ResumeRegion("weights", stream_).ok());
  ASSERT_TRUE(pool_->ResumeRegion("cache", stream_).ok());
}

// The bytes would do for a request, but the blocks do not.
TEST_F(RegionsQueueTest, SeveralSmallFreesWakeEachRequestOnce) {
  for (int i = 0; i < 4; ++i) {
    Free(small_.back());
    small_.pop_back();
  }
  AwaitSleepers(kWaiters);
  EXPECT_EQ(NewLooks(), kWaiters);
}

TEST_F(RegionsWaitTest, MemoryThatSleepsIsNoneToWaitFor) {
  void* const held = Take(*weights_, kMiB);
  ASSERT_TRUE(pool_->LimitRegion("cache", kBudget / 2, kBudget).ok());
  ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kHost, stream_).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Wait(*pool_, kBudget).status()));
  Free(held);
}

TEST_F(RegionsWaitTest, ARequestWaitsForTheEndOfAPause) {
  void* const held = Take(*weights_, kBudget);
  store_.during_next = [&] { Ask(*cache_, kBudget); };
  ASSERT_TRUE(PauseWeights().ok());
  FreeAsked();
  Free(held);
}

TEST_F(RegionsWaitTest, ARequestWaitsForTheEndOfAResume) {
  void* const held = Take(*weights_, kBudget);
  ASSERT_TRUE(PauseWeights().ok());
  Free(Take(*cache_, kBudget));
  store_.during_next = [&] { Ask(*cache_, kBudget); };
  ASSERT_TRUE(ResumeWeights().ok());
  EXPECT_FALSE(HasEnded());
  Free(held);
  FreeAsked();
}

TEST_F(RegionsWaitTest, ARequestWaitsForTheEndOfAPauseOfSeveral) {
  void* const weights = Take(*weights_, kBudget / 2);
  void* const cache = Take(*cache_, kBudget / 2);
  store_.during_next = [&] { Ask(*pool_, kBudget); };
  std::array pauses = {
      RegionPause{"cache", PauseMode::kHost, nullptr},
      RegionPause{"weights", PauseMode::kHost, std::make_unique<MemoryStore>(kMiB, store_)}};
  ASSERT_TRUE(pool_->PauseRegions(pauses, stream_).ok());
  FreeAsked();
  store_.during_next = [&] { Ask(*pool_, kBudget); };
  const std::array<std::string_view, 2> tags = {"cache", "weights"};
  ASSERT_TRUE(pool_->ResumeRegions(tags, stream_).ok());
  EXPECT_FALSE(HasEnded());
  Free(weights);
  Free(cache);
  FreeAsked();
}

// A request may look in the middle of a pause or a resume, and must look again at the end.
TEST_F(RegionsWaitTest, ARequestGetsMemoryThatWasFreedDuringAPauseThatFails) {
  void* const freed = Take(*weights_, kBudget / 2);
  void* const saved = Take(*weights_, kBudget / 4);
  void* const kept = Take(*pool_, kBudget / 4);
  Ask(*cache_, kBudget / 2);
  store_.call = 1;
  store_.during_next = [&] {
    Free(freed);
    while (CountAsleep(*cache_) == 0) std::this_thread::yield();
  };
  EXPECT_TRUE(absl::IsUnavailable(PauseWeights()));
  EXPECT_EQ(CountAsleep(*cache_), 0);
  Free(kept);
  FreeAsked();
  Free(saved);
}

TEST_F(RegionsWaitTest, ARequestGetsMemoryThatWasFreedDuringAResume) {
  void* const freed = Take(*weights_, kBudget / 2);
  void* const saved = Take(*weights_, kBudget / 4);
  void* const kept = Take(*pool_, kBudget / 4);
  ASSERT_TRUE(PauseWeights().ok());
  Free(Take(*cache_, kBudget / 4 * 3));
  store_.during_next = [&] {
    Ask(*cache_, kBudget / 2);
    Free(freed);
    while (CountAsleep(*cache_) == 0) std::this_thread::yield();
  };
  ASSERT_TRUE(ResumeWeights().ok());
  EXPECT_EQ(CountAsleep(*cache_), 0);
  Free(kept);
  FreeAsked();
  Free(saved);
}

TEST_F(RegionsWaitTest, ARequestGetsTheMemoryOfAResumeThatFails) {
  void* const saved = Take(*weights_, kBudget / 2);
  void* const kept = Take(*pool_, kBudget / 2);
  ASSERT_TRUE(PauseWeights().ok());
  Free(Take(*cache_, kBudget / 2));
  store_.call = 1;
  store_.during_next = [&] { Ask(*cache_, kBudget / 2); };
  EXPECT_TRUE(absl::IsUnavailable(ResumeWeights()));
  EXPECT_EQ(CountAsleep(*cache_), 0);
  Free(kept);
  FreeAsked();
  Free(saved);
}

// Blocks that a stream's cache keeps are given to the pool before a request of a region is refused
// or waits.
TEST_F(RegionsWaitTest, CachedMemoryOfThePoolServesARequest) {
  FillCaches();
  const absl::StatusOr<void*> served = cache_->Allocate(kBudget, stream_);
  ASSERT_TRUE(served.ok()) << served.status();
  Free(*served);
}

TEST_F(RegionsWaitTest, CachedMemoryOfThePoolServesAResumeAndBounds) {
  void* const held = Take(*weights_, kMiB);
  ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kDiscard, stream_).ok());
  FillCaches();
  EXPECT_TRUE(ResumeWeights().ok());
  Free(held);
  FillCaches();
  EXPECT_TRUE(pool_->LimitRegion("cache", kBudget, kBudget).ok());
}

TEST_F(RegionsWaitTest, CachedMemoryOfThePoolServesAWaiter) {
  FillCaches();
  void* const kept = Take(*weights_, kMiB);
  absl::StatusOr<void*> served = nullptr;
  std::thread waiter([&] { served = Wait(*cache_, kBudget); });
  AwaitSleeper(*cache_);
  Free(kept);
  waiter.join();
  ASSERT_TRUE(served.ok()) << served.status();
  Free(*served);
}

TEST_F(RegionsWaitTest, PrioritiesCountInAllPoolsTogether) {
  Pool* const other = pool_->Region("other").value();
  for (int round = 0; round < 50; ++round) {
    void* const held = Take(*weights_, kBudget);
    std::vector<int> served;
    const auto ask = [&](Pool& pool, int priority) {  // one is served at a time
      AskAndFree(pool, kBudget, priority, [&] { served.push_back(priority); });
    };
    std::vector<std::thread> threads;
    for (const auto& [pool, priority] :
         {std::pair{other, 0}, {weights_, 1}, {cache_, 2}, {pool_.get(), 3}}) {
      const std::int64_t slept = pool->Stats().blocked;
      threads.emplace_back(ask, std::ref(*pool), priority);
      while (pool->Stats().blocked == slept) std::this_thread::yield();
    }
    Free(held);
    for (std::thread& thread : threads) thread.join();
    // The request of the region that frees is served from its own memory.
    ASSERT_THAT(served, ::testing::ElementsAre(1, 3, 2, 0));
  }
}

TEST_F(RegionsWaitTest, AHigherRequestThatIsRefusedLeavesRoomToOthers) {
  ASSERT_TRUE(pool_->LimitRegion("weights", kBudget / 2, kBudget).ok());
  Pool* const other = pool_->Region("other").value();
  for (int round = 0; round < 50; ++round) {
    void* const held = Take(*pool_, kBudget / 2);
    absl::Status refused;
    std::thread higher([&] {
      refused =
          cache_->AllocateBlocking(kBudget, stream_, Hint::kResident, absl::InfiniteFuture(), {}, 1)
              .status();
    });
    while (CountAsleep(*cache_) == 0) std::this_thread::yield();
    Ask(*other, kBudget / 2);
    Free(held);
    FreeAsked();
    higher.join();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  }
}

// Each thread holds at most one block while it waits, so all come to an end unless a call is lost.
TEST_F(RegionsWaitTest, NoWaiterMissesAFree) {
  const std::array<Pool*, 3> pools = {pool_.get(), weights_, cache_};
  std::vector<std::thread> threads;
  std::atomic<int> served = 0;
  for (unsigned seed = 0; seed < 6; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      const Stream stream = NewStream();
      for (int i = 0; i < 40; ++i) {
        Pool& pool = *pools[random() % pools.size()];
        const std::size_t bytes = kMiB + random() % (kBudget - kMiB);
        const absl::StatusOr<void*> p =
            pool.AllocateBlocking(bytes, stream, Hint::kResident, absl::InfiniteFuture(), {},
                                  static_cast<int>(random() % 3));
        ASSERT_TRUE(p.ok()) << p.status();
        ++served;
        if (random() % 2 == 0) std::this_thread::yield();
        ASSERT_TRUE(pool_->Free(*p, stream).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 240);
  EXPECT_TRUE(pool_->CheckInvariants().ok());
}

// Likewise while regions sleep and wake: those that wait in them are alerted then.
TEST_F(RegionsWaitTest, NoWaiterMissesAPauseOrAResume) {
  const std::array<Pool*, 3> pools = {pool_.get(), weights_, cache_};
  std::vector<std::thread> threads;
  std::atomic<int> running = 6;
  for (unsigned seed = 0; seed < 6; ++seed) {
    threads.emplace_back([&, seed] {
      const absl::Cleanup ends = [&running] { --running; };
      std::mt19937 random(seed);
      const Stream stream = NewStream();
      for (int served = 0; served < 40;) {
        Pool& pool = *pools[random() % pools.size()];
        const std::size_t bytes = kMiB + random() % (kBudget - kMiB);
        const absl::StatusOr<void*> p =
            pool.AllocateBlocking(bytes, stream, Hint::kResident, absl::InfiniteFuture(), {},
                                  static_cast<int>(random() % 3));
        if (absl::IsFailedPrecondition(p.status())) continue;  // the region sleeps
        ASSERT_TRUE(p.ok()) << p.status();
        ++served;
        if (random() % 2 == 0) std::this_thread::yield();
        ASSERT_TRUE(pool_->Free(*p, stream).ok());
      }
    });
  }
  for (int i = 0; running > 0; ++i) {
    const char* const tag = i % 2 == 0 ? "weights" : "cache";
    ASSERT_TRUE(pool_->PauseRegion(tag, PauseMode::kDiscard, stream_).ok());
    std::this_thread::yield();
    absl::Status resumed;
    do resumed = pool_->ResumeRegion(tag, stream_);
    while (absl::IsResourceExhausted(resumed));  // others hold its memory for a moment
    ASSERT_TRUE(resumed.ok()) << resumed;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(pool_->CheckInvariants().ok());
}

// The budget is no multiple of the granule: all of the last granule serves regions.
class RegionsWaitInLargeGranulesTest : public RegionsWaitTest {
 protected:
  RegionsWaitInLargeGranulesTest() : RegionsWaitTest(7 * kMiB, 2 * kMiB) {}
};

TEST_F(RegionsWaitInLargeGranulesTest, AFreeThatLeavesRoomInTheLastGranuleCounts) {
  void* const kept = Take(*weights_, 6 * kMiB);
  void* const freed = Take(*pool_, 2 * kMiB);
  absl::StatusOr<void*> served = nullptr;
  std::thread waiter([&] { served = Wait(*cache_, 2 * kMiB); });
  AwaitSleeper(*cache_);
  Free(freed);
  EXPECT_EQ(CountAsleep(*cache_), 0);
  Free(kept);
  waiter.join();
  ASSERT_TRUE(served.ok()) << served.status();
  Free(*served);
}

}  // namespace
}  // namespace tidepool
