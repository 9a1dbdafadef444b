// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/reserve_search.h"

#include <gtest/gtest.h>

namespace tidepool::search {
namespace {

constexpr std::int64_t kMemory = 512'000;

TEST(ReserveSearch, GrowsByTheMissingBytesAndFaster) {
  ReserveSearch reserve(kMemory);
  EXPECT_EQ(reserve.next(), 0);
  reserve.Exceeds(kMemory + 30'000);
  EXPECT_EQ(reserve.next(), 20'000);
  reserve.Exceeds(kMemory + 3);
  EXPECT_EQ(reserve.next(), 28'000);
  reserve.Exceeds(kMemory + 3);
  EXPECT_EQ(reserve.next(), 44'000);
}

// The least reserve is found to a small part of the memory.
TEST(ReserveSearch, NarrowsDownToTheLeastCut) {
  for (const std::int64_t least : {1, 5'000, 100'000, 250'000}) {
    ReserveSearch reserve(kMemory);
    std::int64_t best = kMemory;
    for (int tries = 0; tries < 20; ++tries) {
      if (reserve.next() >= least) {
        best = std::min(best, reserve.next());
        reserve.Suffices();
      } else {
        reserve.Exceeds(kMemory + (least - reserve.next()) / 2);
      }
    }
    EXPECT_GE(best, least);
    EXPECT_LE(best, least + kMemory / 256) << least;
  }
}

}  // namespace
}  // namespace tidepool::search
