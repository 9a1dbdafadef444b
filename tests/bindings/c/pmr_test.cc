// SPDX-License-Identifier: Apache-2.0
// std::pmr containers on a pool.
#include "tidepool/pmr.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/bindings/c/fixture.h"

namespace tidepool {
namespace {

std::size_t LiveCount(const PmrResource& resource) {
  tidepool_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  EXPECT_EQ(tidepool_get_statistics(resource.pool(), &statistics), TIDEPOOL_OK);
  return statistics.live_count;
}

TEST(PmrResourceTest, ServesContainers) {
  PmrResource resource;
  {
    std::pmr::vector<double> numbers(&resource);
    for (int i = 0; i < 10'000; ++i) numbers.push_back(i);
    std::pmr::map<int, std::pmr::string> texts(&resource);
    for (int i = 0; i < 100; ++i) texts[i] = std::string(100, 'x');
    EXPECT_EQ(LiveCount(resource), 201U);
    EXPECT_EQ(numbers.back(), 9999);
    EXPECT_EQ(texts[99].size(), 100U);
  }
  EXPECT_EQ(LiveCount(resource), 0U);
}

TEST(PmrResourceTest, ReturnsAnAddressForZeroBytes) {
  PmrResource resource;
  void* const address = resource.allocate(0);
  EXPECT_NE(address, nullptr);
  resource.deallocate(address, 0);
}

TEST(PmrResourceTest, ThrowsIfMemoryIsShort) {
  PmrResource resource("device=host,device_memory=1MiB");
  EXPECT_THROW(static_cast<void>(resource.allocate(2 << 20)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(resource.allocate(1, std::size_t{1} << 40)), OutOfMemory);
  EXPECT_THROW(PmrResource("bugdet=1"), std::runtime_error);
  EXPECT_EQ(LiveCount(resource), 0U);
}

TEST(PmrResourceTest, IsEqualToItselfAlone) {
  const PmrResource resource;
  const PmrResource other;
  EXPECT_TRUE(resource.is_equal(resource));
  EXPECT_FALSE(resource.is_equal(other));
}

}  // namespace
}  // namespace tidepool
