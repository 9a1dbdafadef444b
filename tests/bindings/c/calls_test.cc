// SPDX-License-Identifier: Apache-2.0
// The functions of c_api.h on the host device: their answers, and their errors.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bindings/c/fixture.h"
#include "tests/support/temporary_files.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CApiTest, RefusesNullArguments) {
  const CPool pool;
  void* address = nullptr;
  std::size_t count = 0;
  int number = 0;
  tidepool_stream stream = nullptr;
  const auto expect = [](tidepool_status status, const std::string& argument) {
    EXPECT_EQ(status, TIDEPOOL_INVALID_ARGUMENT) << argument;
    EXPECT_EQ(tidepool_last_error(), argument + " is NULL");
  };
  expect(tidepool_pool_create("", nullptr), "pool");
  expect(tidepool_allocate(nullptr, 1, nullptr, TIDEPOOL_RESIDENT, &address), "pool");
  expect(tidepool_allocate(pool.get(), 1, nullptr, TIDEPOOL_RESIDENT, nullptr), "address");
  expect(tidepool_free(nullptr, &number, nullptr), "pool");
  expect(tidepool_record_use(nullptr, &number, nullptr), "pool");
  expect(tidepool_owns(nullptr, &number, &number), "pool");
  expect(tidepool_owns(pool.get(), &number, nullptr), "owns");
  expect(tidepool_get_device(nullptr, &number), "pool");
  expect(tidepool_get_device(pool.get(), nullptr), "ordinal");
  expect(tidepool_stream_create(nullptr, &stream), "pool");
  expect(tidepool_stream_create(pool.get(), nullptr), "stream");
  expect(tidepool_stream_destroy(nullptr, stream), "pool");
  expect(tidepool_stream_synchronize(nullptr, stream), "pool");
  expect(tidepool_stream_forget(nullptr, stream), "pool");
  expect(tidepool_mark(nullptr, "a"), "pool");
  expect(tidepool_mark(pool.get(), nullptr), "name");
  expect(tidepool_mark_iteration(nullptr), "pool");
  expect(tidepool_await_plans(nullptr), "pool");
  expect(tidepool_trim(nullptr, 0, nullptr), "pool");
  expect(tidepool_take_wanted_by_others(nullptr, &count), "pool");
  expect(tidepool_take_wanted_by_others(pool.get(), nullptr), "bytes");
  expect(tidepool_get_statistics(pool.get(), nullptr), "statistics");
  expect(tidepool_reset_peaks(nullptr), "pool");
  expect(tidepool_get_blocks(pool.get(), nullptr, 1, &count), "blocks");
  expect(tidepool_get_blocks(pool.get(), nullptr, 0, nullptr), "count");
  expect(tidepool_write_snapshot(pool.get(), nullptr), "path");
  expect(tidepool_start_trace(pool.get(), nullptr), "path");
  expect(tidepool_stop_trace(nullptr), "pool");
  EXPECT_EQ(tidepool_stream_destroy(pool.get(), nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_pool_destroy(nullptr), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_free(pool.get(), nullptr, nullptr), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_record_use(pool.get(), nullptr, nullptr), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_trim(pool.get(), 0, nullptr), TIDEPOOL_OK);
  int owns = 1;
  EXPECT_EQ(tidepool_owns(pool.get(), nullptr, &owns), TIDEPOOL_OK);
  EXPECT_EQ(owns, 0);
}

TEST(CApiTest, ZeroBytesAreNull) {
  const CPool pool;
  EXPECT_EQ(pool.Allocate(0), nullptr);
  EXPECT_EQ(pool.Statistics().allocations, 0U);
}

