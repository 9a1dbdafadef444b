// SPDX-License-Identifier: Apache-2.0
// While a thread pins, unpins or touches memory, calls that need nothing of that go on. Memory that
// the device or the system refuses to give or take is not lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/memory/pinned/create_pools.h"
#include "tests/memory/pinned/model_device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"

namespace tidepool {
namespace {

using testing::kKiB;
using testing::kMiB;
using Call = HostDevice::Call;

// A point where a thread stops until it may go on.
class Barrier {
 public:
  // Makes `call` on a thread of its own, and returns when that thread has stopped here.
  template <typename Made>
  auto Stop(Made call) {
    is_set_ = true;
    auto result = std::async(std::launch::async, call);
    has_come_.wait();
    return result;
  }
  void Pass() {
    if (!is_set_.exchange(false)) return;
    has_come_.count_down();
    may_go_.wait();
  }
  void Open() { may_go_.count_down(); }

 private:
  std::atomic<bool> is_set_ = false;
  std::latch has_come_{1};
  std::latch may_go_{1};
};

// Runs before this process asks the system for pages or gives them back. A result other than 0 is
// the error number that the call fails with.
std::atomic<int (*)(int advice)> before_madvise = nullptr;

class SlowDevice : public testing::ForwardingDevice {
 public:
  explicit SlowDevice(HostDevice& host) : ForwardingDevice(host) {}

  absl::Status RegisterHostMemory(void* address, std::int64_t bytes) override {
    barrier.Pass();
    if (is_full) return absl::ResourceExhaustedError("no more can be pinned");
    return ForwardingDevice::RegisterHostMemory(address, bytes);
  }
  absl::Status UnregisterHostMemory(void* address) override {
    barrier.Pass();
    return ForwardingDevice::UnregisterHostMemory(address);
  }

  Barrier barrier;
  std::atomic<bool> is_full = false;
};

class PinnedInterferenceTest : public ::testing::Test {
 protected:
  void Make(std::int64_t initial_bytes, bool may_grow) {
    pool_ = *pinned::CreatePinnedPool(
        &device_, {.max_bytes = kMiB, .initial_bytes = initial_bytes, .may_grow = may_grow},
        {.growth_bytes = 0});
  }
  void* Take(std::int64_t bytes) { return pool_->Allocate(bytes).value(); }
  void Free(void* address) { EXPECT_TRUE(pool_->Free(address).ok()); }

  void ExpectThatOthersReturn(void* live) {
    EXPECT_EQ(pool_->Stats().live_count, 1);
    Free(live);
    void* const again = Take(64 * kKiB);
    Free(pool_->AllocateBlocking(64 * kKiB).value());
    Free(again);
  }
  void ExpectThatAllIsThere() {
    EXPECT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
    EXPECT_TRUE(pool_->Trim().ok());
    EXPECT_EQ(pool_->Stats().reserved_bytes, 0);
    EXPECT_TRUE(pool_->Reserve(kMiB).ok());
    Free(Take(kMiB));
  }

  std::unique_ptr<HostDevice> host_ = *HostDevice::Create({.memory_bytes = kMiB});
  SlowDevice device_{*host_};
  std::unique_ptr<PinnedPool> pool_;
};

TEST_F(PinnedInterferenceTest, AReserveHoldsUpNoOtherCall) {
  Make(256 * kKiB, false);
  void* const live = Take(64 * kKiB);
  auto reserve = device_.barrier.Stop([&] { return pool_->Reserve(512 * kKiB); });
  ExpectThatOthersReturn(live);
  EXPECT_EQ(pool_->Stats().reserved_bytes, 256 * kKiB);
  device_.barrier.Open();
  EXPECT_TRUE(reserve.get().ok());
  EXPECT_EQ(pool_->Stats().reserved_bytes, 512 * kKiB);
  ExpectThatAllIsThere();
}

TEST_F(PinnedInterferenceTest, ATrimHoldsUpNoOtherCall) {
  Make(256 * kKiB, false);
  ASSERT_TRUE(pool_->Reserve(512 * kKiB).ok());
  void* const live = Take(64 * kKiB);
  auto trim = device_.barrier.Stop([&] { return pool_->Trim(); });
  ExpectThatOthersReturn(live);
  device_.barrier.Open();
  EXPECT_TRUE(trim.get().ok());
  ExpectThatAllIsThere();
}

// Memory may still come, so a waiter sleeps until its deadline or until the call has pinned it.
TEST_F(PinnedInterferenceTest, AReserveHoldsUpNoAllocationThatMayNotGrow) {
  Make(256 * kKiB, false);
  void* const live = Take(64 * kKiB);
  auto reserve = device_.barrier.Stop([&] { return pool_->Reserve(512 * kKiB); });
  const absl::Status refused = pool_->Allocate(256 * kKiB).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("set may_grow"));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(pool_->AllocateBlocking(256 * kKiB, absl::InfinitePast()).status()));
  auto waits = std::async(std::launch::async, [&] { return pool_->AllocateBlocking(256 * kKiB); });
  while (pool_->Stats().blocked < 2) std::this_thread::yield();
  device_.barrier.Open();
  EXPECT_TRUE(reserve.get().ok());
  Free(waits.get().value());
  Free(live);
  ExpectThatAllIsThere();
}

