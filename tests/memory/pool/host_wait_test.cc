// SPDX-License-Identifier: Apache-2.0
// A thread that waits for work of a stream holds up no other call of the pool: the work may depend
// on one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <future>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/memory/pool/gate.h"
#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

class HostWaitTest : public PoolFixture {
 protected:
  // Small blocks of the calls that must return.
  void TakeSmall(std::size_t bytes, Stream stream) {
    small_bytes_ = bytes;
    for (void*& block : small_) block = pool_->Allocate(bytes, stream).value();
  }

  // Makes a call on a thread of its own, until it waits for a stream on the host.
  template <typename Made>
  std::future<absl::StatusOr<std::int64_t>> CallUntilItWaits(Made made) {
    const std::int64_t waits = device_->CountCalls(Call::kSynchronizeEvent);
    auto call = std::async(std::launch::async, made);
    while (device_->CountCalls(Call::kSynchronizeEvent) == waits) std::this_thread::yield();
    return call;
  }

  // All calls that wait for no device and need no more memory.
  void ExpectThatOthersReturn(Stream stream) {
    const std::int64_t growths = pool_->Stats().growths;
    EXPECT_TRUE(pool_->Free(small_[0], stream).ok());
    EXPECT_TRUE(pool_->FreeOwn(small_[1], stream).ok());
    ExpectInvariants();
    EXPECT_EQ(pool_->AllocatedOn(small_[2]).value(), stream);
    EXPECT_TRUE(pool_->RecordUse(small_[2], stream).ok());
    ExpectInvariants();
    const absl::StatusOr<void*> again = pool_->Allocate(small_bytes_, stream);
    ASSERT_TRUE(again.ok()) << again.status();
    small_[0] = *again;
    EXPECT_EQ(pool_->Stats().growths, growths);
    EXPECT_GE(pool_->OffsetOf(*again), 0);
    EXPECT_FALSE(pool_->Snapshot().empty());
    pool_->Mark("phase");
    pool_->MarkIteration();
    ExpectInvariants();
  }

  void FreeSmall(Stream stream) {
    for (const std::size_t i : {0, 2, 3}) EXPECT_TRUE(pool_->Free(small_[i], stream).ok());
  }
  void ExpectInvariants() {
    const absl::Status status = pool_->CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
  }
  // Its memory goes back to the device.
  void ExpectThatNothingIsLost() {
    ExpectInvariants();
    pool_.reset();
    EXPECT_EQ(device_->used_bytes(), 0);
  }

  std::unique_ptr<Pool> pool_;
  std::array<void*, 4> small_ = {};
  std::size_t small_bytes_ = 0;
  std::future<absl::StatusOr<std::int64_t>> call_;
  Gate gate_;
};

class TrimWaitTest : public HostWaitTest,
                     public ::testing::WithParamInterface<std::tuple<PoolKind, bool>> {
 protected:
  static constexpr std::int64_t kSpareBytes = 4 * kMiB;

  TrimWaitTest() {
    const PoolKind kind = std::get<0>(GetParam());
    pool_ = NewPool({.initial_bytes = 2 * kMiB,
                     .max_bytes = 8 * kMiB,
                     .memory = kind.memory,
                     .remap = kind.remap});
    if (std::get<1>(GetParam())) stream_ = NewStream();
    TakeSmall(512 * kKiB, stream_);
    spare_ = pool_->Allocate(kSpareBytes, worker_).value();
  }

  // Returns memory in use by work of a stream that does not end.
  void TrimUntilItWaits() {
    gate_.Close(*device_, worker_);
    EXPECT_TRUE(device_->Fill(spare_, 1, kSpareBytes, worker_).ok());
    EXPECT_TRUE(pool_->Free(spare_, worker_).ok());
    call_ = CallUntilItWaits([this] { return pool_->Trim(); });
    ExpectInvariants();
  }

  const Stream worker_ = NewStream();
  Stream stream_ = worker_;  // or another one
  void* spare_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Kinds, TrimWaitTest,
                         ::testing::Combine(::testing::ValuesIn(kPoolKinds), ::testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  (std::get<1>(test.param) ? "_streams" : "_stream");
                         });

TEST_P(TrimWaitTest, HoldsUpNoOtherCall) {
  const std::int64_t reserved = pool_->Stats().reserved_bytes;
  TrimUntilItWaits();
  ExpectThatOthersReturn(stream_);
  gate_.Open();
  EXPECT_EQ(call_.get().value(), kSpareBytes);
  EXPECT_EQ(pool_->Stats().reserved_bytes, reserved - kSpareBytes);
  EXPECT_EQ(device_->used_bytes(), reserved - kSpareBytes);
  FreeSmall(stream_);
  ExpectThatNothingIsLost();
}

// The awaited work may need a call that frees.
TEST_P(TrimWaitTest, WaitsForWorkThatWaitsForAFree) {
  TrimUntilItWaits();
  std::thread frees([this] {
    EXPECT_TRUE(pool_->Free(small_[1], stream_).ok());
    gate_.Open();
  });
  EXPECT_EQ(call_.get().value(), kSpareBytes);
  frees.join();
  FreeSmall(stream_);
  ExpectThatNothingIsLost();
}

