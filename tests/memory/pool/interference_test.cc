// SPDX-License-Identifier: Apache-2.0
// Other threads, streams and the device act while a call changes which memory a pool has.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "tests/memory/pool/gate.h"
#include "tests/memory/pool/hooked_device.h"
#include "tests/memory/pool/memory_store.h"
#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

class InterferenceTest : public PoolFixture {
 protected:
  void Make(PoolOptions options) { pool_ = Pool::Create(&hooked_, options).value(); }
  void* Take(std::int64_t bytes, Stream stream) {
    const absl::StatusOr<void*> p = pool_->Allocate(static_cast<std::size_t>(bytes), stream);
    EXPECT_TRUE(p.ok()) << p.status();
    ExpectInvariants();
    return p.value_or(nullptr);
  }
  void Free(void* address, Stream stream) {
    EXPECT_TRUE(pool_->Free(address, stream).ok());
    ExpectInvariants();
  }
  void ExpectInvariants() {
    const absl::Status status = pool_->CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
  }
  void AwaitCalls(Call call, std::int64_t count) {
    while (device_->CountCalls(call) < count) std::this_thread::yield();
  }

  const std::int64_t granule_ = device_->granularity();
  HookedDevice hooked_{*device_};
  std::unique_ptr<Pool> pool_;
};

// The caches are emptied when a stream is destroyed. A cached block can be a neighbour of the
// memory that was just taken for a request, and become one free block with it.
TEST_F(InterferenceTest, AStreamIsDestroyedDuringGrowth) {
  Make({.initial_bytes = 16 * kMiB, .max_bytes = 16 * kMiB});
  const Stream grows = NewStream();
  const Stream caches = NewStream();
  const Stream dies = NewStream();
  void* const first = Take(kMiB, grows);
  void* const second = Take(kMiB, grows);
  void* const rest = Take(14 * kMiB, grows);
  Free(second, grows);
  EXPECT_EQ(*pool_->Trim(), kMiB);
  void* before = nullptr;
  hooked_.before_create = [&] {
    EXPECT_TRUE(pool_->Free(first, grows).ok());
    before = pool_->Allocate(kMiB - 4096, caches).value();
    void* const cached = pool_->Allocate(4096, caches).value();
    EXPECT_EQ(pool_->OffsetOf(cached), kMiB - 4096);
    EXPECT_TRUE(pool_->Free(cached, caches).ok());
    EXPECT_TRUE(hooked_.DestroyStream(dies).ok());
  };
  void* const p = Take(kMiB, grows);
  EXPECT_EQ(pool_->OffsetOf(p), kMiB);
  EXPECT_FALSE(hooked_.HasStream(dies));
  for (void* const address : {before, rest, p}) Free(address, grows);
}

// Growth counts on free memory at the end, which another thread takes while the device is called.
TEST_F(InterferenceTest, FreeMemoryIsTakenDuringGrowth) {
  Make({.initial_bytes = 2 * kMiB, .max_bytes = 8 * kMiB, .growth = 0});
  const Stream stream = NewStream();
  void* const first = Take(kMiB, stream);
  void* other = nullptr;
  hooked_.before_create = [&] { other = pool_->Allocate(kMiB, stream).value(); };
  void* const p = Take(2 * kMiB, stream);
  EXPECT_EQ(pool_->OffsetOf(other), kMiB);
  EXPECT_EQ(pool_->OffsetOf(p), 2 * kMiB);
  EXPECT_EQ(pool_->Stats().live_bytes, 4 * kMiB);
  for (void* const address : {first, other, p}) Free(address, stream);
}

// Another thread gives a segment back, and the budget is not there before that has happened.
TEST_F(InterferenceTest, ATrimIsAboutToMakeBudget) {
  Make({.max_bytes = 8 * kMiB, .memory = PoolMemory::kSegments});
  const Stream stream = NewStream();
  Free(Take(4 * kMiB, stream), stream);
  std::future<absl::StatusOr<void*>> allocation;
  hooked_.before_free = [&] {
    allocation = std::async(std::launch::async, [&] { return pool_->Allocate(8 * kMiB, stream); });
    // An allocation that did not wait for the trim would finish in this time.
    for (int i = 0; i < 10000 && pool_->Stats().failures == 0; ++i) std::this_thread::yield();
  };
  EXPECT_TRUE(pool_->Trim().ok());
  const absl::StatusOr<void*> p = allocation.get();
  ASSERT_TRUE(p.ok()) << p.status();
  Free(*p, stream);
}

