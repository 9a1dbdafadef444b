// SPDX-License-Identifier: Apache-2.0
// The promises of a pinned pool, one promise a test.
#include "tidepool/pinned_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "lib/memory/pinned/create_pools.h"
#include "tests/memory/pinned/model_device.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kKiB;
using testing::kMiB;
using testing::ModelDevice;

class PinnedPoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<PinnedPool> NewPool(const PinnedPoolOptions& options,
                                      const pinned::RegionSizes& sizes = {}) {
    return *pinned::CreatePinnedPool(&device_, options, sizes);
  }
  static std::string Message(const absl::Status& status) { return std::string(status.message()); }

  ModelDevice device_;
};

TEST_F(PinnedPoolTest, RefusesOptionsOutOfRange) {
  const std::vector<PinnedPoolOptions> refused = {
      {},
      {.max_bytes = 4095},
      {.max_bytes = -1},
      {.max_bytes = std::numeric_limits<std::int64_t>::max()},
      {.max_bytes = kMiB, .initial_bytes = -2},
      {.max_bytes = kMiB, .initial_bytes = kMiB + 1},
      {.max_bytes = kMiB, .alignment = 0},
      {.max_bytes = kMiB, .alignment = 32},
      {.max_bytes = kMiB, .alignment = 513},
      {.max_bytes = kMiB, .alignment = 8192},
      {.max_bytes = kMiB, .pages = {.huge_pages = HugePages::kRequired}},
      {.max_bytes = kMiB, .pages = {.numa_node = -2}},
      {.max_bytes = kMiB, .pages = {.numa_node = 1024}},
      {.max_bytes = kMiB, .pages = {.threads = -1}},
      {.max_bytes = kMiB, .pages = {.threads = 1025}},
  };
  for (std::size_t i = 0; i < refused.size(); ++i) {
    const absl::Status status = PinnedPool::Create(&device_, refused[i]).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << i << status;
    EXPECT_THAT(Message(status), HasSubstr("expected")) << i;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(PinnedPool::Create(nullptr, {.max_bytes = kMiB}).status()));
  EXPECT_EQ(device_.host().CountCalls(Call::kAny), 0);
}

TEST_F(PinnedPoolTest, PinsItsBudgetAtOnceInOneRegion) {
  const auto pool = NewPool({.max_bytes = 3 * kMiB + 100});
  EXPECT_EQ(device_.host().CountCalls(Call::kRegisterHostMemory), 1);
  EXPECT_EQ(device_.registered_bytes(), 3 * kMiB);
  const PinnedPoolStats stats = pool->Stats();
  EXPECT_EQ(stats.reserved_bytes, 3 * kMiB);
  EXPECT_EQ(stats.peak_reserved_bytes, 3 * kMiB);
  EXPECT_EQ(stats.max_bytes, 3 * kMiB);
  EXPECT_EQ(stats.free_bytes, 3 * kMiB);
  EXPECT_EQ(stats.largest_hole_bytes, 3 * kMiB);
  EXPECT_EQ(stats.regions, 1);
  EXPECT_EQ(stats.pins, 1);
  EXPECT_GT(stats.pin_ns, 0);
}

TEST_F(PinnedPoolTest, GivesAllMemoryBackInTheEnd) {
  {
    const auto pool = NewPool({.max_bytes = 8 * kMiB, .initial_bytes = 0, .may_grow = true});
    ASSERT_TRUE(pool->Allocate(3 * kMiB).ok());
    ::testing::internal::CaptureStderr();
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("3.0 MiB (3145728 bytes) live in 1 buffer\n"),
                    HasSubstr(": 3.0 MiB (3145728 bytes), 3145728 requested")));
  EXPECT_EQ(device_.registered_bytes(), 0);
}

TEST_F(PinnedPoolTest, GivesExactlyWhatWasAskedForRoundedToTheAlignment) {
  for (const std::int64_t alignment : {64, 512, 4096}) {
    const auto pool = NewPool({.max_bytes = 4 * kMiB, .alignment = alignment});
    std::int64_t live = 0;
    std::int64_t asked = 0;
    std::vector<void*> buffers;
    for (const std::int64_t bytes : {1L, 63L, 64L, 65L, 511L, 513L, 4097L, 65537L, 1000001L}) {
      auto* const buffer = static_cast<char*>(*pool->Allocate(static_cast<std::size_t>(bytes)));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer) % static_cast<std::uintptr_t>(alignment),
                0);
      std::memset(buffer, 1, static_cast<std::size_t>(bytes));
      buffers.push_back(buffer);
      live += (bytes + alignment - 1) / alignment * alignment;
      asked += bytes;
      EXPECT_EQ(pool->Stats().live_bytes, live);
      EXPECT_EQ(pool->Stats().asked_bytes, asked);
      EXPECT_EQ(pool->Stats().wasted_bytes(), live - asked);
    }
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    for (void* const buffer : buffers) ASSERT_TRUE(pool->Free(buffer).ok());
    EXPECT_EQ(pool->Stats().live_bytes, 0);
    EXPECT_EQ(pool->Stats().asked_bytes, 0);
    EXPECT_EQ(pool->Stats().peak_asked_bytes, asked);
  }
}