TEST_F(PinnedInterferenceTest, ATrimHoldsUpNoAllocationThatMayNotGrow) {
  Make(256 * kKiB, false);
  ASSERT_TRUE(pool_->Reserve(512 * kKiB).ok());
  void* const live = Take(64 * kKiB);
  auto trim = device_.barrier.Stop([&] { return pool_->Trim(); });
  EXPECT_TRUE(absl::IsResourceExhausted(pool_->Allocate(256 * kKiB).status()));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(pool_->AllocateBlocking(256 * kKiB, absl::InfinitePast()).status()));
  device_.barrier.Open();
  EXPECT_EQ(trim.get().value(), 256 * kKiB);
  Free(live);
  ExpectThatAllIsThere();
}

TEST_F(PinnedInterferenceTest, AnAllocationThatGrowsHoldsUpNoOtherCall) {
  Make(256 * kKiB, true);
  void* const live = Take(64 * kKiB);
  auto grows = device_.barrier.Stop([&] { return pool_->Allocate(512 * kKiB); });
  ExpectThatOthersReturn(live);
  device_.barrier.Open();
  const absl::StatusOr<void*> p = grows.get();
  ASSERT_TRUE(p.ok()) << p.status();
  Free(*p);
  ExpectThatAllIsThere();
}

TEST_F(PinnedInterferenceTest, WaitersAreServedAfterTheGrowthOfAnother) {
  Make(64 * kKiB, true);
  void* const live = Take(64 * kKiB);
  device_.is_full = true;
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(pool_->AllocateBlocking(128 * kKiB, absl::InfinitePast()).status()));
  auto waits = std::async(std::launch::async, [&] { return pool_->AllocateBlocking(128 * kKiB); });
  while (pool_->Stats().blocked < 2) std::this_thread::yield();
  device_.is_full = false;
  Free(Take(256 * kKiB));
  const absl::StatusOr<void*> p = waits.get();
  ASSERT_TRUE(p.ok()) << p.status();
  Free(*p);
  Free(live);
}

// Both kinds of allocation serve waiters from the rest of a region that they pinned.
TEST_F(PinnedInterferenceTest, WaitersGetTheRestOfTheRegionOfAnotherAllocation) {
  using Allocate = absl::StatusOr<void*> (*)(PinnedPool&, std::size_t);
  const Allocate allocates[] = {
      [](PinnedPool& pool, std::size_t bytes) { return pool.Allocate(bytes); },
      [](PinnedPool& pool, std::size_t bytes) { return pool.AllocateBlocking(bytes); },
  };
  for (const Allocate allocate : allocates) {
    pool_ = *pinned::CreatePinnedPool(
        &device_, {.max_bytes = kMiB, .initial_bytes = 64 * kKiB, .may_grow = true},
        {.growth_bytes = 768 * kKiB});
    void* const live = Take(64 * kKiB);
    device_.is_full = true;
    auto waits =
        std::async(std::launch::async, [&] { return pool_->AllocateBlocking(512 * kKiB); });
    while (pool_->Stats().blocked == 0) std::this_thread::yield();
    device_.is_full = false;
    const absl::StatusOr<void*> small = allocate(*pool_, 128 * kKiB);
    EXPECT_EQ(pool_->Stats().live_count, 3);
    EXPECT_EQ(pool_->Stats().growths, 1);
    Free(small.value());
    Free(live);
    Free(waits.get().value());
  }
}

TEST_F(PinnedInterferenceTest, FaultsLoseNothing) {
  for (const Call call : {Call::kRegisterHostMemory, Call::kUnregisterHostMemory}) {
    for (int n = 1; n <= 4; ++n) {
      Make(0, true);
      std::vector<void*> live;
      for (int i = 0; i < 4; ++i) live.push_back(Take(256 * kKiB));
      for (int i = 0; i < 3; ++i) Free(live[i]);
      host_->FailCall(call, n);
      // Three regions are given back for a new one.
      const absl::StatusOr<void*> large = pool_->Allocate(768 * kKiB);
      EXPECT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
      const absl::StatusOr<std::int64_t> trimmed = pool_->Trim();
      EXPECT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
      host_->FailCall(call, 0);
      EXPECT_EQ(large.ok() && trimmed.ok(), n == 4 || (n > 1 && call == Call::kRegisterHostMemory));
      if (large.ok()) Free(*large);
      Free(live[3]);
      ExpectThatAllIsThere();
    }
  }
}

class PageInterferenceTest : public ::testing::Test {
 protected:
  PageInterferenceTest() { stop = &barrier_; }
  ~PageInterferenceTest() override { before_madvise = nullptr; }

