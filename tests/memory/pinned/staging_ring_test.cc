// SPDX-License-Identifier: Apache-2.0
// A ring of slots: threads get them in order, one turn after the other.
#include "tidepool/staging_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "tests/memory/pinned/model_device.h"

namespace tidepool {
namespace {

using testing::kKiB;
using testing::kMiB;
using testing::ModelDevice;

class StagingRingTest : public ::testing::Test {
 protected:
  std::unique_ptr<StagingRing> NewRing(const StagingRingOptions& options) {
    return *StagingRing::Create(pool_.get(), options);
  }
  // Waits until `blocked` calls had to wait.
  static void AwaitBlocked(const StagingRing& ring, std::int64_t blocked) {
    while (ring.Stats().blocked < blocked) std::this_thread::yield();
  }

  ModelDevice device_;
  std::unique_ptr<PinnedPool> pool_ = *PinnedPool::Create(&device_, {.max_bytes = kMiB});
};

TEST_F(StagingRingTest, RefusesOptionsOutOfRange) {
  for (const StagingRingOptions& options :
       {StagingRingOptions{.slots = 0}, StagingRingOptions{.slots = -1},
        StagingRingOptions{.slots = 65537}, StagingRingOptions{.slot_bytes = 0},
        StagingRingOptions{.slot_bytes = -1},
        StagingRingOptions{.slot_bytes = std::numeric_limits<std::int64_t>::max()}}) {
    const absl::Status status = StagingRing::Create(pool_.get(), options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("expected"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(StagingRing::Create(nullptr, {}).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(
      StagingRing::Create(pool_.get(), {.slots = 5, .slot_bytes = 256 * kKiB}).status()));
}

TEST_F(StagingRingTest, TakesItsMemoryFromThePoolAndGivesItBack) {
  {
    const auto ring = NewRing({.slots = 4, .slot_bytes = 256 * kKiB});
    EXPECT_EQ(pool_->Stats().live_bytes, kMiB);
    EXPECT_EQ(ring->slots(), 4);
    EXPECT_EQ(ring->slot_bytes(), 256 * kKiB);
  }
  EXPECT_EQ(pool_->Stats().live_bytes, 0);
}

TEST_F(StagingRingTest, SlotsGoRoundAndDoNotOverlap) {
  const auto ring = NewRing({.slots = 3, .slot_bytes = 5000});
  std::vector<StagingSlot> slots;
  for (std::int64_t i = 0; i < 3; ++i) {
    slots.push_back(*ring->Acquire());
    EXPECT_EQ(slots.back().index, i);
    EXPECT_EQ(slots.back().bytes, 5000);
    if (i > 0) {
      EXPECT_GE(slots[i].data - slots[i - 1].data, 5000);
    }
  }
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(ring->Release(i % 3).ok());
    const StagingSlot slot = *ring->Acquire(absl::InfinitePast());
    EXPECT_EQ(slot.index, i % 3);
    EXPECT_EQ(slot.data, slots[i % 3].data);
  }
  EXPECT_EQ(ring->Stats().acquires, 103);
  EXPECT_EQ(ring->Stats().in_use, 3);
  EXPECT_EQ(ring->Stats().peak_in_use, 3);
  EXPECT_EQ(ring->Stats().blocked, 0);
}

TEST_F(StagingRingTest, WaitsForTheSlotWhoseTurnItIs) {
  const auto ring = NewRing({.slots = 2, .slot_bytes = 4096});
  ASSERT_TRUE(ring->Acquire().ok());
  ASSERT_TRUE(ring->Acquire().ok());
  ASSERT_TRUE(ring->Release(1).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(ring->Acquire(absl::InfinitePast()).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(ring->Acquire(absl::Now()).status()));
  auto waits = std::async(std::launch::async, [&] { return ring->Acquire()->index; });
  AwaitBlocked(*ring, 2);
  ASSERT_TRUE(ring->Release(0).ok());
  EXPECT_EQ(waits.get(), 0);
  EXPECT_EQ(ring->Acquire()->index, 1);
}

TEST_F(StagingRingTest, ServesInTheOrderOfArrival) {
  const auto ring = NewRing({.slots = 2, .slot_bytes = 4096});
  ASSERT_TRUE(ring->Acquire().ok());
  ASSERT_TRUE(ring->Acquire().ok());
  auto first = std::async(std::launch::async, [&] { return ring->Acquire()->index; });
  AwaitBlocked(*ring, 1);
  auto second = std::async(std::launch::async, [&] { return ring->Acquire()->index; });
  AwaitBlocked(*ring, 2);
  ASSERT_TRUE(ring->Release(1).ok());
  ASSERT_TRUE(ring->Release(0).ok());
  EXPECT_EQ(first.get(), 0);
  EXPECT_EQ(second.get(), 1);
}

TEST_F(StagingRingTest, RefusesToReleaseWhatIsNotInUse) {
  const auto ring = NewRing({.slots = 2, .slot_bytes = 4096});
  ASSERT_TRUE(ring->Acquire().ok());
  for (const std::int64_t index : {-1, 1, 2}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ring->Release(index))) << index;
  }
  EXPECT_TRUE(ring->Release(0).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(ring->Release(0)));
}

TEST_F(StagingRingTest, CloseEndsTheWaitingOfThreads) {
  const auto ring = NewRing({.slots = 1, .slot_bytes = 4096});
  ASSERT_TRUE(ring->Acquire().ok());
  auto waits = std::async(std::launch::async, [&] { return ring->Acquire().status(); });
  auto waits_till = std::async(
      std::launch::async, [&] { return ring->Acquire(absl::Now() + absl::Hours(1)).status(); });
  AwaitBlocked(*ring, 2);
  ring->Close();
  EXPECT_TRUE(absl::IsCancelled(waits.get()));
  EXPECT_TRUE(absl::IsCancelled(waits_till.get()));
  EXPECT_TRUE(ring->Release(0).ok());
  EXPECT_TRUE(absl::IsCancelled(ring->Acquire().status()));
}

// A thread fills slots and another empties them: the data arrives complete and in order.
TEST_F(StagingRingTest, CarriesAStreamOfData) {
  constexpr int kPieces = 2000;
  const auto ring = NewRing({.slots = 4, .slot_bytes = sizeof(int)});
  std::mutex mutex;
  std::condition_variable was_filled;
  std::vector<StagingSlot> filled;
  std::thread producer([&] {
    for (int i = 0; i < kPieces; ++i) {
      const StagingSlot slot = *ring->Acquire();
      *reinterpret_cast<int*>(slot.data) = i;
      const std::lock_guard lock(mutex);
      filled.push_back(slot);
      was_filled.notify_one();
    }
  });
  for (int i = 0; i < kPieces; ++i) {
    std::unique_lock lock(mutex);
    was_filled.wait(lock, [&] { return filled.size() > static_cast<std::size_t>(i); });
    const StagingSlot slot = filled[static_cast<std::size_t>(i)];
    lock.unlock();
    EXPECT_EQ(slot.index, i % 4);
    EXPECT_EQ(*reinterpret_cast<int*>(slot.data), i);
    ASSERT_TRUE(ring->Release(slot.index).ok());
  }
  producer.join();
  EXPECT_LE(ring->Stats().peak_in_use, 4);
  EXPECT_EQ(ring->Stats().in_use, 0);
}

}  // namespace
}  // namespace tidepool