// Memory that waits for its work to end belongs to an allocation that needs it, in stream order.
TEST_P(TrimWaitTest, LeavesWhatAnotherCallNeeds) {
  const std::int64_t reserved = pool_->Stats().reserved_bytes;
  TrimUntilItWaits();
  const Stream newest = NewStream();
  const std::int64_t waits = pool_->Stats().stream_waits;
  const absl::StatusOr<void*> p = pool_->Allocate(kSpareBytes, newest);
  ASSERT_TRUE(p.ok()) << p.status();
  ExpectInvariants();
  EXPECT_EQ(pool_->Stats().reserved_bytes, reserved);
  EXPECT_EQ(pool_->Stats().stream_waits, waits + 1);
  ASSERT_TRUE(device_->Fill(*p, 2, kSpareBytes, newest).ok());
  gate_.Open();
  EXPECT_EQ(call_.get().value(), 0);
  ASSERT_TRUE(device_->SynchronizeStream(newest).ok());
  ASSERT_TRUE(device_->SynchronizeStream(worker_).ok());
  EXPECT_EQ(std::count(static_cast<char*>(*p), static_cast<char*>(*p) + kSpareBytes, 2),
            kSpareBytes);
  EXPECT_TRUE(pool_->Free(*p, newest).ok());
  EXPECT_TRUE(pool_->Free(small_[1], stream_).ok());
  FreeSmall(stream_);
  ExpectThatNothingIsLost();
}

TEST_P(TrimWaitTest, LetsThePoolGrow) {
  TrimUntilItWaits();
  const std::int64_t bytes = pool_->base() == nullptr ? kMiB : 6 * kMiB;
  const absl::StatusOr<void*> p = pool_->Allocate(static_cast<std::size_t>(bytes), stream_);
  ASSERT_TRUE(p.ok()) << p.status();
  ExpectInvariants();
  EXPECT_LE(device_->used_bytes(), 8 * kMiB);
  gate_.Open();
  EXPECT_TRUE(call_.get().ok());
  ExpectInvariants();
  EXPECT_EQ(device_->used_bytes(), pool_->Stats().reserved_bytes);
  EXPECT_TRUE(pool_->Free(*p, stream_).ok());
  EXPECT_TRUE(pool_->Free(small_[1], stream_).ok());
  FreeSmall(stream_);
  ExpectThatNothingIsLost();
}

class GrowthWaitTest : public HostWaitTest, public ::testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(Streams, GrowthWaitTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "streams" : "stream"; });

TEST_P(GrowthWaitTest, BySegmentsHoldsUpNoOtherCall) {
  pool_ =
      NewPool({.initial_bytes = 2 * kMiB, .max_bytes = 6 * kMiB, .memory = PoolMemory::kSegments});
  const Stream worker = NewStream();
  const Stream stream = GetParam() ? NewStream() : worker;
  TakeSmall(512 * kKiB, stream);
  const std::array segments = {pool_->Allocate(2 * kMiB, worker).value(),
                               pool_->Allocate(2 * kMiB, worker).value()};
  gate_.Close(*device_, worker);
  for (void* const segment : segments) ASSERT_TRUE(pool_->Free(segment, worker).ok());
  void* large = nullptr;
  call_ = CallUntilItWaits([&]() -> absl::StatusOr<std::int64_t> {
    const absl::StatusOr<void*> p = pool_->Allocate(4 * kMiB, stream);
    if (!p.ok()) return p.status();
    large = *p;
    return 0;
  });
  ExpectThatOthersReturn(stream);
  EXPECT_EQ(device_->used_bytes(), 6 * kMiB);
  gate_.Open();
  EXPECT_TRUE(call_.get().ok());
  ExpectInvariants();
  EXPECT_EQ(device_->used_bytes(), 6 * kMiB);
  EXPECT_TRUE(pool_->Free(large, stream).ok());
  FreeSmall(stream);
  ExpectThatNothingIsLost();
}

// Each move costs addresses as long as work of a stream does not end; they end before the memory.
TEST_P(GrowthWaitTest, ForOldAddressesHoldsUpNoOtherCall) {
  const std::int64_t granule = device_->granularity();
  pool_ = NewPool({.max_bytes = 12 * granule, .remap = true});
  const Stream worker = NewStream();
  const Stream stream = GetParam() ? NewStream() : worker;
  TakeSmall(static_cast<std::size_t>(granule), stream);
  gate_.Close(*device_, worker);
  const std::int64_t waits = device_->CountCalls(Call::kSynchronizeEvent);
  call_ = CallUntilItWaits([&]() -> absl::StatusOr<std::int64_t> {
    std::int64_t rounds = 0;
    while (device_->CountCalls(Call::kSynchronizeEvent) == waits) {
      std::vector<void*> blocks;
      for (int i = 0; i < 8; ++i) {
        const absl::StatusOr<void*> p = pool_->Allocate(granule, worker);
        if (!p.ok()) return p.status();
        blocks.push_back(*p);
      }
      for (int i = 0; i < 8; i += 2) EXPECT_TRUE(pool_->Free(blocks[i], worker).ok());
      const absl::StatusOr<void*> large = pool_->Allocate(4 * granule, worker);
      if (!large.ok()) return large.status();
      for (int i = 1; i < 8; i += 2) EXPECT_TRUE(pool_->Free(blocks[i], worker).ok());
      EXPECT_TRUE(pool_->Free(*large, worker).ok());
      ++rounds;
    }
    return rounds;
  });
  ExpectThatOthersReturn(stream);
  gate_.Open();
  const absl::StatusOr<std::int64_t> rounds = call_.get();
  EXPECT_TRUE(rounds.ok()) << rounds.status();
  FreeSmall(stream);
  ExpectThatNothingIsLost();
}

}  // namespace
}  // namespace tidepool