  std::vector<void*> Take(std::size_t count) {
    std::vector<void*> pages(count);
    EXPECT_TRUE(pool_->Take(absl::MakeSpan(pages)).ok());
    return pages;
  }
  void Return(const std::vector<void*>& pages) { EXPECT_TRUE(pool_->Return(pages).ok()); }
  static int StopAtBarrier(int /*advice*/) {
    stop->Pass();
    return 0;
  }
  void ExpectThatOthersReturn(const std::vector<void*>& pages) {
    EXPECT_EQ(pool_->Stats().used_pages, static_cast<std::int64_t>(pages.size()));
    Return(pages);
    Return(Take(pages.size()));
  }
  void ExpectThatAllIsThere() {
    const auto pages = static_cast<std::size_t>(pool_->Stats().max_pages);
    Return(Take(pages));
    EXPECT_EQ(pool_->Trim().value(), kMiB);
    Return(Take(pages));
  }

  static inline Barrier* stop = nullptr;
  Barrier barrier_;
  std::unique_ptr<PagePool> pool_ = *pinned::CreatePagePool(
      {.max_bytes = kMiB, .initial_bytes = 256 * kKiB, .pages = {.threads = 1}}, 0);
};

TEST_F(PageInterferenceTest, AThreadThatTouchesHoldsUpNoOtherCall) {
  const std::vector<void*> pages = Take(2);
  before_madvise = StopAtBarrier;
  auto takes = barrier_.Stop([&] { return Take(12); });
  ExpectThatOthersReturn(pages);
  barrier_.Open();
  Return(takes.get());
  ExpectThatAllIsThere();
}

TEST_F(PageInterferenceTest, ATrimHoldsUpNoOtherCall) {
  const std::vector<void*> pages = Take(2);
  before_madvise = StopAtBarrier;
  auto trim = barrier_.Stop([&] { return pool_->Trim(); });
  ExpectThatOthersReturn(pages);
  barrier_.Open();
  EXPECT_EQ(trim.get().value(), 128 * kKiB);
  ExpectThatAllIsThere();
}

// Requests that may not grow, and those for more pages than are unused.
TEST_F(PageInterferenceTest, AReserveHoldsUpNoRequestThatIsRefused) {
  for (const bool may_grow : {false, true}) {
    pool_ = *pinned::CreatePagePool({.max_bytes = kMiB,
                                     .initial_bytes = 256 * kKiB,
                                     .may_grow = may_grow,
                                     .pages = {.threads = 1}},
                                    0);
    Barrier barrier;
    stop = &barrier;
    const std::vector<void*> pages = Take(2);
    before_madvise = StopAtBarrier;
    auto reserve = barrier.Stop([&] { return pool_->Reserve(512 * kKiB); });
    std::vector<void*> more(may_grow ? 15 : 3);
    const absl::Status refused = pool_->Take(absl::MakeSpan(more));
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                ::testing::HasSubstr(may_grow ? "raise max_bytes" : "set may_grow"));
    barrier.Open();
    EXPECT_TRUE(reserve.get().ok());
    before_madvise = nullptr;
    Return(pages);
    EXPECT_TRUE(pool_->Reserve(kMiB).ok());
    Return(Take(16));
  }
}

// Pages that leave are within the budget.
TEST_F(PageInterferenceTest, ATrimHoldsUpNoRequestThatIsRefused) {
  pool_ = *PagePool::Create(
      {.max_bytes = kMiB, .initial_bytes = kMiB, .may_grow = false, .pages = {.threads = 1}});
  const std::vector<void*> pages = Take(2);
  before_madvise = StopAtBarrier;
  auto trim = barrier_.Stop([&] { return pool_->Trim(); });
  std::vector<void*> more(3);
  const absl::Status refused = pool_->Take(absl::MakeSpan(more));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("or call Reserve"));
  barrier_.Open();
  EXPECT_EQ(trim.get().value(), kMiB - 128 * kKiB);
  Return(pages);
}

TEST_F(PageInterferenceTest, PagesThatTheHostLacksAreNotLost) {
  // Two runs of neighbours have no memory, and the host has none for the second.
  const std::vector<void*> pages = Take(16);
  Return({pages.begin(), pages.begin() + 4});
  EXPECT_EQ(pool_->Trim().value(), 256 * kKiB);
  Return({pages.begin() + 8, pages.begin() + 12});
  EXPECT_EQ(pool_->Trim().value(), 256 * kKiB);
  static std::atomic<int> touches = 0;
  touches = 0;
  before_madvise = [](int advice) {
    return advice == MADV_POPULATE_WRITE && ++touches == 2 ? ENOMEM : 0;
  };
  std::vector<void*> more(8);
  EXPECT_TRUE(absl::IsResourceExhausted(pool_->Take(absl::MakeSpan(more))));
  EXPECT_EQ(touches, 2);
  const PagePoolStats stats = pool_->Stats();
  EXPECT_EQ(stats.touched_pages, 12);
  EXPECT_EQ(stats.used_pages, 8);
  before_madvise = nullptr;
  Return({pages.begin() + 4, pages.begin() + 8});
  Return({pages.begin() + 12, pages.end()});
  ExpectThatAllIsThere();
}

}  // namespace
}  // namespace tidepool

// Replaces the system's function in this program.
extern "C" int madvise(void* address, std::size_t bytes, int advice) noexcept {
  const auto before = tidepool::before_madvise.load();
  if (const int error = before == nullptr ? 0 : before(advice); error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}
