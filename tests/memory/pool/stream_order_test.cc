// SPDX-License-Identifier: Apache-2.0
// Memory that crosses between streams: never in use by two, and with few events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/never_waits.h"
#include "tests/support/policy_names.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;

class StreamOrderTest : public PoolFixture {
 protected:
  // One allocation at a time fits.
  PoolOptions Small() const { return {.max_bytes = 64 * kKiB}; }

  // Frees memory on one stream under a copy that is held, reuses it on another, and returns
  // whether the copy still found the bytes that were written for it.
  bool IsIntactAfterReuse(Device& device) {
    auto pool = Pool::Create(&device, Small()).value();
    const Stream first = NewStream();
    const Stream second = NewStream();
    std::vector<char> read(64 * kKiB);
    void* const p = *pool->Allocate(64 * kKiB, first);
    EXPECT_TRUE(device.Fill(p, 1, 64 * kKiB, first).ok());
    EXPECT_TRUE(device.SynchronizeStream(first).ok());
    device_->HoldCopies();
    EXPECT_TRUE(device.Copy(read.data(), p, 64 * kKiB, CopyDirection::kFromDevice, first).ok());
    EXPECT_TRUE(pool->Free(p, first).ok());
    void* const q = *pool->Allocate(64 * kKiB, second);
    EXPECT_EQ(p, q);
    std::atomic<bool> overwritten = false;
    EXPECT_TRUE(device.Fill(q, 2, 64 * kKiB, second).ok());
    EXPECT_TRUE(device.CallHost(second, [&] { overwritten = true; }).ok());
    if (pool->Stats().stream_waits == 0 || dynamic_cast<testing::NeverWaits*>(&device) != nullptr) {
      EXPECT_TRUE(device.SynchronizeStream(second).ok());
    }
    EXPECT_EQ(overwritten, dynamic_cast<testing::NeverWaits*>(&device) != nullptr);
    device_->ReleaseCopies();
    EXPECT_TRUE(device.SynchronizeStream(first).ok());
    EXPECT_TRUE(device.SynchronizeStream(second).ok());
    EXPECT_TRUE(pool->Free(q, second).ok());
    return std::count(read.begin(), read.end(), 1) == 64 * kKiB;
  }
};

TEST_F(StreamOrderTest, LetsTheNextStreamWaitOnTheDevice) {
  EXPECT_TRUE(IsIntactAfterReuse(*device_));
}

TEST_F(StreamOrderTest, WouldBeSeenToBreakWithoutTheWait) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer reports the race that this test is about";
#endif
  testing::NeverWaits careless(*device_);
  EXPECT_FALSE(IsIntactAfterReuse(careless));
}

TEST_F(StreamOrderTest, ReusesAtOnceOnTheSameStream) {
  auto pool = NewPool(Small());
  const Stream stream = NewStream();
  const Stream other = NewStream();
  void* const p = *pool->Allocate(64 * kKiB, stream);
  ASSERT_TRUE(pool->RecordUse(p, other).ok());  // from here on there are two streams
  ASSERT_TRUE(pool->Free(p, stream).ok());
  void* q = *pool->Allocate(64 * kKiB, stream);
  EXPECT_EQ(pool->Stats().stream_waits, 1);  // for `other`
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pool->Free(q, stream).ok());
    q = *pool->Allocate(64 * kKiB, stream);
  }
  EXPECT_EQ(pool->Stats().stream_waits, 1);
  EXPECT_EQ(pool->Stats().event_records, 1);
  EXPECT_TRUE(pool->Free(q, stream).ok());
}

TEST_F(StreamOrderTest, PrefersABlockThatNeedsNoWait) {
  auto pool = NewPool({.max_bytes = kMiB});
  const Stream first = NewStream();
  const Stream second = NewStream();
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(*pool->Allocate(64 * kKiB, first));
  ASSERT_TRUE(pool->Free(blocks[1], first).ok());
  ASSERT_TRUE(pool->Free(blocks[3], second).ok());
  EXPECT_EQ(*pool->Allocate(64 * kKiB, second), blocks[3]);
  EXPECT_EQ(*pool->Allocate(64 * kKiB, first), blocks[1]);
  EXPECT_EQ(pool->Stats().stream_waits, 0);
}

