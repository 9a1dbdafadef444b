// SPDX-License-Identifier: Apache-2.0
// Pool::AwaitContents: a stream waits for its part of a resume's copies alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/memory/pool/memory_store.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/sizes.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

// Notes copies to the device, and how many of them an event stands for.
class NotingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    if (direction == CopyDirection::kToDevice) {
      copies_.push_back({static_cast<std::byte*>(to), static_cast<std::byte*>(to) + bytes});
    }
    return ForwardingDevice::Copy(to, from, bytes, direction, stream);
  }
  absl::Status RecordEvent(Event event, Stream stream) override {
    recorded_[event.id] = copies_.size();
    return ForwardingDevice::RecordEvent(event, stream);
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    awaited_ = recorded_[event.id];
    last_awaited_ = event;
    return ForwardingDevice::WaitEvent(stream, event);
  }

  // Whether work was under way that the last wait for an event waits for.
  bool IsAwaitedUnfinished() { return !QueryEvent(last_awaited_).value(); }
  std::size_t count() const { return copies_.size(); }
  // Returns how many copies the first bytes of the memory need, from the first copy on.
  std::size_t CopiesUntil(const void* end) const {
    const auto* const last = static_cast<const std::byte*>(end);
    std::size_t needed = copies_.size();
    while (needed > 0 && copies_[needed - 1].begin >= last) --needed;
    return needed;
  }
  // Returns how many copies came before the event that was waited for since the last call.
  std::optional<std::size_t> TakeAwaited() { return std::exchange(awaited_, std::nullopt); }

 private:
  struct Copied {
    const std::byte* begin;
    const std::byte* end;
  };
  std::vector<Copied> copies_;
  std::map<std::uint64_t, std::size_t> recorded_;
  std::optional<std::size_t> awaited_;
  Event last_awaited_;
};

class AwaitContentsTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBudget = 64 * kMiB;
  struct Block {
    std::byte* address;
    std::int64_t bytes;
  };

  void TearDown() override {
    for (const Block& block : blocks_) {
      EXPECT_TRUE(pool_->Free(block.address, stream_).ok());
    }
  }
  // Lets a region with blocks of some sizes sleep while others have its memory, and wake.
  void SleepAndWake(const std::vector<std::int64_t>& sizes) {
    for (const std::int64_t bytes : sizes) {
      blocks_.push_back({static_cast<std::byte*>(Take(*region_, bytes)), bytes});
      const auto value = static_cast<std::uint8_t>(blocks_.size());
      ASSERT_TRUE(host_->Fill(blocks_.back().address, value, bytes, stream_).ok());
    }
    ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kHost, stream_).ok());
    void* const taker = Take(*pool_, kBudget);
    ASSERT_TRUE(host_->Fill(taker, 255, kBudget, stream_).ok());
    ASSERT_TRUE(pool_->Free(taker, stream_).ok());
    ASSERT_TRUE(pool_->ResumeRegion("weights", stream_).ok());
    device_.TakeAwaited();
  }
  void* Take(Pool& pool, std::int64_t bytes) {
    return pool.Allocate(static_cast<std::size_t>(bytes), stream_).value();
  }

  // Lets a region with blocks of a MiB sleep in a store of such blocks while others have its
  // memory, and wakes it. Calls a function of another thread, and waits for it, before block `at`
  // is read.
  absl::Status WakeFromStore(std::int64_t count, std::int64_t at,
                             const std::function<void()>& during) {
    SleepAndWake(std::vector<std::int64_t>(static_cast<std::size_t>(count), kMiB));
    EXPECT_TRUE(
        pool_->PauseRegionInto("weights", std::make_unique<MemoryStore>(kMiB, fault_), stream_)
            .ok());
    void* const taker = Take(*pool_, kBudget);
    EXPECT_TRUE(host_->Fill(taker, 255, kBudget, stream_).ok());
    EXPECT_TRUE(pool_->Free(taker, stream_).ok());
    fault_.reads = 0;
    next_read_ = [this, at, during] {
      if (fault_.reads <= at) {
        fault_.during_next = next_read_;
      } else {
        std::thread(during).join();
      }
    };
    fault_.during_next = next_read_;
    return pool_->ResumeRegion("weights", stream_);
  }
  // Whether a block has its contents, and may be read.
  static bool HasContents(const Block& block, std::uint8_t value) {
    return std::all_of(block.address, block.address + block.bytes,
                       [value](std::byte each) { return each == std::byte{value}; });
  }

  const std::unique_ptr<HostDevice> host_ =
      HostDevice::Create({.memory_bytes = 2 * kBudget}).value();
  NotingDevice device_{*host_};
  const Stream stream_ = host_->CreateStream().value();
  const Stream other_ = host_->CreateStream().value();
  const std::unique_ptr<Pool> pool_ = Pool::Create(&device_, {.max_bytes = kBudget}).value();
  Pool* const region_ = pool_->Region("weights").value();
  std::vector<Block> blocks_;
  StoreFault fault_;
  std::function<void()> next_read_;
};