TEST_F(InterferenceTest, ATrimIsAboutToMakeRoomOnTheDevice) {
  Make({.max_bytes = 8 * kMiB, .memory = PoolMemory::kSegments});
  const Stream stream = NewStream();
  Free(Take(4 * kMiB, stream), stream);
  const std::int64_t rest = device_->memory_bytes() - device_->used_bytes() - 2 * kMiB;
  void* const others = device_->AllocateMemory(rest).value();
  std::future<absl::StatusOr<void*>> allocation;
  hooked_.before_free = [&] {
    const std::int64_t calls = device_->CountCalls(Call::kAllocateMemory);
    allocation = std::async(std::launch::async, [&] { return pool_->Allocate(3 * kMiB, stream); });
    AwaitCalls(Call::kAllocateMemory, calls + 1);
  };
  EXPECT_TRUE(pool_->Trim().ok());
  const absl::StatusOr<void*> p = allocation.get();
  ASSERT_TRUE(p.ok()) << p.status();
  Free(*p, stream);
  EXPECT_TRUE(device_->FreeMemory(others).ok());
}

// The device does not have memory again that is still mapped at old addresses.
TEST_F(InterferenceTest, MemoryIsMovedDuringATrim) {
  Make({.max_bytes = 8 * granule_, .remap = true});
  const std::array streams = {NewStream(), NewStream()};
  std::array<Gate, 2> gates;
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Take(granule_, streams[0]));
  gates[0].Close(*device_, streams[0]);
  for (int i = 0; i < 8; i += 2) Free(blocks[i], streams[0]);
  void* const large = Take(4 * granule_, streams[0]);
  const std::int64_t waits = device_->CountCalls(Call::kSynchronizeEvent);
  auto trim = std::async(std::launch::async, [&] { return pool_->Trim(); });
  AwaitCalls(Call::kSynchronizeEvent, waits + 1);
  gates[1].Close(*device_, streams[1]);
  for (const int i : {1, 3}) Free(blocks[i], streams[1]);
  Free(Take(2 * granule_, streams[1]), streams[1]);
  EXPECT_EQ(pool_->Stats().remaps, 2);
  gates[0].Open();
  AwaitCalls(Call::kSynchronizeEvent, waits + 2);
  gates[1].Open();
  EXPECT_EQ(trim.get().value(), 2 * granule_);
  EXPECT_EQ(pool_->Stats().reserved_bytes, 6 * granule_);
  EXPECT_EQ(device_->used_bytes(), 6 * granule_);
  for (void* const address : {blocks[5], blocks[7], large}) Free(address, streams[0]);
}

// A thread that waits in line has room after an allocation that took memory and failed.
TEST_F(InterferenceTest, TheDeviceFailsAfterGrowth) {
  Make({.initial_bytes = kMiB, .max_bytes = 8 * kMiB});
  const Stream first = NewStream();
  const Stream second = NewStream();
  void* const live = Take(512 * kKiB, first);
  Free(Take(64 * kKiB, second), second);
  Gate gate;
  void* const old = Take(512 * kKiB, first);
  gate.Close(*device_, first);
  Free(old, first);
  const std::int64_t rest = device_->memory_bytes() - device_->used_bytes();
  void* const others = device_->AllocateMemory(rest).value();
  auto waiting =
      std::async(std::launch::async, [&] { return pool_->AllocateBlocking(2 * kMiB, first); });
  while (pool_->Stats().blocked == 0) std::this_thread::yield();
  ASSERT_TRUE(device_->FreeMemory(others).ok());
  device_->FailCall(Call::kWaitEvent, 1);
  EXPECT_TRUE(absl::IsUnavailable(pool_->Allocate(kMiB, second).status()));
  const absl::StatusOr<void*> p = waiting.get();
  ASSERT_TRUE(p.ok()) << p.status();
  gate.Open();
  for (void* const address : {live, *p}) Free(address, first);
}

// When the budget is no whole number of granules, a part of the last one can be out of use.
class CutOffEndTest : public InterferenceTest {
 protected:
  CutOffEndTest() {
    Make({.max_bytes = 9 * granule_ / 2});
    std::vector<void*> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(Take(granule_, second_));
    first_block_ = blocks[0];
    middle_ = blocks[2];
    void* const end = Take(granule_ / 2, second_);
    Free(blocks[1], second_);
    EXPECT_EQ(*pool_->Trim(), granule_);
    for (void* const address : {blocks[3], end}) Free(address, second_);
    Free(Take(2 * granule_, second_), second_);  // all of the last granule
    last_ = Take(3 * granule_ / 2, second_);
    void* const cut_off = Take(granule_ / 2, first_);
    EXPECT_EQ(pool_->OffsetOf(cut_off), 9 * granule_ / 2);
    gate_.Close(*device_, first_);
    EXPECT_TRUE(device_->Fill(cut_off, 1, granule_ / 2, first_).ok());
    Free(cut_off, first_);
    again_ = Take(granule_, second_);
    EXPECT_EQ(pool_->OffsetOf(again_), granule_);
  }