TEST(CApiTest, RefusesWrongHandlesAndHints) {
  CPool pool;
  void* address = &pool;
  EXPECT_EQ(tidepool_allocate(pool.get(), 1, nullptr, static_cast<tidepool_hint>(2), &address),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(address, nullptr);
  EXPECT_THAT(tidepool_last_error(), StartsWith("hint is 2, expected TIDEPOOL_RESIDENT (0)"));
  alignas(64) char memory[64] = {};
  auto* const no_pool = reinterpret_cast<tidepool_pool*>(memory);
  EXPECT_EQ(tidepool_trim(no_pool, 0, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), StartsWith("pool is no pool"));
  EXPECT_EQ(tidepool_pool_destroy(no_pool), TIDEPOOL_INVALID_ARGUMENT);
  tidepool_pool* const ended = pool.Release();
  EXPECT_EQ(tidepool_pool_destroy(ended), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_pool_destroy(ended), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(tidepool_free(ended, memory, nullptr), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_STREQ(tidepool_last_error(), "the pool was destroyed");
}

TEST(CApiTest, RefusesAddressesThatAreNotLive) {
  const CPool pool;
  char* const address = static_cast<char*>(pool.Allocate(4096));
  int outside = 0;
  for (void* wrong : {static_cast<void*>(&outside), static_cast<void*>(address + 512)}) {
    EXPECT_EQ(tidepool_free(pool.get(), wrong, nullptr), TIDEPOOL_INVALID_ARGUMENT);
    EXPECT_EQ(tidepool_record_use(pool.get(), wrong, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  }
  const CPool other;
  EXPECT_EQ(tidepool_free(other.get(), address, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  pool.Free(address);
  EXPECT_EQ(tidepool_free(pool.get(), address, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(pool.Statistics().frees, 1U);
}

TEST(CApiTest, PinnedMemoryHasALimitAndChecksAddresses) {
  const CPool pool("device=host,pinned=1MiB");
  void* address = nullptr;
  EXPECT_EQ(tidepool_pinned_free(pool.get(), nullptr), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_pinned_free(pool.get(), &address), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_pinned_allocate(pool.get(), 1 << 20, &address), TIDEPOOL_OK);
  void* other = address;
  EXPECT_EQ(tidepool_pinned_allocate(pool.get(), 1, &other), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(tidepool_pinned_allocate(pool.get(), 0, &other), TIDEPOOL_OK);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(tidepool_free(pool.get(), address, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_pinned_free(pool.get(), address), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_pinned_free(pool.get(), address), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_pinned_trim(pool.get(), nullptr), TIDEPOOL_OK);
}

TEST(CApiTest, PinnedMemoryComesFromANumaNode) {
  const CPool pool("device=host,pinned=1MiB,pinned_numa=0");
  void* address = nullptr;
  // Some containers forbid a process to choose a node.
  if (tidepool_pinned_allocate(pool.get(), 1000, &address) == TIDEPOOL_OK) {
    EXPECT_EQ(tidepool_pinned_free(pool.get(), address), TIDEPOOL_OK);
  } else {
    EXPECT_THAT(tidepool_last_error(), HasSubstr("numa_node 0, expected"));
  }
  const CPool absent("device=host,pinned=1MiB,pinned_numa=1023");
  address = &address;
  EXPECT_NE(tidepool_pinned_allocate(absent.get(), 1000, &address), TIDEPOOL_OK);
  EXPECT_EQ(address, nullptr);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("numa_node 1023, expected"));
}

TEST(CApiTest, AnotherThreadMayFree) {
  const CPool pool;
  void* const address = pool.Allocate(1000);
  std::thread([&] { pool.Free(address); }).join();
  EXPECT_EQ(pool.Statistics().live_count, 0U);
}

TEST(CApiTest, EachThreadHasItsError) {
  EXPECT_EQ(tidepool_trim(nullptr, 0, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  std::thread([] {
    EXPECT_STREQ(tidepool_last_error(), "");
    CreationError("device=gpu", TIDEPOOL_INVALID_ARGUMENT);
  }).join();
  EXPECT_STREQ(tidepool_last_error(), "pool is NULL");
}

TEST(CApiTest, KnowsStatuses) {
  for (int code = TIDEPOOL_OK; code <= TIDEPOOL_UNIMPLEMENTED; ++code) {
    EXPECT_THAT(tidepool_status_name(static_cast<tidepool_status>(code)), StartsWith("TIDEPOOL_"));
  }
  EXPECT_STREQ(tidepool_status_name(static_cast<tidepool_status>(15)), "unknown status");
}

TEST(CApiTest, ExplainsThatMemoryIsShortByOptions) {
  const CPool pool("device=host,device_memory=8MiB,budget=4MiB,memory=segments,initial=4MiB");
  EXPECT_EQ(pool.Try(8 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_STREQ(tidepool_last_error(),
               "8388608 bytes asked for, 0 live in 0 allocations, the largest hole is 4194304, the "
               "limit of host is 4194304: raise option 'budget'");
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.Allocate(1 << 20));
  EXPECT_EQ(pool.Try(1 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("free 1048576 bytes; or raise option 'budget'"));
  pool.Free(blocks[0]);
  pool.Free(blocks[2]);
  EXPECT_EQ(pool.Try(2 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("or use option remap=1"));
  EXPECT_EQ(pool.Try(~std::size_t{0}), TIDEPOOL_OUT_OF_MEMORY);
  pool.Free(blocks[1]);
  pool.Free(blocks[3]);
  EXPECT_EQ(pool.Statistics().failures, 4U);
}

TEST(CApiTest, WaitsAsLongAsItIsTold) {
  const CPool pool("device=host,device_memory=1MiB,memory=segments,wait=1ms");
  void* const all = pool.Allocate(1 << 20);
  EXPECT_EQ(pool.Try(512), TIDEPOOL_DEADLINE_EXCEEDED);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("waited for them 1ms (option 'wait')"));
  pool.Free(all);
  const CPool patient("device=host,device_memory=1MiB,memory=segments,wait=inf");
  void* const most = patient.Allocate(1 << 20);
  std::thread waiter([&] { patient.Free(patient.Allocate(512)); });
  patient.Free(most);
  waiter.join();
}

TEST(CApiTest, ServesWaitingRequestsByPriority) {
  const CPool pool("device=host,device_memory=64MiB,budget=4MiB,wait=inf");
  const auto allocate = [&](const char* tag, int priority) {
    void* address = nullptr;
    EXPECT_EQ(tidepool_allocate_by_priority(pool.get(), tag, priority, 3 << 20, nullptr,
                                            TIDEPOOL_RESIDENT, &address),
              TIDEPOOL_OK)
        << tidepool_last_error();
    return address;
  };
  const auto blocked = [&](const char* tag) {
    if (tag == nullptr) return pool.Statistics().blocked;
    tidepool_region_statistics region = {};
    region.struct_size = sizeof region;
    std::size_t count = 0;
    EXPECT_EQ(tidepool_get_regions(pool.get(), &region, 1, &count), TIDEPOOL_OK);
    return region.blocked;
  };
  for (const char* const tag : {static_cast<const char*>(nullptr), "kv"}) {
    void* const held = allocate(tag, 0);
    std::mutex mutex;
    std::vector<int> served;
    std::vector<std::thread> waiters;
    for (const int priority : {-1, 0, 2, 1}) {
      const std::size_t before = blocked(tag);
      waiters.emplace_back([&, priority, tag] {
        void* const address = allocate(tag, priority);
        {
          const std::lock_guard lock(mutex);
          served.push_back(priority);
        }
        pool.Free(address);
      });
      while (blocked(tag) == before) std::this_thread::yield();
    }
    pool.Free(held);
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_THAT(served, ElementsAre(2, 1, 0, -1));
  }
  void* address = &address;
  EXPECT_EQ(
      tidepool_allocate_by_priority(pool.get(), "kv", 1, 0, nullptr, TIDEPOOL_RESIDENT, &address),
      TIDEPOOL_OK);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(
      tidepool_allocate_by_priority(pool.get(), "", 1, 1, nullptr, TIDEPOOL_RESIDENT, &address),
      TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(
      tidepool_allocate_by_priority(pool.get(), "kv", 1, 1, nullptr, TIDEPOOL_RESIDENT, nullptr),
      TIDEPOOL_INVALID_ARGUMENT);
}

TEST(CApiTest, PrintsErrorsAndStatisticsOnDemand) {
  ::testing::internal::CaptureStderr();
  {
    const CPool pool("device=host,errors=1,statistics=1");
    EXPECT_EQ(tidepool_mark(pool.get(), nullptr), TIDEPOOL_INVALID_ARGUMENT);
    pool.Free(pool.Allocate(1000));
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, StartsWith("tidepool: tidepool_mark: TIDEPOOL_INVALID_ARGUMENT: name is NULL\n"
                               "tidepool: pool on host: 1 allocations, 1 frees"));
}

TEST(CApiTest, CountsAllocationsByOwner) {
  const CPool pool;
  const auto figures = [&](std::size_t owner) {
    tidepool_owner_statistics statistics = {};
    statistics.struct_size = sizeof statistics;
    EXPECT_EQ(tidepool_get_owner_statistics(pool.get(), owner, &statistics), TIDEPOOL_OK);
    return statistics;
  };
  std::size_t owners[3] = {};
  const char* const names[] = {"one", "other", "one"};
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(tidepool_add_owner(pool.get(), names[i], &owners[i]), TIDEPOOL_OK);
  }
  EXPECT_EQ(owners[0], 1U);
  EXPECT_EQ(owners[1], 2U);
  EXPECT_EQ(owners[2], owners[0]);
  const auto allocate = [&](std::size_t owner, std::size_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(tidepool_allocate_for(pool.get(), owner, bytes, nullptr, TIDEPOOL_RESIDENT, &address),
              TIDEPOOL_OK)
        << tidepool_last_error();
    return address;
  };
  void* const without = pool.Allocate(5000);
  void* const a = allocate(1, 1000);
  void* const b = allocate(2, 3000);
  void* const c = allocate(1, 1);
  EXPECT_EQ(allocate(1, 0), nullptr);
  EXPECT_STREQ(figures(1).name, "one");
  EXPECT_EQ(figures(1).live_bytes, 1024U + 512U);
  EXPECT_EQ(figures(1).live_count, 2U);
  EXPECT_EQ(figures(2).live_bytes, 3072U);
  EXPECT_EQ(pool.Statistics().live_bytes, 5120U + 1024U + 512U + 3072U);
  // A free that fails changes nothing.
  EXPECT_EQ(tidepool_free(pool.get(), static_cast<char*>(a) + 512, nullptr),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(figures(1).live_count, 2U);
  pool.Free(a);
  EXPECT_EQ(tidepool_free(pool.get(), a, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(figures(1).live_bytes, 512U);
  EXPECT_EQ(figures(1).peak_live_bytes, 1536U);
  EXPECT_EQ(figures(1).allocations, 2U);
  EXPECT_EQ(figures(1).frees, 1U);
  // Memory without an owner may have the address next.
  void* const again = pool.Allocate(1000);
  pool.Free(again);
  EXPECT_EQ(figures(1).live_bytes, 512U);
  EXPECT_EQ(tidepool_reset_peaks(pool.get()), TIDEPOOL_OK);
  EXPECT_EQ(figures(1).peak_live_bytes, 512U);
  for (void* const address : {without, b, c}) pool.Free(address);
  EXPECT_EQ(figures(1).live_count + figures(2).live_count, 0U);
  // A late free counts as any other.
  void* const late = allocate(2, 3000);
  EXPECT_EQ(tidepool_free_late(pool.get(), static_cast<char*>(late) + 512),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(figures(2).live_count, 1U);
  EXPECT_EQ(tidepool_free_late(pool.get(), late), TIDEPOOL_OK);
  EXPECT_EQ(figures(2).live_count, 0U);
  EXPECT_EQ(figures(2).frees, 2U);
}

TEST(CApiTest, RefusesOwnersThatAreNone) {
  const CPool pool;
  std::size_t owner = 77;
  EXPECT_EQ(tidepool_add_owner(pool.get(), "", &owner), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_add_owner(pool.get(), std::string(256, 'x').c_str(), &owner),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_add_owner(pool.get(), nullptr, &owner), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_add_owner(pool.get(), "one", nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(owner, 77U);
  ASSERT_EQ(tidepool_add_owner(pool.get(), "one", &owner), TIDEPOOL_OK);
  for (const std::size_t none : {std::size_t{0}, std::size_t{2}, ~std::size_t{0}}) {
    for (const std::size_t bytes : {0, 1}) {
      void* address = &owner;
      EXPECT_EQ(
          tidepool_allocate_for(pool.get(), none, bytes, nullptr, TIDEPOOL_RESIDENT, &address),
          TIDEPOOL_INVALID_ARGUMENT);
      EXPECT_EQ(address, nullptr);
      EXPECT_THAT(tidepool_last_error(), HasSubstr("expected a number of tidepool_add_owner"));
    }
    tidepool_owner_statistics statistics = {};
    statistics.struct_size = sizeof statistics;
    EXPECT_EQ(tidepool_get_owner_statistics(pool.get(), none, &statistics),
              TIDEPOOL_INVALID_ARGUMENT);
  }
  tidepool_owner_statistics statistics = {};
  EXPECT_EQ(tidepool_get_owner_statistics(pool.get(), 1, &statistics), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("expected sizeof(tidepool_owner_statistics)"));
}

TEST(CApiTest, CountsOwnersOfSeveralThreads) {
  const CPool pool("device=host,device_memory=64MiB");
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pool, i] {
      std::size_t owner = 0;
      const std::string name = i % 2 == 0 ? "even" : "odd";
      ASSERT_EQ(tidepool_add_owner(pool.get(), name.c_str(), &owner), TIDEPOOL_OK);
      std::vector<void*> live(8);
      for (int round = 0; round < 500; ++round) {
        void*& address = live[static_cast<std::size_t>(round % 8)];
        ASSERT_EQ(tidepool_free(pool.get(), address, nullptr), TIDEPOOL_OK);
        ASSERT_EQ(tidepool_allocate_for(pool.get(), round % 3 == 0 ? 1 : owner, 512, nullptr,
                                        TIDEPOOL_RESIDENT, &address),
                  TIDEPOOL_OK);
      }
      for (void* const address : live) ASSERT_EQ(tidepool_free(pool.get(), address, nullptr), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t allocations = 0;
  for (const std::size_t owner : {1, 2}) {
    tidepool_owner_statistics statistics = {};
    statistics.struct_size = sizeof statistics;
    ASSERT_EQ(tidepool_get_owner_statistics(pool.get(), owner, &statistics), TIDEPOOL_OK);
    EXPECT_EQ(statistics.live_bytes, 0U);
    EXPECT_EQ(statistics.allocations, statistics.frees);
    allocations += statistics.allocations;
  }
  EXPECT_EQ(allocations, 2000U);
  EXPECT_EQ(pool.Statistics().allocations, 2000U);
}

TEST(CApiTest, RegionsSleepAndWake) {
  const CPool pool("device=host,device_memory=64MiB,budget=4MiB");
  constexpr std::size_t kBytes = 3 << 20;
  const auto allocate = [&](const char* tag) {
    void* address = nullptr;
    EXPECT_EQ(tidepool_allocate_in(pool.get(), tag, kBytes, nullptr, TIDEPOOL_RESIDENT, &address),
              TIDEPOOL_OK)
        << tidepool_last_error();
    return address;
  };
  void* const weights = allocate("weights");
  std::memset(weights, 7, kBytes);
  int owns = 0;
  EXPECT_EQ(tidepool_owns(pool.get(), static_cast<char*>(weights) + 1, &owns), TIDEPOOL_OK);
  EXPECT_EQ(owns, 1);
  void* refused = &owns;
  EXPECT_EQ(tidepool_allocate_in(pool.get(), "cache", kBytes, nullptr, TIDEPOOL_RESIDENT, &refused),
            TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(refused, nullptr);
  ASSERT_EQ(tidepool_pause(pool.get(), "weights", TIDEPOOL_PAUSE_HOST, nullptr), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_pause(pool.get(), "weights", TIDEPOOL_PAUSE_HOST, nullptr),
            TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(tidepool_allocate_in(pool.get(), "weights", 1, nullptr, TIDEPOOL_RESIDENT, &refused),
            TIDEPOOL_FAILED_PRECONDITION);
  void* const cache = allocate("cache");
  std::memset(cache, 8, kBytes);
  EXPECT_EQ(tidepool_resume(pool.get(), "weights", nullptr), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(),
              AllOf(HasSubstr("\"weights\" sleeps on"), HasSubstr("raise option 'budget'")));
  tidepool_region_statistics regions[2] = {};
  std::size_t count = 0;
  EXPECT_EQ(tidepool_get_regions(pool.get(), regions, 2, &count), TIDEPOOL_INVALID_ARGUMENT);
  for (tidepool_region_statistics& region : regions) region.struct_size = sizeof region;
  ASSERT_EQ(tidepool_get_regions(pool.get(), regions, 2, &count), TIDEPOOL_OK);
  EXPECT_EQ(count, 2U);
  EXPECT_STREQ(regions[0].tag, "weights");
  EXPECT_EQ(regions[0].is_asleep, 1U);
  EXPECT_EQ(regions[0].live_bytes, kBytes);
  EXPECT_EQ(regions[0].reserved_bytes, 0U);
  EXPECT_EQ(regions[0].host_bytes, kBytes);
  EXPECT_STREQ(regions[1].tag, "cache");
  EXPECT_GE(regions[1].reserved_bytes, kBytes);
  ASSERT_EQ(tidepool_pause(pool.get(), "cache", TIDEPOOL_PAUSE_DISCARD, nullptr), TIDEPOOL_OK);
  ASSERT_EQ(tidepool_resume(pool.get(), "weights", nullptr), TIDEPOOL_OK) << tidepool_last_error();
  EXPECT_EQ(tidepool_await_contents(pool.get(), weights, SIZE_MAX, nullptr), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_await_contents(pool.get(), cache, 1, nullptr), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(tidepool_discard_contents(pool.get(), "cache"), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_discard_contents(pool.get(), "weights"), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("pause it with TIDEPOOL_PAUSE_DISCARD"));
  EXPECT_EQ(tidepool_discard_contents(pool.get(), nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_await_contents(nullptr, weights, 1, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_stream_synchronize(pool.get(), nullptr), TIDEPOOL_OK);
  EXPECT_EQ(std::count(static_cast<char*>(weights), static_cast<char*>(weights) + kBytes, 7),
            static_cast<std::ptrdiff_t>(kBytes));
  for (void* const address : {weights, cache}) pool.Free(address);
  EXPECT_EQ(tidepool_resume(pool.get(), "kv", nullptr), TIDEPOOL_NOT_FOUND);
  EXPECT_EQ(tidepool_pause(pool.get(), "weights", static_cast<tidepool_pause_mode>(7), nullptr),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_pause(pool.get(), nullptr, TIDEPOOL_PAUSE_HOST, nullptr),
            TIDEPOOL_INVALID_ARGUMENT);
}

TEST(CApiTest, SeveralRegionsSleepAndWakeTogether) {
  const CPool pool("device=host,device_memory=64MiB,budget=8MiB");
  constexpr std::size_t kBytes = 2 << 20;
  const std::array<const char*, 4> tags = {"weights", "cache", "optimizer", "adapter"};
  const std::array modes = {TIDEPOOL_PAUSE_HOST, TIDEPOOL_PAUSE_DISCARD, TIDEPOOL_PAUSE_COMPRESSED,
                            TIDEPOOL_PAUSE_DISK};
  std::array<void*, 4> memory = {};
  for (std::size_t i = 0; i < tags.size(); ++i) {
    ASSERT_EQ(
        tidepool_allocate_in(pool.get(), tags[i], kBytes, nullptr, TIDEPOOL_RESIDENT, &memory[i]),
        TIDEPOOL_OK);
    std::memset(memory[i], static_cast<int>(i) + 1, kBytes);
  }
  const std::string& folder = TemporaryFolder();
  const auto pause = [&](const char* const* names, const tidepool_pause_mode* ways,
                         std::size_t count, const char* into) {
    return tidepool_pause_regions(pool.get(), names, ways, count, into, nullptr);
  };
  const auto resume = [&](const char* const* names, std::size_t count) {
    return tidepool_resume_regions(pool.get(), names, count, nullptr);
  };
  const auto expect_asleep = [&](bool is_asleep) {
    std::array<tidepool_region_statistics, 4> regions = {};
    for (tidepool_region_statistics& region : regions) region.struct_size = sizeof region;
    std::size_t count = 0;
    ASSERT_EQ(tidepool_get_regions(pool.get(), regions.data(), 4, &count), TIDEPOOL_OK);
    for (const tidepool_region_statistics& region : regions) {
      EXPECT_EQ(region.is_asleep != 0, is_asleep) << region.tag;
    }
  };
  EXPECT_EQ(pause(nullptr, nullptr, 0, nullptr), TIDEPOOL_OK);
  EXPECT_EQ(resume(nullptr, 0), TIDEPOOL_OK);
  EXPECT_EQ(pause(nullptr, modes.data(), 4, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(pause(tags.data(), nullptr, 4, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(resume(nullptr, 1), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(pause(tags.data(), modes.data(), 4, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("folder is NULL"));
  EXPECT_EQ(tidepool_pause(pool.get(), "weights", TIDEPOOL_PAUSE_DISK, nullptr),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("a folder of tidepool_pause_to_disk"));
  const std::array<const char*, 4> with_null = {"weights", "cache", nullptr, "adapter"};
  EXPECT_EQ(pause(with_null.data(), modes.data(), 4, folder.c_str()), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("tags[2] is NULL"));
  const std::array<const char*, 4> twice = {"weights", "cache", "weights", "adapter"};
  EXPECT_EQ(pause(twice.data(), modes.data(), 4, folder.c_str()), TIDEPOOL_INVALID_ARGUMENT);
  const std::string long_tag(1 << 20, 'x');
  const std::array<const char*, 4> unknown = {"weights", "cache", long_tag.c_str(), "\xff\xfe"};
  EXPECT_EQ(pause(unknown.data(), modes.data(), 4, folder.c_str()), TIDEPOOL_NOT_FOUND);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("region with a tag of 1048576 bytes"));
  EXPECT_EQ(resume(unknown.data() + 3, 1), TIDEPOOL_NOT_FOUND);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("\\xff\\xfe"));
  expect_asleep(false);

  ASSERT_EQ(pause(tags.data(), modes.data(), 4, folder.c_str()), TIDEPOOL_OK)
      << tidepool_last_error();
  expect_asleep(true);
  void* const held = pool.Allocate(2 << 20);
  EXPECT_EQ(resume(tags.data(), 4), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(
      tidepool_last_error(),
      AllOf(HasSubstr("regions \"weights\", \"cache\", \"optimizer\", \"adapter\" sleep on"),
            HasSubstr("raise option 'budget'")));
  expect_asleep(true);
  pool.Free(held);
  void* const other = pool.Allocate(8 << 20);
  std::memset(other, 9, 8 << 20);
  pool.Free(other);
  ASSERT_EQ(resume(tags.data(), 4), TIDEPOOL_OK) << tidepool_last_error();
  expect_asleep(false);
  EXPECT_EQ(tidepool_stream_synchronize(pool.get(), nullptr), TIDEPOOL_OK);
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const auto* const bytes = static_cast<const char*>(memory[i]);
    if (modes[i] != TIDEPOOL_PAUSE_DISCARD) {
      EXPECT_EQ(std::count(bytes, bytes + kBytes, static_cast<char>(i + 1)),
                static_cast<std::ptrdiff_t>(kBytes))
          << tags[i];
    }
    pool.Free(memory[i]);
  }
}

TEST(CApiTest, RegisteredMemoryStaysInPlace) {
  const CPool pool("device=host,device_memory=64MiB");
  void* buffer = nullptr;
  ASSERT_EQ(tidepool_allocate_in(pool.get(), "comm", 4096, nullptr, TIDEPOOL_RESIDENT, &buffer),
            TIDEPOOL_OK);
  ASSERT_EQ(tidepool_begin_registration(pool.get(), buffer, 4096), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_pause(pool.get(), "comm", TIDEPOOL_PAUSE_HOST, nullptr),
            TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("are registered by others"));
  EXPECT_EQ(tidepool_free(pool.get(), buffer, nullptr), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(tidepool_free_late(pool.get(), buffer), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(tidepool_begin_registration(pool.get(), buffer, SIZE_MAX), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_begin_registration(pool.get(), nullptr, 1), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_end_registration(pool.get(), buffer, 1), TIDEPOOL_INVALID_ARGUMENT);
  ASSERT_EQ(tidepool_end_registration(pool.get(), buffer, 4096), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_pause(pool.get(), "comm", TIDEPOOL_PAUSE_HOST, nullptr), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_begin_registration(pool.get(), buffer, 1), TIDEPOOL_FAILED_PRECONDITION);
  pool.Free(buffer);
}

TEST(CApiTest, AnAddressIsDescribed) {
  const CPool pool("device=host,device_memory=64MiB");
  void* weights = nullptr;
  ASSERT_EQ(tidepool_allocate_in(pool.get(), "weights", 4096, nullptr, TIDEPOOL_RESIDENT, &weights),
            TIDEPOOL_OK);
  ASSERT_EQ(tidepool_pause(pool.get(), "weights", TIDEPOOL_PAUSE_DISCARD, nullptr), TIDEPOOL_OK);
  const char* const inside = static_cast<char*>(weights) + 128;
  std::size_t size = 0;
  ASSERT_EQ(tidepool_describe(pool.get(), inside, nullptr, 0, &size), TIDEPOOL_OK);
  std::string text(size + 1, '?');
  ASSERT_EQ(tidepool_describe(pool.get(), inside, text.data(), size + 1, &size), TIDEPOOL_OK);
  EXPECT_THAT(text, HasSubstr("is 128 bytes inside an allocation of 4.0 KiB (4096 bytes) at 0x"));
  EXPECT_THAT(text, HasSubstr(", of region \"weights\", which sleeps"));
  EXPECT_EQ(text.find('\0'), size);
  ASSERT_EQ(tidepool_describe(pool.get(), inside, text.data(), 8, &size), TIDEPOOL_OK);
  EXPECT_STREQ(text.c_str(), "address");
  EXPECT_EQ(tidepool_describe(pool.get(), inside, nullptr, 1, &size), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_describe(pool.get(), inside, nullptr, 0, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  pool.Free(weights);
}

TEST(CApiTest, RegionsOfOlderAndNewerPrograms) {
  const CPool pool("device=host,device_memory=64MiB");
  void* address = nullptr;
  constexpr std::array kTags = {"first", "second", "third"};
  for (const char* tag : kTags) {
    ASSERT_EQ(tidepool_allocate_in(pool.get(), tag, 512, nullptr, TIDEPOOL_RESIDENT, &address),
              TIDEPOOL_OK);
  }
  constexpr std::size_t kFirst = offsetof(tidepool_region_statistics, stored_bytes);
  for (const std::size_t size : {kFirst, 2 * sizeof(tidepool_region_statistics)}) {
    std::vector<std::size_t> memory(3 * size / sizeof(std::size_t), 77);
    for (std::size_t i = 0; i < 3; ++i) memory[i * size / sizeof(std::size_t)] = size;
    std::size_t count = 0;
    ASSERT_EQ(
        tidepool_get_regions(
            pool.get(), reinterpret_cast<tidepool_region_statistics*>(memory.data()), 3, &count),
        TIDEPOOL_OK)
        << tidepool_last_error();
    for (std::size_t i = 0; i < 3; ++i) {
      tidepool_region_statistics region = {};
      std::memcpy(&region, &memory[i * size / sizeof(std::size_t)], std::min(size, sizeof region));
      EXPECT_STREQ(region.tag, kTags.at(i));
      EXPECT_EQ(region.live_bytes, 512U);
    }
  }
}

TEST(CApiTest, ARegionOfNoVersionChangesNone) {
  const CPool pool("device=host,device_memory=64MiB");
  void* address = nullptr;
  for (const char* tag : {"first", "second"}) {
    ASSERT_EQ(tidepool_allocate_in(pool.get(), tag, 512, nullptr, TIDEPOOL_RESIDENT, &address),
              TIDEPOOL_OK);
  }
  std::array<tidepool_region_statistics, 2> regions = {};
  regions[0].struct_size = sizeof regions[0];
  regions[1].struct_size = 1;
  std::size_t count = 77;
  EXPECT_EQ(tidepool_get_regions(pool.get(), regions.data(), 2, &count), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(regions[0].tag, nullptr);
  EXPECT_EQ(count, 77U);
}

TEST(CApiTest, ErrorsOfRegionsHaveTheNamesOfOptions) {
  const CPool pool("device=host,device_memory=64MiB,budget=8MiB,wait=1ms");
  void* address = nullptr;
  ASSERT_EQ(tidepool_allocate(pool.get(), 3 << 20, nullptr, TIDEPOOL_RESIDENT, &address),
            TIDEPOOL_OK);
  const auto error_of = [&](std::size_t bytes) {
    void* refused = nullptr;
    EXPECT_NE(
        tidepool_allocate_in(pool.get(), "cache", bytes, nullptr, TIDEPOOL_RESIDENT, &refused),
        TIDEPOOL_OK);
    return std::string(tidepool_last_error());
  };
  EXPECT_THAT(error_of(20 << 20), HasSubstr("it can never fit: raise option 'budget'"));
  EXPECT_THAT(error_of(6 << 20),
              HasSubstr("(option 'wait'): free memory, pause a region, or raise option 'budget'"));
  pool.Free(address);
}

TEST(CApiTest, RegionsHaveBounds) {
  const CPool pool("device=host,device_memory=64MiB,budget=8MiB");
  const auto allocate = [&](const char* tag, std::size_t bytes) {
    void* address = nullptr;
    return tidepool_allocate_in(pool.get(), tag, bytes, nullptr, TIDEPOOL_RESIDENT, &address);
  };
  ASSERT_EQ(tidepool_limit_region(pool.get(), "cache", 2 << 20, 4 << 20), TIDEPOOL_OK);
  EXPECT_EQ(allocate("weights", 7 << 20), TIDEPOOL_OUT_OF_MEMORY);
  void* address = nullptr;
  EXPECT_EQ(tidepool_allocate(pool.get(), 7 << 20, nullptr, TIDEPOOL_RESIDENT, &address),
            TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("regions hold 0 bytes of the limit, or it keeps"));
  tidepool_region_statistics cache = {};
  cache.struct_size = sizeof cache;
  std::size_t count = 0;
  ASSERT_EQ(tidepool_get_regions(pool.get(), &cache, 1, &count), TIDEPOOL_OK);
  EXPECT_EQ(cache.least_bytes, 2U << 20);
  EXPECT_EQ(cache.most_bytes, 4U << 20);
  EXPECT_EQ(allocate("cache", 5 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(allocate("cache", 4 << 20), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_limit_region(pool.get(), "cache", 0, 1 << 20), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(tidepool_limit_region(pool.get(), "cache", 2, 1), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_limit_region(pool.get(), "cache", 9 << 20, SIZE_MAX), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("raise option 'budget'"));
  EXPECT_EQ(tidepool_limit_region(pool.get(), "cache", 0, SIZE_MAX), TIDEPOOL_OK);
  ASSERT_EQ(tidepool_get_regions(pool.get(), &cache, 1, &count), TIDEPOOL_OK);
  EXPECT_EQ(cache.most_bytes, SIZE_MAX);
  EXPECT_EQ(allocate("cache", 4 << 20), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_limit_region(pool.get(), nullptr, 0, 1), TIDEPOOL_INVALID_ARGUMENT);
}

TEST(CApiTest, ContentsSleepCompressedAndOnADisk) {
  const CPool pool("device=host,device_memory=64MiB,budget=8MiB");
  constexpr std::size_t kBytes = 5 << 20;
  void* weights = nullptr;
  ASSERT_EQ(
      tidepool_allocate_in(pool.get(), "weights", kBytes, nullptr, TIDEPOOL_RESIDENT, &weights),
      TIDEPOOL_OK);
  const std::string& folder = TemporaryFolder();
  for (const bool is_on_disk : {false, true}) {
    std::memset(weights, 7, kBytes);
    ASSERT_EQ(is_on_disk
                  ? tidepool_pause_to_disk(pool.get(), "weights", folder.c_str(), nullptr)
                  : tidepool_pause(pool.get(), "weights", TIDEPOOL_PAUSE_COMPRESSED, nullptr),
              TIDEPOOL_OK)
        << tidepool_last_error();
    tidepool_region_statistics region = {};
    region.struct_size = sizeof region;
    std::size_t count = 0;
    ASSERT_EQ(tidepool_get_regions(pool.get(), &region, 1, &count), TIDEPOOL_OK);
    EXPECT_GT(region.stored_bytes, 0U);
    EXPECT_EQ(region.stored_bytes == kBytes, is_on_disk);
    void* const other = pool.Allocate(8 << 20);
    std::memset(other, 8, 8 << 20);
    pool.Free(other);
    ASSERT_EQ(tidepool_resume(pool.get(), "weights", nullptr), TIDEPOOL_OK)
        << tidepool_last_error();
    EXPECT_EQ(std::count(static_cast<char*>(weights), static_cast<char*>(weights) + kBytes, 7),
              static_cast<std::ptrdiff_t>(kBytes));
  }
  EXPECT_EQ(tidepool_pause_to_disk(pool.get(), "weights", "/missing", nullptr),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("the folder /missing takes no file"));
  EXPECT_EQ(tidepool_pause_to_disk(pool.get(), "weights", nullptr, nullptr),
            TIDEPOOL_INVALID_ARGUMENT);
  // The threads are those of the machine's profile.
  setenv("TIDEPOOL_COMPRESSION_PROFILE", "/missing/profile.json", 1);
  EXPECT_NE(tidepool_pause(pool.get(), "weights", TIDEPOOL_PAUSE_COMPRESSED, nullptr), TIDEPOOL_OK);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("TIDEPOOL_COMPRESSION_PROFILE"));
  unsetenv("TIDEPOOL_COMPRESSION_PROFILE");
  pool.Free(weights);
}

TEST(CApiTest, RegionsNeedVirtualMemory) {
  const CPool pool("device=host,memory=segments");
  void* address = nullptr;
  EXPECT_EQ(tidepool_allocate_in(pool.get(), "weights", 1, nullptr, TIDEPOOL_RESIDENT, &address),
            TIDEPOOL_UNIMPLEMENTED);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("virtual memory"));
}

TEST(CApiTest, StatisticsOfOlderAndNewerPrograms) {
  const CPool pool;
  void* const address = pool.Allocate(1000);
  struct {
    tidepool_statistics known;
    std::size_t added[3];
  } newer;
  std::memset(&newer, 0xff, sizeof newer);
  newer.known.struct_size = sizeof newer;
  EXPECT_EQ(tidepool_get_statistics(pool.get(), &newer.known), TIDEPOOL_OK);
  EXPECT_EQ(newer.known.struct_size, sizeof newer);
  EXPECT_EQ(newer.known.live_bytes, 1024U);
  for (const std::size_t added : newer.added) EXPECT_EQ(added, 0U);
  constexpr std::size_t kFirst = offsetof(tidepool_statistics, peak_budget_bytes);
  newer.known.struct_size = kFirst;
  newer.known.peak_budget_bytes = 77;
  EXPECT_EQ(tidepool_get_statistics(pool.get(), &newer.known), TIDEPOOL_OK);
  EXPECT_EQ(newer.known.peak_budget_bytes, 77U);
  for (const std::size_t size : {std::size_t{0}, kFirst - 1, ~std::size_t{0}}) {
    newer.known.struct_size = size;
    EXPECT_EQ(tidepool_get_statistics(pool.get(), &newer.known), TIDEPOOL_INVALID_ARGUMENT);
    EXPECT_THAT(tidepool_last_error(), HasSubstr("expected sizeof(tidepool_statistics)"));
  }
  pool.Free(address);
}

TEST(CApiTest, PeaksCanBeReset) {
  const CPool pool;
  void* const kept = pool.Allocate(1000);
  pool.Free(pool.Allocate(1 << 20));
  EXPECT_EQ(pool.Statistics().peak_live_bytes, (1 << 20) + 1024U);
  EXPECT_EQ(tidepool_trim(pool.get(), 0, nullptr), TIDEPOOL_OK);
  EXPECT_GT(pool.Statistics().peak_reserved_bytes, pool.Statistics().reserved_bytes);
  EXPECT_EQ(tidepool_reset_peaks(pool.get()), TIDEPOOL_OK);
  EXPECT_EQ(pool.Statistics().peak_live_bytes, 1024U);
  EXPECT_EQ(pool.Statistics().peak_reserved_bytes, pool.Statistics().reserved_bytes);
  pool.Free(kept);
  EXPECT_EQ(pool.Statistics().peak_live_bytes, 1024U);
}

TEST(CApiTest, HostStreamsMayBeDestroyedFirst) {
  const CPool pool;
  const tidepool_stream stream = pool.NewStream();
  void* const freed_late = pool.Allocate(1000, stream);
  void* const used_late = pool.Allocate(1000);
  EXPECT_EQ(tidepool_stream_destroy(pool.get(), stream), TIDEPOOL_OK);
  EXPECT_EQ(pool.Try(1000, stream), TIDEPOOL_NOT_FOUND);
  EXPECT_EQ(tidepool_stream_synchronize(pool.get(), stream), TIDEPOOL_NOT_FOUND);
  EXPECT_EQ(tidepool_stream_destroy(pool.get(), stream), TIDEPOOL_NOT_FOUND);
  EXPECT_EQ(tidepool_record_use(pool.get(), used_late, stream), TIDEPOOL_NOT_FOUND);
  EXPECT_EQ(tidepool_free(pool.get(), freed_late, stream), TIDEPOOL_NOT_FOUND);
  pool.Free(freed_late);
  EXPECT_EQ(tidepool_free(pool.get(), freed_late, NULL), TIDEPOOL_INVALID_ARGUMENT);
  pool.Free(used_late);
  int unknown = 0;
  EXPECT_EQ(pool.Try(1000, &unknown), TIDEPOOL_NOT_FOUND);
  EXPECT_THAT(tidepool_last_error(),
              HasSubstr("expected NULL or a stream of tidepool_stream_create"));
  EXPECT_EQ(tidepool_stream_forget(pool.get(), &unknown), TIDEPOOL_OK);
  void* const live = pool.Allocate(1000);
  EXPECT_EQ(tidepool_free(pool.get(), live, &unknown), TIDEPOOL_NOT_FOUND);
  pool.Free(live);
}

TEST(CApiTest, RecordsFromTimeToTime) {
  const std::string path = TemporaryFile("trace.tide");
  const CPool pool("device=host,recording=1");
  pool.Free(pool.Allocate(512));
  EXPECT_EQ(tidepool_stop_trace(pool.get()), TIDEPOOL_FAILED_PRECONDITION);
  for (const std::size_t count : {1U, 3U}) {
    EXPECT_EQ(tidepool_start_trace(pool.get(), path.c_str()), TIDEPOOL_OK);
    EXPECT_EQ(tidepool_start_trace(pool.get(), path.c_str()), TIDEPOOL_FAILED_PRECONDITION);
    for (std::size_t i = 0; i < count; ++i) pool.Free(pool.Allocate(512 + i));
    EXPECT_EQ(tidepool_stop_trace(pool.get()), TIDEPOOL_OK);
    const absl::StatusOr<Trace> trace = ReadTrace(path);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->allocations.size(), count);
  }
  EXPECT_EQ(tidepool_start_trace(pool.get(), "/nowhere/at/all"), TIDEPOOL_NOT_FOUND);
  const CPool without;
  EXPECT_EQ(tidepool_start_trace(without.get(), path.c_str()), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("option recording=1"));
  EXPECT_EQ(tidepool_stop_trace(without.get()), TIDEPOOL_FAILED_PRECONDITION);
}

// The trace begins while a region sleeps.
TEST(CApiTest, RecordsRegionsAndTheirPauses) {
  const std::string path = TemporaryFile("trace.tide");
  const CPool pool("device=host,recording=1");
  void* a = nullptr;
  void* b = nullptr;
  ASSERT_EQ(tidepool_allocate_in(pool.get(), "a", 512, nullptr, TIDEPOOL_RESIDENT, &a),
            TIDEPOOL_OK);
  ASSERT_EQ(tidepool_pause(pool.get(), "a", TIDEPOOL_PAUSE_DISCARD, nullptr), TIDEPOOL_OK);
  ASSERT_EQ(tidepool_start_trace(pool.get(), path.c_str()), TIDEPOOL_OK);
  ASSERT_EQ(tidepool_allocate_in(pool.get(), "b", 512, nullptr, TIDEPOOL_RESIDENT, &b),
            TIDEPOOL_OK);
  ASSERT_EQ(tidepool_resume(pool.get(), "a", nullptr), TIDEPOOL_OK);
  ASSERT_EQ(tidepool_pause(pool.get(), "b", TIDEPOOL_PAUSE_COMPRESSED, nullptr), TIDEPOOL_OK);
  ASSERT_EQ(tidepool_resume(pool.get(), "b", nullptr), TIDEPOOL_OK);
  pool.Free(a);
  pool.Free(b);
  void* refused = nullptr;
  EXPECT_EQ(tidepool_allocate_in(pool.get(), "b", std::size_t{1} << 45, nullptr, TIDEPOOL_RESIDENT,
                                 &refused),
            TIDEPOOL_OUT_OF_MEMORY);
  ASSERT_EQ(tidepool_stop_trace(pool.get()), TIDEPOOL_OK);
  const absl::StatusOr<Trace> trace = ReadTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->allocations.size(), 1U);
  EXPECT_EQ(trace->unmatched_frees, 1);
  EXPECT_EQ(trace->region_names[trace->allocations[0].region - 1U], "b");
  ASSERT_EQ(trace->failures.size(), 1U);
  EXPECT_EQ(trace->failures[0].region, trace->allocations[0].region);
  ASSERT_EQ(trace->pauses.size(), 1U);
  EXPECT_EQ(trace->pauses[0].region, trace->allocations[0].region);
  EXPECT_EQ(trace->pauses[0].mode, SleepMode::kCompressed);
}

constexpr char kPlan[] =
    "id,lower,upper,size,offset\na,0,3,4096,0\nb,1,4,2048,4096\nc,3,5,4096,0\n";

void PlayPlannedIteration(const CPool& pool, std::size_t bytes) {
  EXPECT_EQ(tidepool_mark_iteration(pool.get()), TIDEPOOL_OK);
  void* const a = pool.Allocate(bytes);
  void* const b = pool.Allocate(2048);
  pool.Free(a);
  pool.Free(pool.Allocate(bytes));
  pool.Free(b);
}

TEST(CApiTest, FollowsPlansAndServesOtherModelsToo) {
  const std::string plan = TestFile("plan.csv", kPlan);
  const CPool planned("device=host,plan=" + plan);
  PlayPlannedIteration(planned, 4096);
  EXPECT_EQ(planned.Statistics().planned, 3U);
  EXPECT_EQ(planned.Statistics().deviations, 0U);
  const CPool other("device=host,plan=" + plan);
  PlayPlannedIteration(other, 8192);
  EXPECT_GT(other.Statistics().deviations, 0U);
  EXPECT_EQ(other.Statistics().allocations, 3U);
}

TEST(CApiTest, RefusesPlansThatCannotBeFollowed) {
  const std::string plan = TestFile("plan.csv", kPlan);
  EXPECT_THAT(
      CreationError("device=host,budget=4096,plan=" + plan, TIDEPOOL_INVALID_ARGUMENT),
      HasSubstr("plan.csv: the plan needs 6144 bytes, and the budget is 4096: raise option"));
  const std::string fine =
      TestFile("fine.csv", "id,lower,upper,size,offset\na,0,3,8,0\nb,1,4,8,8\n");
  EXPECT_THAT(CreationError("device=host,plan=" + fine, TIDEPOOL_INVALID_ARGUMENT),
              HasSubstr("fine.csv: no plan for alignment 512: "));
  EXPECT_THAT(CreationError("device=host,plan=" + TestFile("no.csv", "nonsense\n"),
                            TIDEPOOL_INVALID_ARGUMENT),
              HasSubstr("no.csv:1: "));
}

TEST(CApiTest, SnapshotsReplaceFilesWhole) {
  const CPool pool;
  EXPECT_EQ(tidepool_write_snapshot(pool.get(), "/nowhere/at/all"), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), StartsWith("/nowhere/at/all: "));
  const std::string path = TestFile("snapshot.json", "old");
  EXPECT_EQ(tidepool_write_snapshot(pool.get(), path.c_str()), TIDEPOOL_OK);
  std::string line;
  std::getline(std::ifstream(path), line);
  EXPECT_EQ(line, "{\"device\": \"host\",");
}

// Expects that the blocks of a pool are the live allocations of a model, and holes between them.
void ExpectBlocks(const CPool& pool, const std::map<char*, std::size_t>& live) {
  std::map<char*, std::size_t> found;
  const char* end = nullptr;
  for (const tidepool_block& block : pool.Blocks()) {
    auto* const address = static_cast<char*>(block.address);
    EXPECT_TRUE(end == nullptr || address >= end);
    end = address + block.bytes;
    if (block.is_live != 0) found[address] = block.bytes;
  }
  EXPECT_EQ(found, live);
}

TEST(CApiTest, AgreesWithASlowModel) {
  const CPool pool("device=host,device_memory=2MiB,memory=virtual");
  const std::vector<tidepool_stream> streams = {nullptr, pool.NewStream(), pool.NewStream()};
  std::mt19937 random(7);
  std::map<char*, std::size_t> live;
  std::size_t live_bytes = 0;
  for (int step = 0; step < 3000; ++step) {
    const tidepool_stream stream = streams[random() % streams.size()];
    if (live.empty() || random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % 60'000;
      void* address = nullptr;
      if (tidepool_allocate(pool.get(), bytes, stream, TIDEPOOL_OFFLOADABLE, &address) ==
          TIDEPOOL_OK) {
        live[static_cast<char*>(address)] = (bytes + 511) / 512 * 512;
        live_bytes += (bytes + 511) / 512 * 512;
      }
    } else {
      const auto chosen = std::next(live.begin(), static_cast<long>(random() % live.size()));
      EXPECT_EQ(tidepool_record_use(pool.get(), chosen->first, streams[random() % 3]), TIDEPOOL_OK);
      pool.Free(chosen->first, stream);
      live_bytes -= chosen->second;
      live.erase(chosen);
    }
    EXPECT_EQ(pool.Statistics().live_bytes, live_bytes);
    EXPECT_EQ(pool.Statistics().live_count, live.size());
    if (step % 100 == 0) ExpectBlocks(pool, live);
  }
  EXPECT_GT(pool.Statistics().failures, 0U);
  for (const auto& [address, bytes] : live) pool.Free(address);
}

// Processes are those of tests/memory/pool/shared_budget_test.cc; two pools of one share alike.
TEST(CApiTest, PoolsShareABudgetByAFile) {
  const std::string path = TemporaryFile("budget");
  const std::string options = "device=host,budget=8MiB,shared_budget=" + path + ",memory=";
  const CPool first(options + "segments");
  const CPool second(options + "virtual");
  EXPECT_TRUE(std::filesystem::exists(path + ".host"));
  void* const buffer = first.Allocate(6 << 20);
  EXPECT_EQ(second.Try(3 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(),
              AllOf(HasSubstr("exceed the budget of 8.0 MiB (8388608 bytes) that pools share by " +
                              path + ".host: "),
                    HasSubstr(absl::StrCat("process ", getpid(), " holds 6.0 MiB")),
                    HasSubstr("(tidepool_trim), or raise option 'budget' in all")));
  std::size_t wanted = 0;
  EXPECT_EQ(tidepool_take_wanted_by_others(first.get(), &wanted), TIDEPOOL_OK);
  EXPECT_EQ(wanted, std::size_t{3} << 20);
  first.Free(buffer);
  EXPECT_EQ(tidepool_trim(first.get(), 0, nullptr), TIDEPOOL_OK);
  EXPECT_EQ(second.Try(3 << 20), TIDEPOOL_OK);
  EXPECT_THAT(
      CreationError("device=host,budget=9MiB,shared_budget=" + path, TIDEPOOL_FAILED_PRECONDITION),
      HasSubstr("give all of them the same option 'budget'"));
  EXPECT_EQ(tidepool_check_options((options + "virtual").c_str()), TIDEPOOL_OK)
      << tidepool_last_error();
  std::filesystem::remove(path + ".host");
}

}  // namespace
}  // namespace tidepool