TEST_F(AwaitContentsTest, WaitsForACopyOfThePartAndForLittleBehindIt) {
  SleepAndWake({3 * kMiB, 5 * kMiB, 512, 8 * kMiB + 512, kMiB, 30 * kMiB});
  EXPECT_GT(device_.count(), 40U);  // pieces of a MiB
  for (const Block& block : blocks_) {
    ASSERT_TRUE(pool_->AwaitContents(block.address, block.bytes, other_).ok());
    const std::size_t needed = device_.CopiesUntil(block.address + block.bytes);
    const std::optional<std::size_t> awaited = device_.TakeAwaited();
    EXPECT_THAT(awaited, ::testing::Optional(::testing::Ge(needed)));
    EXPECT_THAT(awaited, ::testing::Optional(::testing::Le(needed + 2)));
  }
}

TEST_F(AwaitContentsTest, SmallBlocksShareAPiece) {
  SleepAndWake(std::vector<std::int64_t>(100, 64 * kKiB));
  ASSERT_TRUE(pool_->AwaitContents(blocks_[0].address, 1, other_).ok());
  const std::size_t first = *device_.TakeAwaited();
  ASSERT_TRUE(pool_->AwaitContents(blocks_[15].address, 64 * kKiB, other_).ok());
  EXPECT_EQ(*device_.TakeAwaited(), first);
  ASSERT_TRUE(pool_->AwaitContents(blocks_[16].address, 64 * kKiB, other_).ok());
  EXPECT_GT(*device_.TakeAwaited(), first);
}

// Without copies there is no wait: for memory of no region, of one that never slept, and of one
// that a store has woken.
TEST_F(AwaitContentsTest, WaitsForNothingWhereNothingComes) {
  void* const plain = Take(*pool_, kMiB);
  EXPECT_TRUE(pool_->AwaitContents(plain, kMiB, other_).ok());
  EXPECT_TRUE(pool_->AwaitContents(nullptr, 0, other_).ok());
  void* const p = Take(*region_, kMiB);
  EXPECT_TRUE(pool_->AwaitContents(p, kMiB, other_).ok());
  EXPECT_EQ(device_.TakeAwaited(), std::nullopt);

  for (void* const address : {plain, p}) ASSERT_TRUE(pool_->Free(address, stream_).ok());
  SleepAndWake({4 * kMiB});
  EXPECT_TRUE(pool_->AwaitContents(blocks_[0].address, kMiB, other_).ok());
  EXPECT_NE(device_.TakeAwaited(), std::nullopt);
  StoreFault fault;
  ASSERT_TRUE(
      pool_->PauseRegionInto("weights", std::make_unique<MemoryStore>(kMiB, fault), stream_).ok());
  ASSERT_TRUE(pool_->Free(Take(*pool_, kBudget), stream_).ok());
  ASSERT_TRUE(pool_->ResumeRegion("weights", stream_).ok());
  device_.TakeAwaited();
  EXPECT_TRUE(pool_->AwaitContents(blocks_[0].address, kMiB, other_).ok());
  EXPECT_EQ(device_.TakeAwaited(), std::nullopt);
}

TEST_F(AwaitContentsTest, ContentsOfAStoreComePieceByPiece) {
  ASSERT_TRUE(WakeFromStore(8, 5, [this] {
                EXPECT_TRUE(pool_->AwaitContents(blocks_[4].address, kMiB, other_).ok());
                EXPECT_NE(device_.TakeAwaited(), std::nullopt);
                EXPECT_TRUE(host_->SynchronizeStream(other_).ok());
                for (int i = 0; i < 5; ++i) {
                  EXPECT_TRUE(HasContents(blocks_[static_cast<std::size_t>(i)],
                                          static_cast<std::uint8_t>(i + 1)))
                      << i;
                }
              }).ok());
  EXPECT_TRUE(HasContents(blocks_[7], 8));
}