TEST_F(StreamOrderTest, MergesAcrossStreamsAndWaitsOnlyForThePartTaken) {
  auto pool = NewPool({.max_bytes = 192 * kKiB});
  const Stream first = NewStream();
  const Stream second = NewStream();
  const Stream third = NewStream();
  void* const a = *pool->Allocate(64 * kKiB, first);
  void* const b = *pool->Allocate(64 * kKiB, second);
  void* const c = *pool->Allocate(64 * kKiB, third);
  ASSERT_TRUE(pool->Free(a, first).ok());
  ASSERT_TRUE(pool->Free(b, second).ok());
  EXPECT_EQ(pool->Stats().largest_hole_bytes, 128 * kKiB);
  EXPECT_THAT(pool->Snapshot()[0].pending, ElementsAre(first, second));
  EXPECT_EQ(*pool->Allocate(64 * kKiB, third), a);
  EXPECT_EQ(pool->Stats().stream_waits, 1);
  ASSERT_TRUE(pool->Free(a, third).ok());
  ASSERT_TRUE(pool->Free(c, third).ok());
  void* const all = *pool->Allocate(192 * kKiB, second);
  EXPECT_EQ(all, a);
  EXPECT_EQ(pool->Stats().stream_waits, 2);  // for `third`, which had waited for `first`
  EXPECT_TRUE(pool->Free(all, second).ok());
}

TEST_F(StreamOrderTest, HandsOnWhatAnUnusedAllocationWaitedFor) {
  auto pool = NewPool(Small());
  const Stream first = NewStream();
  const Stream second = NewStream();
  const Stream third = NewStream();
  std::vector<char> read(64 * kKiB);
  void* const x = *pool->Allocate(64 * kKiB, first);
  ASSERT_TRUE(device_->Fill(x, 1, 64 * kKiB, first).ok());
  ASSERT_TRUE(device_->SynchronizeStream(first).ok());
  device_->HoldCopies();
  ASSERT_TRUE(device_->Copy(read.data(), x, 64 * kKiB, CopyDirection::kFromDevice, first).ok());
  ASSERT_TRUE(pool->Free(x, first).ok());
  void* const unused = *pool->Allocate(64 * kKiB, second);  // waits for `first`
  ASSERT_TRUE(pool->Free(unused, third).ok());              // which has not
  void* const z = *pool->Allocate(64 * kKiB, third);
  ASSERT_TRUE(device_->Fill(z, 2, 64 * kKiB, third).ok());
  EXPECT_EQ(pool->Stats().stream_waits, 2);
  device_->ReleaseCopies();
  ASSERT_TRUE(device_->SynchronizeStream(third).ok());
  EXPECT_EQ(std::count(read.begin(), read.end(), 1), 64 * kKiB);
  EXPECT_TRUE(pool->Free(z, third).ok());
}

TEST_F(StreamOrderTest, OneEventStandsForAllFreesBefore) {
  auto pool = NewPool({.max_bytes = 64 * 4 * kKiB});
  const Stream first = NewStream();
  const Stream second = NewStream();
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(*pool->Allocate(4 * kKiB, first));
  for (void* block : blocks) ASSERT_TRUE(pool->Free(block, first).ok());
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(pool->Allocate(4 * kKiB, second).ok());
  EXPECT_EQ(pool->Stats().event_records, 1);
  EXPECT_EQ(pool->Stats().stream_waits, 1);
}

TEST_F(StreamOrderTest, KeepsTheOrderOfStreamsThatAreDestroyedFirst) {
  auto pool = NewPool(Small());
  const Stream first = NewStream();
  const Stream user = NewStream();
  const Stream second = NewStream();
  std::vector<char> read(64 * kKiB);
  void* const p = *pool->Allocate(64 * kKiB, first);
  ASSERT_TRUE(device_->Fill(p, 1, 64 * kKiB, first).ok());
  ASSERT_TRUE(device_->SynchronizeStream(first).ok());
  device_->HoldCopies();
  ASSERT_TRUE(device_->Copy(read.data(), p, 64 * kKiB, CopyDirection::kFromDevice, user).ok());
  ASSERT_TRUE(pool->RecordUse(p, user).ok());
  ASSERT_TRUE(device_->DestroyStream(user).ok());
  ASSERT_TRUE(pool->Free(p, first).ok());
  ASSERT_TRUE(device_->DestroyStream(first).ok());
  EXPECT_EQ(pool->Free(p, first).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pool->Allocate(1, first).status().code(), absl::StatusCode::kNotFound);
  void* const q = *pool->Allocate(64 * kKiB, second);
  ASSERT_TRUE(device_->Fill(q, 2, 64 * kKiB, second).ok());
  device_->ReleaseCopies();
  ASSERT_TRUE(device_->SynchronizeStream(second).ok());
  EXPECT_EQ(std::count(read.begin(), read.end(), 1), 64 * kKiB);
  EXPECT_TRUE(pool->Free(q, second).ok());
}

