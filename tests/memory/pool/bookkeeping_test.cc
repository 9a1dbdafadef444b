// SPDX-License-Identifier: Apache-2.0
// Memory of the host that the books of a pool take: the bytes that malloc counts as in use. The
// malloc of a sanitizer counts none; there the tests still check the pool after its books shrank.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/base/config.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace tidepool {
namespace {

// So much that streams seldom take memory of each other. A sanitizer has fewer addresses.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr bool kCountsBytes = false;
constexpr std::int64_t kMemory = std::int64_t{64} << 30;
#else
constexpr bool kCountsBytes = true;
constexpr std::int64_t kMemory = std::int64_t{1} << 40;
#endif

std::int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

class BookkeepingTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    device_ = HostDevice::Create({.memory_bytes = kMemory}).value();
    for (int i = 0; i < GetParam(); ++i) streams_.push_back(device_->CreateStream().value());
    pool_ = Pool::Create(device_.get(), {.initial_bytes = kMemory, .max_bytes = kMemory}).value();
    blocks_.reserve(kLive);
    empty_ = HeapBytes();
  }
  void TearDown() override {
    FreeAll();
    EXPECT_TRUE(pool_->CheckInvariants().ok());
  }

  static constexpr std::size_t kLive = 10'000;

  // Replaces random blocks, each freed on the stream that took it.
  void Churn() {
    while (blocks_.size() < kLive) blocks_.push_back(Take());
    for (std::size_t i = 0; i < 4 * kLive; ++i) {
      Block& block = blocks_[random_() % kLive];
      ASSERT_TRUE(pool_->Free(block.address, block.stream).ok());
      block = Take();
    }
  }
  void FreeAll() {
    for (const Block& block : blocks_) EXPECT_TRUE(pool_->Free(block.address, block.stream).ok());
    blocks_.clear();
  }
  std::int64_t TakenBytes() const { return HeapBytes() - empty_; }

  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<Pool> pool_;

 private:
  struct Block {
    void* address;
    Stream stream;
  };

  Block Take() {
    const double exponent = std::uniform_real_distribution<double>(9, 21)(random_);
    const Stream stream = streams_[random_() % streams_.size()];
    return {pool_->Allocate(static_cast<std::size_t>(std::exp2(exponent)), stream).value(), stream};
  }

  std::vector<Stream> streams_;
  std::vector<Block> blocks_;
  std::mt19937_64 random_{1};
  std::int64_t empty_ = 0;
};

TEST_P(BookkeepingTest, TakesAHundredBytesForEachLiveBlock) {
  Churn();
  EXPECT_TRUE(pool_->CheckInvariants().ok());
  EXPECT_LE(TakenBytes(), 100 * static_cast<std::int64_t>(kLive));
  EXPECT_TRUE(TakenBytes() > 0 || !kCountsBytes) << "malloc counts no bytes";
}

TEST_P(BookkeepingTest, GivesTheMemoryBackWhenBlocksAreFreed) {
  Churn();
  FreeAll();
  EXPECT_LE(TakenBytes(), 20 * static_cast<std::int64_t>(kLive));
  EXPECT_TRUE(pool_->CheckInvariants().ok());
  Churn();
  EXPECT_LE(TakenBytes(), 100 * static_cast<std::int64_t>(kLive));
}

INSTANTIATE_TEST_SUITE_P(Streams, BookkeepingTest, ::testing::Values(1, 16));

}  // namespace
}  // namespace tidepool
