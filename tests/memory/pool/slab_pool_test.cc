// SPDX-License-Identifier: Apache-2.0
// The slabs of streams: which requests they serve, how their blocks become the pool's, and that the
// pool's callers cannot tell that they exist.
#include "lib/memory/pool/slab_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/memory/pool/pool_impl.h"
#include "lib/memory/pool/pool_options.h"
#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/rounds.h"

namespace tidepool {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::int64_t kSlabPoolBytes = 128 * kMiB;
constexpr std::int64_t kSlabBytes = kSlabPoolBytes / 128;
constexpr std::int64_t kMost = kSlabBytes / 64;  // of a request that a slab serves

class SlabPoolTest : public PoolFixture, public ::testing::WithParamInterface<PoolKind> {
 protected:
  // Makes a pool that has served two streams, and so begins slabs.
  SlabPoolTest() {
    pool_ = NewPool({.initial_bytes = kSlabPoolBytes,
                     .max_bytes = kSlabPoolBytes,
                     .memory = GetParam().memory});
    for (const Stream stream : {first_, second_}) Free(Take(kMiB, stream), stream);
  }

  void* Take(std::int64_t bytes, Stream stream) {
    const auto address = pool_->Allocate(static_cast<std::size_t>(bytes), stream);
    EXPECT_TRUE(address.ok()) << address.status();
    return address.value_or(nullptr);
  }
  void Free(void* address, Stream stream) {
    const absl::Status status = pool_->Free(address, stream);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::int64_t At(void* address) { return pool_->OffsetOf(address); }
  void ExpectInvariants() {
    const absl::Status status = pool_->CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
  }
  // Returns the block that holds an address.
  PoolBlock BlockOf(const void* address) {
    for (const PoolBlock& block : pool_->Snapshot()) {
      const auto* const begin = static_cast<const std::byte*>(block.address);
      if (begin <= address && address < begin + block.bytes) return block;
    }
    return {};
  }

  const Stream first_ = NewStream();
  const Stream second_ = NewStream();
  std::unique_ptr<Pool> pool_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, SlabPoolTest, ::testing::Values(kVirtualPool, kSegmentPool),
                         [](const auto& test) { return test.param.name; });

TEST_P(SlabPoolTest, ServesSmallRequestsOfAStreamFromOneRange) {
  std::vector<std::int64_t> firsts;
  std::vector<std::int64_t> seconds;
  for (int i = 0; i < 16; ++i) {
    firsts.push_back(At(Take(kMost, first_)));
    seconds.push_back(At(Take(kMost, second_)));
  }
  for (const auto& offsets : {firsts, seconds}) {
    const auto [lowest, highest] = std::ranges::minmax(offsets);
    EXPECT_EQ(highest - lowest, 15 * kMost);
  }
}

TEST_P(SlabPoolTest, LeavesLargeRequestsToThePool) {
  void* const small = Take(kMost, first_);
  void* const large = Take(kMost + 1, first_);
  EXPECT_GE(std::abs(At(small) - At(large)), kSlabBytes);
}

TEST_P(SlabPoolTest, CountsAsIfThereWereNoSlabs) {
  const PoolStats before = pool_->Stats();
  void* const p = Take(1000, first_);
  void* const q = Take(2000, first_);
  void* const r = Take(3000, second_);
  Free(q, first_);
  Free(r, first_);
  const PoolStats stats = pool_->Stats();
  EXPECT_EQ(stats.allocations, before.allocations + 3);
  EXPECT_EQ(stats.frees, before.frees + 2);
  EXPECT_EQ(stats.live_count, 1);
  EXPECT_EQ(stats.live_bytes, 1024);
  EXPECT_EQ(stats.free_bytes, kSlabPoolBytes - 1024);
  EXPECT_EQ(stats.reserved_bytes, kSlabPoolBytes);
  Free(p, first_);
  EXPECT_EQ(pool_->Stats().live_count, 0);
  EXPECT_EQ(pool_->Stats().live_bytes, 0);
}

TEST_P(SlabPoolTest, ShowsEachAllocationInASnapshot) {
  std::map<void*, std::int64_t> live;
  for (int i = 1; i <= 20; ++i) live[Take(i * 512, i % 2 == 0 ? first_ : second_)] = i * 512;
  std::map<void*, std::int64_t> used;
  for (const PoolBlock& block : pool_->Snapshot()) {
    if (block.used) used[block.address] = block.bytes;
  }
  EXPECT_EQ(used, live);
  EXPECT_EQ(pool_->Stats().live_count, 20);
  for (const auto& [address, bytes] : live) Free(address, first_);
  ExpectInvariants();
  EXPECT_EQ(pool_->Stats().live_count, 0);
}

TEST_P(SlabPoolTest, KnowsTheStreamOfAnAllocation) {
  void* const p = Take(512, first_);
  EXPECT_EQ(*pool_->AllocatedOn(p), first_);
  EXPECT_EQ(pool_->FreeOwn(p, second_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*pool_->AllocatedOn(p), first_);
  EXPECT_TRUE(pool_->FreeOwn(p, first_).ok());
  EXPECT_FALSE(pool_->AllocatedOn(p).ok());
}

TEST_P(SlabPoolTest, HandsOverABlockThatAnotherStreamFrees) {
  void* const before = Take(512, first_);
  void* const p = Take(512, first_);
  void* const after = Take(512, first_);
  Free(p, second_);
  ExpectInvariants();
  EXPECT_THAT(BlockOf(p).pending, Contains(second_));
  Free(before, first_);
  Free(after, first_);
  EXPECT_THAT(BlockOf(after).pending, Contains(first_));
  EXPECT_EQ(pool_->Stats().live_count, 0);
  ExpectInvariants();
}

TEST_P(SlabPoolTest, HandsOverABlockThatAnotherStreamUses) {
  void* const p = Take(512, first_);
  ASSERT_TRUE(pool_->RecordUse(p, second_).ok());
  Free(p, first_);
  EXPECT_THAT(BlockOf(p).pending, Contains(second_));
  ExpectInvariants();
}

// A slab begins in memory that a copy still reads: its stream waits for the copy on the device, the
// stream that frees a block does not.
TEST_P(SlabPoolTest, HandsOverABlockUnderTheWorkBeforeItsSlab) {
  const Stream third = NewStream();
  void* const all = Take(kSlabPoolBytes, first_);
  std::vector<char> read(kMiB);
  device_->HoldCopies();
  ASSERT_TRUE(device_->Copy(read.data(), all, kMiB, CopyDirection::kFromDevice, first_).ok());
  Free(all, first_);
  void* const before = Take(kMost, second_);
  void* const p = Take(kMost, second_);
  void* const after = Take(kMost, second_);
  Free(p, third);
  EXPECT_THAT(BlockOf(p).pending, Contains(second_));
  Free(before, second_);
  Free(after, second_);
  device_->ReleaseCopies();
  ASSERT_TRUE(device_->SynchronizeStream(first_).ok());
}

// The last owner of a slab's memory is its stream.
TEST_P(SlabPoolTest, EndsUnderTheWorkOfItsStream) {
  void* const p = Take(512, first_);
  Free(p, first_);
  const PoolBlock block = BlockOf(p);
  EXPECT_FALSE(block.used);
  EXPECT_THAT(block.pending, Contains(first_));
}

TEST_P(SlabPoolTest, KnowsMisuse) {
  void* const p = Take(1024, first_);
  const auto message = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(pool_->Free(static_cast<std::byte*>(p) + 512, first_)),
              HasSubstr("512 bytes inside a live allocation"));
  Free(p, first_);
  for (const Stream stream : {first_, second_}) {
    EXPECT_THAT(message(pool_->Free(p, stream)), HasSubstr("double free"));
    EXPECT_THAT(message(pool_->RecordUse(p, stream)), HasSubstr("double free"));
  }
  EXPECT_EQ(pool_->Stats().live_count, 0);
}

TEST_P(SlabPoolTest, EndsBeforeMemoryIsShort) {
  void* const small = Take(512, first_);
  Free(small, first_);
  void* const all = Take(kSlabPoolBytes, second_);
  EXPECT_FALSE(pool_->Allocate(512, first_).ok());
  Free(all, second_);
  ExpectInvariants();
}

TEST_P(SlabPoolTest, EndsByTrimming) {
  Free(Take(512, first_), first_);
  EXPECT_EQ(*pool_->Trim(), kSlabPoolBytes);
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_P(SlabPoolTest, EndsWithItsStream) {
  void* const p = Take(512, first_);
  void* const q = Take(512, first_);
  Free(p, first_);
  ASSERT_TRUE(device_->DestroyStream(first_).ok());
  EXPECT_EQ(pool_->Allocate(512, first_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pool_->Free(q, first_).code(), absl::StatusCode::kNotFound);
  Free(q, second_);
  EXPECT_EQ(pool_->Stats().live_count, 0);
  Free(Take(kSlabPoolBytes, second_), second_);
  ExpectInvariants();
}

// Slabs of streams that exist no more would leave smaller ones to the others.
TEST_P(SlabPoolTest, EndsBeforeAnotherStreamBeginsOne) {
  for (int i = 0; i < 16; ++i) {
    const Stream stream = NewStream();
    Free(Take(512, stream), stream);
    ASSERT_TRUE(device_->DestroyStream(stream).ok());
  }
  const Stream last = NewStream();
  const std::int64_t begin = At(Take(kMost, last));
  Free(Take(kMiB, second_), second_);  // beside the slab
  EXPECT_EQ(At(Take(kMost, last)), begin + kMost);
  EXPECT_EQ(At(Take(kMost, last)), begin + 2 * kMost);
  ExpectInvariants();
}

TEST_P(SlabPoolTest, HidesNoFreeFromWaiters) {
  std::vector<void*> live;
  for (int i = 0; i < 64; ++i) live.push_back(Take(512, first_));
  const std::int64_t blocked = pool_->Stats().blocked;
  absl::StatusOr<void*> all;
  std::thread waiter([&] { all = pool_->AllocateBlocking(kSlabPoolBytes, second_); });
  while (pool_->Stats().blocked == blocked) std::this_thread::yield();
  for (void* p : live) Free(p, first_);
  waiter.join();
  ASSERT_TRUE(all.ok()) << all.status();
  Free(*all, second_);
}

// Small allocations that stay fill the slab; the slab then ends instead of being asked for ever.
TEST_P(SlabPoolTest, GivesAFullSlabUp) {
  std::vector<void*> live;
  for (int i = 0; i < 6000; ++i) live.push_back(Take(512, first_));
  ExpectInvariants();
  std::ranges::sort(live);
  EXPECT_EQ(std::ranges::adjacent_find(live), live.end());
  EXPECT_EQ(pool_->Stats().live_count, 6000);
  for (void* p : live) Free(p, first_);
  EXPECT_EQ(pool_->Stats().live_bytes, 0);
  Free(Take(kSlabPoolBytes, second_), second_);
}

// Slabs without caches, which would serve most of these requests.
class SlabSizeTest : public SlabPoolTest {
 protected:
  SlabSizeTest() {
    PoolOptions options = *pool::ResolveOptions(*device_, {.initial_bytes = kSlabPoolBytes,
                                                           .max_bytes = kSlabPoolBytes,
                                                           .memory = GetParam().memory});
    auto books =
        std::make_unique<pool::PoolImpl>(*device_, options, pool::MakePolicy(options).value());
    EXPECT_TRUE(books->Start().ok());
    books_ = books.get();
    pool_ = std::make_unique<pool::SlabPool>(*device_, options, std::move(books));
    for (const std::int64_t bytes : {kMiB, kMost}) {
      for (const Stream stream : {first_, second_}) Free(Take(bytes, stream), stream);
    }
  }

  // Whether the slab of a stream serves a request of this size.
  bool IsServed(std::int64_t bytes, Stream stream) {
    const std::int64_t before = books_->Stats().allocations;
    Free(Take(bytes, stream), stream);
    return books_->Stats().allocations == before;
  }
  // Replaces 100 live blocks of the largest size for a slab many times. A slab holds 64 of them.
  std::vector<void*> Churn(Stream stream) {
    std::vector<void*> live;
    for (int i = 0; i < 100; ++i) live.push_back(Take(kMost, stream));
    for (std::size_t i = 0; i < 20'000; ++i) {
      void*& block = live[i * 7 % live.size()];
      Free(block, stream);
      block = Take(kMost, stream);
    }
    return live;
  }

  pool::PoolImpl* books_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Kinds, SlabSizeTest, ::testing::Values(kVirtualPool, kSegmentPool),
                         [](const auto& test) { return test.param.name; });

TEST_P(SlabSizeTest, GrowsWithTheMemoryOfItsStream) {
  EXPECT_TRUE(IsServed(kMost, first_));
  EXPECT_FALSE(IsServed(kMost + 1, first_));
  const std::vector<void*> live = Churn(first_);
  EXPECT_TRUE(IsServed(2 * kMost, first_));
  EXPECT_FALSE(IsServed(kMost + 1, second_));
  ExpectInvariants();
  for (void* p : live) Free(p, first_);
  EXPECT_EQ(pool_->Stats().live_bytes, 0);
  EXPECT_EQ(pool_->Stats().free_bytes, kSlabPoolBytes);
}

TEST_P(SlabSizeTest, IsSmallAgainAfterMemoryWasShort) {
  for (void* p : Churn(first_)) Free(p, first_);
  Free(Take(kSlabPoolBytes, second_), second_);
  Free(Take(kMost, first_), first_);
  EXPECT_TRUE(IsServed(kMost, first_));
  EXPECT_FALSE(IsServed(kMost + 1, first_));
}

TEST_P(SlabSizeTest, LeavesThreeQuartersOfTheFreeMemoryToOthers) {
  void* const rest = Take(kSlabPoolBytes - 9 * kMiB, second_);
  const std::vector<void*> live = Churn(first_);
  EXPECT_FALSE(IsServed(kMost + 1, first_));
  Free(rest, second_);
  for (void* p : live) Free(p, first_);
  for (void* p : Churn(first_)) Free(p, first_);
  EXPECT_TRUE(IsServed(kMost + 1, first_));
}

// A slab that can hold no more blocks would hold no more of them in more bytes.
TEST_P(SlabSizeTest, StaysSmallForSmallBlocks) {
  std::vector<void*> live;
  for (int i = 0; i < 4000; ++i) live.push_back(Take(512, first_));
  for (void* p : live) Free(p, first_);
  EXPECT_TRUE(IsServed(kMost, first_));
  EXPECT_FALSE(IsServed(kMost + 1, first_));
}

// How random calls are drawn. Snapshots and trims end all slabs.
struct Calls {
  int streams = 4;
  int largest = 8192;  // of most requests; those of a quarter are at most 1 MiB
  bool ends_slabs = true;
};

class SlabPoolRandomTest : public SlabPoolTest {
 protected:
  void Play(const Calls& calls);
};

INSTANTIATE_TEST_SUITE_P(Kinds, SlabPoolRandomTest, ::testing::Values(kVirtualPool, kSegmentPool),
                         [](const auto& test) { return test.param.name; });

// Any calls in any order: live blocks never overlap, and the figures are those of a map.
void SlabPoolRandomTest::Play(const Calls& calls) {
  std::mt19937_64 random(1);
  std::vector<Stream> streams = {first_, second_};
  while (streams.size() < static_cast<std::size_t>(calls.streams)) streams.push_back(NewStream());
  struct Live {
    std::int64_t bytes = 0;
    Stream stream;
  };
  std::map<std::byte*, Live> live;  // by address
  std::int64_t live_bytes = 0;
  const auto any = [&] { return streams[random() % streams.size()]; };
  const auto add = [&](Stream stream) {
    const auto bytes = static_cast<std::int64_t>(
        1 + random() % static_cast<std::uint64_t>(random() % 4 == 0 ? kMiB : calls.largest));
    const auto made = pool_->Allocate(static_cast<std::size_t>(bytes), stream);
    if (!made.ok()) return;
    const std::int64_t rounded = pool_->Stats().live_bytes - live_bytes;
    const auto [at, is_new] = live.emplace(static_cast<std::byte*>(*made), Live{rounded, stream});
    ASSERT_TRUE(is_new && rounded >= bytes);
    if (at != live.begin()) {
      ASSERT_LE(std::prev(at)->first + std::prev(at)->second.bytes, at->first);
    }
    if (std::next(at) != live.end()) {
      ASSERT_LE(at->first + rounded, std::next(at)->first);
    }
    live_bytes += rounded;
  };
  for (int step = 0; step < testing::Rounds(20'000); ++step) {
    const std::uint64_t choice = random() % 100;
    if (live.empty() || choice < 48) {
      add(any());
      continue;
    }
    const auto at = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
    if (choice < 94) {
      Free(at->first, choice < 90 ? at->second.stream : any());
      live_bytes -= at->second.bytes;
      live.erase(at);
    } else if (choice < 98) {
      ASSERT_TRUE(pool_->RecordUse(at->first, any()).ok());
    } else if (!calls.ends_slabs) {
      continue;
    } else if (step % 16 == 0) {
      ASSERT_EQ(pool_->Snapshot().empty(), false);
    } else if (step % 8 == 0) {
      ASSERT_TRUE(pool_->Trim().ok());
    }
    const PoolStats stats = pool_->Stats();
    ASSERT_EQ(stats.live_bytes, live_bytes);
    ASSERT_EQ(stats.live_count, static_cast<std::int64_t>(live.size()));
    if (step % 64 == 0) ExpectInvariants();
  }
  for (const auto& [address, block] : live) Free(address, block.stream);
  ExpectInvariants();
}

TEST_P(SlabPoolRandomTest, IsAMapOfLiveBlocks) { Play({}); }

TEST_P(SlabPoolRandomTest, IsAMapWhileSlabsGrow) {
  Play({.streams = 2, .largest = 2 * kMost, .ends_slabs = false});
}

// Threads on streams of their own allocate and free, some blocks on the stream of another thread.
TEST_P(SlabPoolTest, ServesThreads) {
  constexpr int kThreads = 4;
  const auto work = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const Stream stream = NewStream();
    std::vector<void*> own;
    for (int step = 0; step < testing::Rounds(5000); ++step) {
      if (own.size() < 100 && random() % 2 == 0) {
        own.push_back(Take(static_cast<std::int64_t>(1 + random() % 4096), stream));
      } else if (!own.empty()) {
        std::swap(own[random() % own.size()], own.back());
        Free(own.back(), random() % 16 == 0 ? first_ : stream);
        own.pop_back();
      }
      if (random() % 512 == 0) pool_->Snapshot();
    }
    for (void* p : own) Free(p, stream);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool_->Stats().live_count, 0);
  EXPECT_EQ(pool_->Stats().live_bytes, 0);
  ExpectInvariants();
}

}  // namespace
}  // namespace tidepool