// All earlier work of the stream has finished, and an event stood for it.
TEST_F(StreamOrderTest, KnowsTheLastWorkOfADestroyedStream) {
  auto pool = NewPool({.max_bytes = 64 * kKiB, .exact_placement = true});
  const Stream user = NewStream();
  const Stream owner = NewStream();
  void* const first = *pool->Allocate(64 * kKiB, user);
  ASSERT_TRUE(pool->Free(first, user).ok());
  void* const p = *pool->Allocate(64 * kKiB, owner);
  ASSERT_TRUE(device_->Fill(p, 1, 64 * kKiB, owner).ok());
  ASSERT_TRUE(device_->SynchronizeStream(owner).ok());
  const std::int64_t records = pool->Stats().event_records;
  ASSERT_EQ(records, 1);
  std::vector<char> read(64 * kKiB);
  device_->HoldCopies();
  ASSERT_TRUE(device_->Copy(read.data(), p, 64 * kKiB, CopyDirection::kFromDevice, user).ok());
  ASSERT_TRUE(pool->RecordUse(p, user).ok());
  ASSERT_TRUE(device_->DestroyStream(user).ok());
  EXPECT_FALSE(pool->Allocate(1, NewStream()).ok());  // the pool looks for destroyed streams
  ASSERT_TRUE(pool->Free(p, owner).ok());
  const std::int64_t waits = pool->Stats().stream_waits;
  void* const q = *pool->Allocate(64 * kKiB, owner);
  EXPECT_EQ(pool->Stats().stream_waits, waits + 1);
  ASSERT_TRUE(device_->Fill(q, 2, 64 * kKiB, owner).ok());
  device_->ReleaseCopies();
  ASSERT_TRUE(device_->SynchronizeStream(owner).ok());
  EXPECT_EQ(std::count(read.begin(), read.end(), 1), 64 * kKiB);
  EXPECT_TRUE(pool->Free(q, owner).ok());
}

TEST_F(StreamOrderTest, ForgetsStreamsThatAreDestroyedAndIdle) {
  auto pool = NewPool(Small());
  const Stream last = NewStream();
  for (int i = 0; i < 50; ++i) {
    const Stream stream = NewStream();
    void* const p = *pool->Allocate(64 * kKiB, stream);
    ASSERT_TRUE(pool->Free(p, stream).ok());
    ASSERT_TRUE(device_->DestroyStream(stream).ok());
  }
  const std::int64_t creations = device_->CountCalls(HostDevice::Call::kCreateEvent);
  ASSERT_TRUE(device_->SynchronizeStream(last).ok());
  void* const p = *pool->Allocate(64 * kKiB, last);
  EXPECT_LE(pool->Snapshot()[0].pending.size(), 1U);
  ASSERT_TRUE(pool->Free(p, last).ok());
  EXPECT_LE(creations, 51);
}

// Threads allocate, fill, check and free on streams of their own choice, with copies that take
// their time. Every check runs on the stream, after the work that could go wrong.
class Hammer {
 public:
  Hammer(Device& device, Pool& pool, std::vector<Stream> streams)
      : device_(device), pool_(pool), streams_(std::move(streams)) {}

  void Run(int threads, int steps) {
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back([this, i, steps] { Work(i, steps); });
    for (std::thread& worker : workers) worker.join();
    for (const Stream stream : streams_) EXPECT_TRUE(device_.SynchronizeStream(stream).ok());
  }

  int damaged() const { return damaged_; }
  int served() const { return served_; }

 private:
  struct Buffer {
    char* address;
    std::size_t bytes;
    std::uint8_t value;
    Stream stream;
  };

