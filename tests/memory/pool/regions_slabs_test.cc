// SPDX-License-Identifier: Apache-2.0
// Regions beside the slabs of streams: a slab has memory of the pool alone, and a region wakes in
// the memory that no slab needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"

namespace tidepool {
namespace {

class RegionsSlabsTest : public PoolFixture {
 protected:
  static constexpr std::int64_t kBudget = 32 * kMiB;
  static constexpr std::int64_t kSmall = 1024;  // a slab serves it

  struct Block {
    void* address = nullptr;
    std::int64_t bytes = 0;
    int value = 0;
  };

  RegionsSlabsTest() : PoolFixture({.memory_bytes = 2 * kBudget}) {}
  void TearDown() override {
    for (const Block& block : blocks_) Free(block);
  }

  Block Take(Pool& pool, std::int64_t bytes, Stream stream) {
    const absl::StatusOr<void*> address = pool.Allocate(static_cast<std::size_t>(bytes), stream);
    EXPECT_TRUE(address.ok()) << address.status();
    const Block block = {address.value_or(nullptr), bytes, ++value_ % 255};
    const auto value = static_cast<std::uint8_t>(block.value);
    EXPECT_TRUE(device_->Fill(block.address, value, bytes, stream).ok());
    Order();
    return block;
  }
  void Free(const Block& block) {
    const absl::Status status = pool_->Free(block.address, first_);
    EXPECT_TRUE(status.ok()) << status;
  }
  // Makes the streams wait for each other.
  void Order() {
    for (const Stream stream : {first_, second_}) {
      ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
    }
  }
  // Gives the pool all memory of the budget, and small blocks of both streams in it, which are live
  // until the end of the test.
  void BeginSlabs() {
    const Block all = Take(*pool_, kBudget, first_);
    Free(all);
    for (const Stream stream : {first_, second_, first_, second_}) {
      const Block block = Take(*pool_, kMiB, stream);
      ASSERT_TRUE(pool_->Free(block.address, stream).ok());
    }
    std::vector<const void*> of_first;
    for (int i = 0; i < 16; ++i) {
      blocks_.push_back(Take(*pool_, kSmall, second_));
      blocks_.push_back(Take(*pool_, kSmall, first_));
      of_first.push_back(blocks_.back().address);
    }
    const auto [lowest, highest] = std::ranges::minmax(of_first);
    EXPECT_EQ(pool_->OffsetOf(highest) - pool_->OffsetOf(lowest), 15 * kSmall) << "no slab";
  }
  void ExpectContents(const std::vector<Block>& blocks) {
    Order();
    for (const Block& block : blocks) {
      const std::string expected(static_cast<std::size_t>(block.bytes),
                                 static_cast<char>(block.value));
      EXPECT_EQ(std::memcmp(block.address, expected.data(), expected.size()), 0);
    }
  }
  void ExpectInvariants() {
    const absl::Status status = pool_->CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
  }
  void Pause(const char* tag) {
    ASSERT_TRUE(pool_->PauseRegion(tag, PauseMode::kHost, first_).ok());
    ExpectInvariants();
  }
  void Resume(const char* tag) {
    const absl::Status status = pool_->ResumeRegion(tag, first_);
    ASSERT_TRUE(status.ok()) << status;
    ExpectInvariants();
  }
  RegionStats StatsOf(std::size_t region) { return pool_->RegionStatistics().at(region); }

  const Stream first_ = NewStream();
  const Stream second_ = NewStream();
  std::unique_ptr<Pool> pool_ = NewPool({.max_bytes = kBudget});
  Pool* const weights_ = pool_->Region("weights").value();
  Pool* const cache_ = pool_->Region("cache").value();
  std::vector<Block> blocks_;  // of the slabs
  int value_ = 0;
};

TEST_F(RegionsSlabsTest, SmallBlocksOfARegionAreInNoSlab) {
  BeginSlabs();
  std::vector<Block> small;
  for (int i = 0; i < 200; ++i) {
    Pool& region = i % 3 == 0 ? *cache_ : *weights_;
    small.push_back(Take(region, 1 + i * 16, i % 2 == 0 ? first_ : second_));
    EXPECT_GE(region.OffsetOf(small.back().address), 0);
    EXPECT_EQ(pool_->OffsetOf(small.back().address), -1);
    blocks_.push_back(Take(*pool_, kSmall, i % 2 == 0 ? first_ : second_));
    EXPECT_GE(pool_->OffsetOf(blocks_.back().address), 0);
  }
  for (const char* const tag : {"weights", "cache"}) Pause(tag);
  EXPECT_EQ(StatsOf(0).reserved_bytes + StatsOf(1).reserved_bytes, 0);
  EXPECT_EQ(weights_->Allocate(kSmall, first_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  blocks_.push_back(Take(*pool_, kSmall, first_));
  // Others have all memory that no slab needs.
  const std::int64_t rest = kBudget - 2 * kMiB;
  Free(Take(*pool_, rest, first_));
  for (const char* const tag : {"cache", "weights"}) Resume(tag);
  ExpectContents(small);
  ExpectContents(blocks_);
  for (const Block& block : small) Free(block);
}

// The slabs have memory that a region lent, and keep it while that wakes.
TEST_F(RegionsSlabsTest, ARegionWakesBesideTheSlabsInItsMemory) {
  const std::vector<Block> weights = {Take(*weights_, kBudget, first_)};
  Pause("weights");
  BeginSlabs();
  const absl::Status refused = pool_->ResumeRegion("weights", first_);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  ExpectInvariants();
  ExpectContents(blocks_);
  for (const Block& block : blocks_) Free(block);
  blocks_.clear();
  Resume("weights");
  ExpectContents(weights);
  Free(weights[0]);
}

// Another region that wakes or asks has what the slabs do not need.
TEST_F(RegionsSlabsTest, MemoryBesideTheBlocksOfSlabsGoesToRegions) {
  const std::vector<Block> weights = {Take(*weights_, kBudget / 2, first_)};
  Pause("weights");
  BeginSlabs();
  const std::vector<Block> cache = {Take(*cache_, kBudget / 4, second_)};
  Resume("weights");
  ExpectContents(weights);
  ExpectContents(cache);
  ExpectContents(blocks_);
  blocks_.push_back(Take(*pool_, kSmall, second_));
  ExpectContents(weights);
  Free(weights[0]);
  Free(cache[0]);
}

// Slabs in which nothing is live give their memory back before a resume is refused.
TEST_F(RegionsSlabsTest, EmptySlabsHoldUpNoResume) {
  const std::vector<Block> weights = {Take(*weights_, kBudget, first_)};
  Pause("weights");
  BeginSlabs();
  for (const Block& block : blocks_)
    ASSERT_TRUE(pool_->FreeOwn(block.address, first_).ok() ||
                pool_->FreeOwn(block.address, second_).ok());
  blocks_.clear();
  Resume("weights");
  ExpectContents(weights);
  Free(weights[0]);
}

}  // namespace
}  // namespace tidepool