TEST_F(AwaitContentsTest, AThreadWaitsForContentsThatHaveNotCome) {
  std::thread reader;
  ASSERT_TRUE(WakeFromStore(8, 2, [&] {
                reader = std::thread([this] {
                  EXPECT_TRUE(pool_->AwaitContents(blocks_[7].address, kMiB, other_).ok());
                  EXPECT_TRUE(host_->SynchronizeStream(other_).ok());
                  EXPECT_TRUE(HasContents(blocks_[7], 8));
                });
              }).ok());
  reader.join();
}

// Work for which contents were awaited may begin after the error.
TEST_F(AwaitContentsTest, AResumeThatFailsKeepsMemoryThatIsAwaited) {
  const absl::Status failed = WakeFromStore(8, 5, [this] {
    EXPECT_TRUE(pool_->AwaitContents(blocks_[0].address, kMiB, other_).ok());
    fault_.call = 1;
  });
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_TRUE(absl::IsResourceExhausted(pool_->Allocate(kBudget, stream_).status()));
  EXPECT_TRUE(HasContents(blocks_[0], 1));
  EXPECT_TRUE(absl::IsFailedPrecondition(pool_->AwaitContents(blocks_[0].address, kMiB, other_)));
  EXPECT_TRUE(pool_->CheckInvariants().ok());
  ASSERT_TRUE(pool_->ResumeRegion("weights", stream_).ok());
  EXPECT_TRUE(HasContents(blocks_[7], 8));
  EXPECT_TRUE(pool_->CheckInvariants().ok());
}

TEST_F(AwaitContentsTest, AThreadThatWaitsIsToldOfAResumeThatFails) {
  std::thread reader;
  const absl::Status failed = WakeFromStore(8, 2, [&] {
    reader = std::thread([this] {
      EXPECT_TRUE(
          absl::IsFailedPrecondition(pool_->AwaitContents(blocks_[7].address, kMiB, other_)));
    });
    fault_.call = 1;
  });
  reader.join();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  ASSERT_TRUE(pool_->Free(Take(*pool_, kBudget), stream_).ok());  // nothing was awaited
  ASSERT_TRUE(pool_->ResumeRegion("weights", stream_).ok());
}

// Otherwise work could write to memory that the copies of the pause still read.
TEST_F(AwaitContentsTest, WaitsForTheCopiesOfThePauseToo) {
  void* const p = Take(*region_, kMiB);
  host_->HoldCopies();
  ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kHost, stream_).ok());
  const Stream third = host_->CreateStream().value();
  ASSERT_TRUE(pool_->ResumeRegion("weights", third).ok());  // no other pool had the memory
  device_.TakeAwaited();
  ASSERT_TRUE(pool_->AwaitContents(p, kMiB, other_).ok());
  EXPECT_NE(device_.TakeAwaited(), std::nullopt);
  EXPECT_TRUE(device_.IsAwaitedUnfinished());
  host_->ReleaseCopies();
  ASSERT_TRUE(pool_->Free(p, other_).ok());
}

TEST_F(AwaitContentsTest, EventsServeTheNextResumeToo) {
  SleepAndWake({16 * kMiB});
  const std::int64_t events = host_->CountCalls(HostDevice::Call::kCreateEvent);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kHost, stream_).ok());
    ASSERT_TRUE(pool_->Free(Take(*pool_, kBudget), stream_).ok());
    ASSERT_TRUE(pool_->ResumeRegion("weights", stream_).ok());
  }
  EXPECT_LE(host_->CountCalls(HostDevice::Call::kCreateEvent), events + 6);
  ASSERT_TRUE(pool_->AwaitContents(blocks_[0].address, 1, other_).ok());
  EXPECT_LT(*device_.TakeAwaited(), device_.count());
}

TEST_F(AwaitContentsTest, ErrorsSayWhatToDo) {
  SleepAndWake({4 * kMiB});
  std::byte* const p = blocks_[0].address;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(pool_->AwaitContents(p + kMiB, kMost, other_).ok());
  EXPECT_EQ(device_.TakeAwaited(), device_.count());
  EXPECT_TRUE(absl::IsInvalidArgument(pool_->AwaitContents(p, -1, other_)));
  EXPECT_TRUE(absl::IsNotFound(pool_->AwaitContents(p, 1, Stream{987654321})));
  ASSERT_TRUE(pool_->PauseRegion("weights", PauseMode::kHost, stream_).ok());
  const absl::Status asleep = pool_->AwaitContents(p, 1, other_);
  EXPECT_TRUE(absl::IsFailedPrecondition(asleep));
  EXPECT_THAT(std::string(asleep.message()), HasSubstr("\"weights\" sleeps: resume it"));
}

}  // namespace
}  // namespace tidepool