  void Work(int seed, int steps) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<Buffer> buffers;
    for (int i = 0; i < steps; ++i) {
      if (buffers.size() < 6 && random() % 3 != 0) {
        Begin(random, buffers);
      } else if (!buffers.empty()) {
        std::swap(buffers[random() % buffers.size()], buffers.back());
        End(buffers.back(), random);
        buffers.pop_back();
      }
    }
    for (const Buffer& buffer : buffers) End(buffer, random);
  }

  void Begin(std::mt19937& random, std::vector<Buffer>& buffers) {
    Buffer buffer{nullptr, 1 + random() % 30'000, static_cast<std::uint8_t>(random()),
                  streams_[random() % streams_.size()]};
    const absl::StatusOr<void*> p =
        random() % 4 == 0
            ? pool_.AllocateBlocking(buffer.bytes, buffer.stream, Hint::kResident,
                                     absl::Now() + absl::Milliseconds(1))
            : pool_.Allocate(buffer.bytes, buffer.stream,
                             random() % 2 == 0 ? Hint::kOffloadable : Hint::kResident);
    if (!p.ok()) return;
    ++served_;
    buffer.address = static_cast<char*>(*p);
    EXPECT_TRUE(device_
                    .Fill(buffer.address, buffer.value, static_cast<std::int64_t>(buffer.bytes),
                          buffer.stream)
                    .ok());
    buffers.push_back(buffer);
  }

  void End(const Buffer& buffer, std::mt19937& random) {
    Stream stream = buffer.stream;
    const auto bytes = static_cast<std::int64_t>(buffer.bytes);
    if (random() % 4 == 0) {  // a copy on another stream, after the fill
      stream = streams_[random() % streams_.size()];
      const Event filled = device_.CreateEvent().value();
      EXPECT_TRUE(device_.RecordEvent(filled, buffer.stream).ok());
      EXPECT_TRUE(device_.WaitEvent(stream, filled).ok());
      EXPECT_TRUE(device_.DestroyEvent(filled).ok());
      if (random() % 2 == 0) {
        EXPECT_TRUE(pool_.RecordUse(buffer.address, stream).ok());
        Check(buffer, stream);
        EXPECT_TRUE(pool_.Free(buffer.address, buffer.stream).ok());
        return;
      }
    }
    auto copied = std::make_shared<std::vector<char>>(buffer.bytes);
    EXPECT_TRUE(
        device_.Copy(copied->data(), buffer.address, bytes, CopyDirection::kFromDevice, stream)
            .ok());
    Check(buffer, stream);
    EXPECT_TRUE(device_
                    .CallHost(stream,
                              [this, copied, buffer] {
                                if (std::any_of(copied->begin(), copied->end(), [&](char c) {
                                      return static_cast<std::uint8_t>(c) != buffer.value;
                                    })) {
                                  ++damaged_;
                                }
                              })
                    .ok());
    EXPECT_TRUE(pool_.Free(buffer.address, stream).ok());
  }

  void Check(const Buffer& buffer, Stream stream) {
    EXPECT_TRUE(
        device_
            .CallHost(stream,
                      [this, buffer] {
                        const char value = static_cast<char>(buffer.value);
                        if (std::count(buffer.address, buffer.address + buffer.bytes, value) !=
                            static_cast<std::ptrdiff_t>(buffer.bytes)) {
                          ++damaged_;
                        }
                      })
            .ok());
  }

  Device& device_;
  Pool& pool_;
  const std::vector<Stream> streams_;
  std::atomic<int> damaged_ = 0;
  std::atomic<int> served_ = 0;
};

class HammerTest : public PoolFixture,
                   public ::testing::WithParamInterface<std::tuple<std::string, PoolKind>> {
 protected:
  HammerTest()
      : PoolFixture(
            {.memory_bytes = 256 * kMiB, .granularity = 4 * kKiB, .copy_latency_ns = 20'000}) {}
};

std::string NameOf(const ::testing::TestParamInfo<HammerTest::ParamType>& test) {
  std::string name = std::get<0>(test.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name + "_" + std::get<1>(test.param).name;
}

INSTANTIATE_TEST_SUITE_P(Policies, HammerTest,
                         ::testing::Combine(::testing::ValuesIn(PlacementPolicyNames()),
                                            ::testing::Values(kVirtualPool, kSegmentPool)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(
    Remapping, HammerTest,
    ::testing::Combine(::testing::ValuesIn(testing::NamesOfStatelessPolicies()),
                       ::testing::Values(kRemappingPool)),
    NameOf);

TEST_P(HammerTest, EightThreadsAndFourStreamsDamageNothing) {
  // Tight, so that memory is reused at once and is often short.
  const auto& [placement, kind] = GetParam();
  auto pool = NewPool({.max_bytes = 512 * kKiB,
                       .memory = kind.memory,
                       .placement = placement,
                       .remap = kind.remap});
  Hammer hammer(*device_, *pool, {NewStream(), NewStream(), NewStream(), NewStream()});
  hammer.Run(8, 600);
  EXPECT_EQ(hammer.damaged(), 0);
  EXPECT_GT(hammer.served(), 100);  // of 2,400; how many depends on which threads meet
  EXPECT_EQ(pool->Stats().live_count, 0);
  EXPECT_GT(pool->Stats().stream_waits, 0);
  if (!kind.remap) {
    EXPECT_EQ(pool->Stats().remaps, 0);
  }
  EXPECT_LE(pool->Stats().peak_reserved_bytes, 512 * kKiB);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

}  // namespace
}  // namespace tidepool
