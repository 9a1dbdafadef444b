// SPDX-License-Identifier: Apache-2.0
#include "lib/base/arithmetic.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace tidepool {
namespace {

TEST(Arithmetic, RoundsUpToWholeUnits) {
  for (std::int64_t unit = 1; unit <= 9; ++unit) {
    for (std::int64_t value = 0; value <= 40; ++value) {
      std::int64_t units = 0;
      while (units * unit < value) ++units;
      EXPECT_EQ(CeilDivide(value, unit), units);
      EXPECT_EQ(RoundUp(value, unit), units * unit);
      if ((unit & (unit - 1)) == 0) {
        EXPECT_EQ(AlignUp(value, unit), units * unit);
      }
    }
  }
}

TEST(Arithmetic, KeepsTheTypeOfTheValue) {
  constexpr std::size_t kLarge = SIZE_MAX - 511;
  EXPECT_EQ(RoundUp(kLarge, 512), kLarge);
  static_assert(RoundUp(std::int32_t{5}, 4) == 8);
}

}  // namespace
}  // namespace tidepool