TEST_F(PinnedPoolTest, AllOfTheBudgetCanBeUsed) {
  const auto pool = NewPool({.max_bytes = kMiB});
  void* const all = *pool->Allocate(kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(pool->Allocate(1).status()));
  EXPECT_TRUE(pool->Free(all).ok());
  EXPECT_EQ(*pool->Allocate(0), nullptr);
  EXPECT_TRUE(pool->Free(nullptr).ok());
  EXPECT_EQ(pool->Stats().live_count, 0);
  EXPECT_EQ(pool->Stats().failures, 1);
  EXPECT_EQ(pool->Stats().peak_live_bytes, kMiB);
}

TEST_F(PinnedPoolTest, SaysWhatWouldHelp) {
  const auto pool = NewPool({.max_bytes = kMiB});
  EXPECT_THAT(Message(pool->Allocate(kMiB + 1).status()), HasSubstr("it can never fit"));
  EXPECT_THAT(Message(pool->Allocate(std::numeric_limits<std::size_t>::max()).status()),
              HasSubstr("it can never fit"));
  std::vector<void*> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(*pool->Allocate(256 * kKiB));
  EXPECT_THAT(Message(pool->Allocate(1000).status()),
              HasSubstr("free 1000 bytes, or raise max_bytes"));
  ASSERT_TRUE(pool->Free(buffers[0]).ok());
  ASSERT_TRUE(pool->Free(buffers[2]).ok());
  EXPECT_THAT(Message(pool->Allocate(512 * kKiB).status()),
              HasSubstr("not in one piece: free a neighbour"));
  ASSERT_TRUE(pool->Free(buffers[1]).ok());
  ASSERT_TRUE(pool->Free(buffers[3]).ok());
}

TEST_F(PinnedPoolTest, RefusesAddressesThatAreNotLive) {
  const auto pool = NewPool({.max_bytes = kMiB});
  char local = 0;
  auto* const buffer = static_cast<char*>(*pool->Allocate(1024));
  EXPECT_THAT(Message(pool->Free(&local)), HasSubstr("is not in this pinned pool, expected"));
  EXPECT_THAT(Message(pool->Free(buffer + 512)), HasSubstr("512 bytes inside a live buffer"));
  EXPECT_THAT(Message(pool->Free(buffer + 4096)), HasSubstr("free already"));
  ASSERT_TRUE(pool->Free(buffer).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(pool->Free(buffer)));
  EXPECT_EQ(pool->Stats().frees, 1);
}

TEST_F(PinnedPoolTest, DoesNotGrowUnlessItMay) {
  const auto pool = NewPool({.max_bytes = 4 * kMiB, .initial_bytes = kMiB});
  const std::int64_t calls = device_.host().CountCalls(Call::kAny);
  const absl::Status status = pool->Allocate(2 * kMiB).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("may not grow"), HasSubstr("set may_grow, or call Reserve")));
  EXPECT_TRUE(absl::IsResourceExhausted(pool->AllocateBlocking(2 * kMiB).status()))
      << "no free would help";
  EXPECT_EQ(device_.host().CountCalls(Call::kAny), calls);
  ASSERT_TRUE(pool->Reserve(3 * kMiB).ok());
  void* const buffer = *pool->Allocate(2 * kMiB);
  EXPECT_EQ(pool->Stats().regions, 2);
  ASSERT_TRUE(pool->Free(buffer).ok());
}

