// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/memory_cuts.h"

#include <gtest/gtest.h>

namespace tidepool::search {
namespace {

constexpr std::int64_t kMemory = 512'000;

TEST(MemoryCuts, GrowsByTheMissingBytesAndFaster) {
  MemoryCuts cuts(kMemory);
  EXPECT_EQ(cuts.next(), 0);
  cuts.Exceeds(kMemory + 30'000);
  EXPECT_EQ(cuts.next(), 20'000);
  cuts.Exceeds(kMemory + 3);
  EXPECT_EQ(cuts.next(), 28'000);
  cuts.Exceeds(kMemory + 3);
  EXPECT_EQ(cuts.next(), 44'000);
}

// The least cut is found to a small part of the memory.
TEST(MemoryCuts, NarrowsDownToTheLeastCut) {
  for (const std::int64_t least : {1, 5'000, 100'000, 250'000}) {
    MemoryCuts cuts(kMemory);
    std::int64_t best = kMemory;
    for (int tries = 0; tries < 20; ++tries) {
      if (cuts.next() >= least) {
        best = std::min(best, cuts.next());
        cuts.Suffices();
      } else {
        cuts.Exceeds(kMemory + (least - cuts.next()) / 2);
      }
    }
    EXPECT_GE(best, least);
    EXPECT_LE(best, least + kMemory / 256) << least;
  }
}

}  // namespace
}  // namespace tidepool::search
