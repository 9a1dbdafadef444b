// SPDX-License-Identifier: Apache-2.0
// The ranges of addresses that a pool tells its observer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/range_checker.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

class RangesTest : public PoolFixture, public ::testing::WithParamInterface<PoolKind> {
 protected:
  std::unique_ptr<Pool> NewObservedPool(PoolOptions options) {
    options.memory = GetParam().memory;
    options.remap = GetParam().remap;
    options.recorder = &checker_;
    return NewPool(options);
  }
  static bool InSegments() { return GetParam().memory == PoolMemory::kSegments; }

  testing::RangeChecker checker_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, RangesTest, ::testing::ValuesIn(kPoolKinds),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(RangesTest, FollowGrowthAndTrim) {
  auto pool = NewObservedPool({.max_bytes = 64 * kMiB});
  EXPECT_EQ(checker_.ranges(), InSegments() ? 0U : 1U);
  const Stream stream = NewStream();
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(pool->Allocate(3 * kMiB, stream).value());
  EXPECT_FALSE(pool->Allocate(10 * kMiB, stream).ok());
  if (InSegments()) {
    EXPECT_GT(checker_.ranges(), 2U);
    EXPECT_EQ(checker_.bytes(), pool->Stats().reserved_bytes);
  } else {
    EXPECT_EQ(checker_.ranges(), 1U);
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    ASSERT_TRUE(pool->Free(blocks[i], stream).ok());
  }
  ASSERT_TRUE(pool->Trim().ok());
  if (InSegments()) {
    EXPECT_EQ(checker_.bytes(), pool->Stats().reserved_bytes);
  }
  ASSERT_TRUE(pool->Allocate(2 * kMiB, stream).ok());
  checker_.ExpectLive();
  pool.reset();
  EXPECT_EQ(checker_.ranges(), 0U);
}

TEST_P(RangesTest, AreRemovedWhenAPoolCannotBegin) {
  device_->FailCall(InSegments() ? Call::kAllocateMemory : Call::kCreatePhysical, 1);
  PoolOptions options{.initial_bytes = kMiB, .max_bytes = 4 * kMiB, .memory = GetParam().memory};
  options.recorder = &checker_;
  EXPECT_FALSE(Pool::Create(device_.get(), options).ok());
  EXPECT_EQ(checker_.added(), InSegments() ? 0 : 1);
  EXPECT_EQ(checker_.ranges(), 0U);
}

TEST_P(RangesTest, AreRemovedOnceThoughTheDeviceFails) {
  auto pool = NewObservedPool({.initial_bytes = kMiB, .max_bytes = 4 * kMiB});
  device_->FailCall(InSegments() ? Call::kFreeMemory : Call::kUnmap, 1);
  pool.reset();
  EXPECT_EQ(checker_.ranges(), 0U);
  EXPECT_EQ(device_->used_bytes(), 0);
}

}  // namespace
}  // namespace tidepool