TEST_F(PinnedPoolTest, ReservesUpToTheBudget) {
  const auto pool = NewPool({.max_bytes = 4 * kMiB, .initial_bytes = 0});
  EXPECT_EQ(device_.registered_bytes(), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(pool->Reserve(4 * kMiB + 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(pool->Reserve(-1)));
  ASSERT_TRUE(pool->Reserve(1).ok());
  EXPECT_EQ(device_.registered_bytes(), 4 * kKiB);
  ASSERT_TRUE(pool->Reserve(4 * kMiB).ok());
  ASSERT_TRUE(pool->Reserve(kMiB).ok());
  EXPECT_EQ(device_.registered_bytes(), 4 * kMiB);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

TEST_F(PinnedPoolTest, GrowsBySmallRegionsTogetherAndLargeOnesExactly) {
  const auto pool = NewPool({.max_bytes = 16 * kMiB, .initial_bytes = 0, .may_grow = true},
                            {.growth_bytes = 4 * kMiB});
  std::vector<void*> buffers = {*pool->Allocate(100 * kKiB)};
  EXPECT_EQ(device_.registered_bytes(), 4 * kMiB);
  buffers.push_back(*pool->Allocate(3 * kMiB));
  EXPECT_EQ(device_.registered_bytes(), 4 * kMiB);
  buffers.push_back(*pool->Allocate(3 * kMiB + 1));
  EXPECT_EQ(device_.registered_bytes(), 7 * kMiB + 4 * kKiB);
  EXPECT_EQ(pool->Stats().growths, 2);
  // The rest of the budget, and not a byte more.
  buffers.push_back(*pool->Allocate(9 * kMiB - 4 * kKiB));
  EXPECT_EQ(device_.registered_bytes(), 16 * kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(pool->Allocate(2 * kMiB).status()));
  for (void* const buffer : buffers) ASSERT_TRUE(pool->Free(buffer).ok());
}

TEST_F(PinnedPoolTest, GivesRegionsBackWhenTheyStandInTheWay) {
  const auto pool =
      NewPool({.max_bytes = 8 * kMiB, .initial_bytes = 0, .may_grow = true}, {.growth_bytes = 0});
  void* const small = *pool->Allocate(2 * kMiB);
  void* const kept = *pool->Allocate(kMiB);
  void* const large = *pool->Allocate(5 * kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(pool->Allocate(6 * kMiB).status()));
  ASSERT_TRUE(pool->Free(small).ok());
  ASSERT_TRUE(pool->Free(large).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(pool->Allocate(8 * kMiB).status()));
  EXPECT_EQ(pool->Stats().regions, 3) << "nothing is given back when it does not help";
  void* const larger = *pool->Allocate(7 * kMiB);
  EXPECT_EQ(pool->Stats().regions, 2);
  EXPECT_EQ(device_.registered_bytes(), 8 * kMiB);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  ASSERT_TRUE(pool->Free(kept).ok());
  ASSERT_TRUE(pool->Free(larger).ok());
}

TEST_F(PinnedPoolTest, TrimsRegionsInWhichNothingLives) {
  const auto pool =
      NewPool({.max_bytes = 8 * kMiB, .initial_bytes = 0, .may_grow = true}, {.growth_bytes = 0});
  std::vector<void*> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(*pool->Allocate(kMiB));
  ASSERT_TRUE(pool->Free(buffers[0]).ok());
  ASSERT_TRUE(pool->Free(buffers[2]).ok());
  EXPECT_EQ(*pool->Trim(4 * kMiB), 0);
  EXPECT_EQ(*pool->Trim(3 * kMiB), kMiB);
  EXPECT_EQ(*pool->Trim(), kMiB);
  EXPECT_EQ(*pool->Trim(), 0);
  EXPECT_EQ(device_.registered_bytes(), 2 * kMiB);
  EXPECT_TRUE(absl::IsInvalidArgument(pool->Free(buffers[2])));
  EXPECT_EQ(pool->Stats().peak_reserved_bytes, 4 * kMiB);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  ASSERT_TRUE(pool->Free(buffers[1]).ok());
  ASSERT_TRUE(pool->Free(buffers[3]).ok());
}

TEST_F(PinnedPoolTest, RegionsAreNoLargerThanAllowedButForALargeBuffer) {
  const auto pool = NewPool({.max_bytes = 8 * kMiB, .initial_bytes = 5 * kMiB, .may_grow = true},
                            {.most_bytes = 2 * kMiB});
  EXPECT_EQ(pool->Stats().regions, 3);
  void* const large = *pool->Allocate(3 * kMiB);
  EXPECT_EQ(pool->Stats().regions, 4);
  EXPECT_EQ(pool->Stats().reserved_bytes, 8 * kMiB);
  ASSERT_TRUE(pool->Free(large).ok());
}

// CUDA cannot copy between two registrations at once.
TEST_F(PinnedPoolTest, NoBufferReachesFromOneRegionIntoAnother) {
  const auto pool = NewPool({.max_bytes = 4 * kMiB}, {.most_bytes = kMiB});
  EXPECT_TRUE(absl::IsResourceExhausted(pool->Allocate(kMiB + 1).status()));
  std::vector<void*> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(*pool->Allocate(kMiB));
  for (void* const buffer : buffers) {
    EXPECT_EQ(device_.regions().count(static_cast<char*>(buffer)), 1);
    ASSERT_TRUE(pool->Free(buffer).ok());
  }
}

TEST_F(PinnedPoolTest, MemoryIsThereBeforeItIsUsed) {
  const auto pool = NewPool({.max_bytes = 32 * kMiB, .pages = {.huge_pages = HugePages::kNever}});
  void* const buffer = *pool->Allocate(32 * kMiB);
  std::vector<unsigned char> is_there(32 * kMiB / 4096);
  ASSERT_EQ(mincore(buffer, 32 * kMiB, is_there.data()), 0);
  EXPECT_EQ(std::count_if(is_there.begin(), is_there.end(), [](int page) { return page & 1; }),
            static_cast<std::ptrdiff_t>(is_there.size()));
  ASSERT_TRUE(pool->Free(buffer).ok());
}

TEST_F(PinnedPoolTest, WorksWithEveryNumberOfThreads) {
  for (const int threads : {1, 2, 3, 1000}) {
    for (const HugePages huge : {HugePages::kNever, HugePages::kAdvised}) {
      const auto pool = NewPool(
          {.max_bytes = 20 * kMiB + 4096, .pages = {.huge_pages = huge, .threads = threads}});
      EXPECT_EQ(pool->Stats().regions, 1);
      EXPECT_EQ(device_.registered_bytes(), 20 * kMiB + 4096);
    }
  }
}

TEST_F(PinnedPoolTest, RequiredHugePagesAreThereOrAnError) {
  const absl::StatusOr<std::unique_ptr<PinnedPool>> pool = PinnedPool::Create(
      &device_, {.max_bytes = 5 * kMiB, .pages = {.huge_pages = HugePages::kRequired}});
  if (pool.ok()) {
    EXPECT_EQ((*pool)->Stats().reserved_bytes, 4 * kMiB);
    return;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(pool.status())) << pool.status();
  EXPECT_THAT(Message(pool.status()), HasSubstr("expected 2 free ones of 2 MiB"));
  EXPECT_EQ(device_.registered_bytes(), 0);
}

TEST_F(PinnedPoolTest, ANumaNodeIsTakenOrAnError) {
  const auto create = [&](int node) {
    return PinnedPool::Create(&device_, {.max_bytes = kMiB, .pages = {.numa_node = node}});
  };
  if (const absl::Status status = create(0).status(); !status.ok()) {
    EXPECT_THAT(Message(status), HasSubstr("numa_node 0, expected")) << status;
  }
  const absl::Status status = create(1023).status();
  EXPECT_FALSE(status.ok()) << "no machine has so many nodes";
  EXPECT_THAT(Message(status), HasSubstr("numa_node 1023, expected"));
}

TEST_F(PinnedPoolTest, SaysWhenTheHostHasNotSoMuchMemory) {
  // A process has fewer addresses, however much memory the system promises.
  const absl::Status status =
      PinnedPool::Create(&device_, {.max_bytes = std::int64_t{1} << 48, .alignment = 4096})
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("expected"));
}

// Returns the locked memory of the whole process, in KiB.
std::int64_t LockedKiB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmLck:", 0) == 0) return std::stoll(line.substr(6));
  }
  return -1;
}

TEST_F(PinnedPoolTest, OnTheHostDeviceMemoryIsLockedAsFarAsTheLimitsAllow) {
  const std::int64_t before = LockedKiB();
  // Locks as much as the pool will: limits may allow none. Sanitizers replace mlock by nothing, but
  // not mlock2.
  void* const tried =
      mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(tried, MAP_FAILED);
  static_cast<void>(mlock2(tried, kMiB, MLOCK_ONFAULT));
  const std::int64_t lockable = LockedKiB() - before;
  ASSERT_EQ(munmap(tried, kMiB), 0);
  ASSERT_EQ(LockedKiB(), before);
  {
    const auto pool = NewPool({.max_bytes = kMiB});
    EXPECT_EQ(LockedKiB(), before + lockable);
    EXPECT_TRUE(pool->Free(*pool->Allocate(kMiB)).ok());
  }
  EXPECT_EQ(LockedKiB(), before);
}

}  // namespace
}  // namespace tidepool