  const Stream first_ = NewStream();
  const Stream second_ = NewStream();
  void* first_block_ = nullptr;
  void* again_ = nullptr;
  void* middle_ = nullptr;
  void* last_ = nullptr;
  std::future<absl::StatusOr<std::int64_t>> trim_;
  Gate gate_;
};

TEST_F(CutOffEndTest, IsUsedAgainAfterItsWork) {
  Free(first_block_, second_);
  EXPECT_EQ(*pool_->Trim(), granule_);
  Free(last_, second_);
  const std::int64_t waits = pool_->Stats().stream_waits;
  void* const p = Take(2 * granule_, second_);
  EXPECT_EQ(pool_->OffsetOf(p), 3 * granule_);
  EXPECT_EQ(pool_->Stats().stream_waits, waits + 1);
  gate_.Open();
  for (void* const address : {again_, middle_, p}) Free(address, second_);
}

TEST_F(CutOffEndTest, IsGivenBackAfterItsWork) {
  Free(last_, second_);
  const std::int64_t waits = device_->CountCalls(Call::kSynchronizeEvent);
  trim_ = std::async(std::launch::async, [&] { return pool_->Trim(); });
  AwaitCalls(Call::kSynchronizeEvent, waits + 1);
  EXPECT_EQ(device_->used_bytes(), 5 * granule_);
  gate_.Open();
  EXPECT_EQ(*trim_.get(), 2 * granule_);
  for (void* const address : {first_block_, again_, middle_}) Free(address, second_);
}

// A store has no use for contents of no bytes.
TEST_F(InterferenceTest, TheLastAllocationIsFreedDuringAPause) {
  Make({.max_bytes = 8 * kMiB});
  const Stream stream = NewStream();
  Pool& region = *pool_->Region("weights").value();
  void* const held = region.Allocate(kMiB, stream).value();
  hooked_.before_pin = [&] { EXPECT_TRUE(region.Free(held, stream).ok()); };
  StoreFault fault;
  const absl::Status paused =
      pool_->PauseRegionInto("weights", std::make_unique<MemoryStore>(kMiB, fault), stream);
  EXPECT_TRUE(paused.ok()) << paused;
  EXPECT_EQ(pool_->RegionStatistics().front().stored_bytes, 0);
  Free(Take(8 * kMiB, stream), stream);
  EXPECT_TRUE(pool_->ResumeRegion("weights", stream).ok());
  ExpectInvariants();
}

// Statistics do not wait for the device, and neither does a thread that holds the books of the
// pool.
TEST_F(InterferenceTest, PeaksAreResetWhileARegionCallsForMemory) {
  Make({.max_bytes = 8 * kMiB});
  const Stream stream = NewStream();
  Pool& region = *pool_->Region("weights").value();
  void* const first = region.Allocate(kMiB, stream).value();
  hooked_.before_create = [&] {
    pool_->ResetPeaks();
    EXPECT_EQ(pool_->Stats().peak_budget_bytes, kMiB);
  };
  void* const second = region.Allocate(kMiB, stream).value();
  EXPECT_EQ(hooked_.before_create, nullptr);
  EXPECT_EQ(pool_->Stats().peak_budget_bytes, 2 * kMiB);
  for (void* const address : {first, second}) EXPECT_TRUE(region.Free(address, stream).ok());
}

// Work for which the device waits in such a call may depend on a free in the region.
TEST_F(InterferenceTest, ARegionSleepsAndWakesDuringCallsForMemory) {
  Make({.max_bytes = 8 * kMiB});
  const Stream stream = NewStream();
  Pool& region = *pool_->Region("weights").value();
  const std::array held = {region.Allocate(kMiB, stream).value(),
                           region.Allocate(kMiB, stream).value()};
  std::vector<void*> taken;
  for (const bool sleeps : {true, false}) {
    std::future<absl::Status> call;
    hooked_.before_create = [&] {
      call = std::async(std::launch::async, [&] {
        return sleeps ? pool_->PauseRegion("weights", PauseMode::kDiscard, stream)
                      : pool_->ResumeRegion("weights", stream);
      });
      // A thread that waited for the device and held the books would have them after this time.
      for (int i = 0; i < 10000; ++i) {
        EXPECT_EQ(region.Stats().live_count, sleeps ? 2 : 1);
        std::this_thread::yield();
      }
      EXPECT_TRUE(pool_->Free(held[sleeps ? 0 : 1], stream).ok());
    };
    taken.push_back(Take(kMiB, stream));
    const absl::Status status = call.get();
    EXPECT_TRUE(status.ok()) << status;
    ExpectInvariants();
    EXPECT_TRUE(pool_->Trim().ok());  // so that the next request calls the device
  }
  for (void* const address : taken) Free(address, stream);
}

}  // namespace
}  // namespace tidepool
