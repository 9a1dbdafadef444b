// SPDX-License-Identifier: Apache-2.0
// Tests sizes in errors.
#include "lib/base/text/sizes.h"

#include <gtest/gtest.h>

#include <limits>

namespace tidepool::text {
namespace {

TEST(Size, HasTheLargestUnitThatItFills) {
  EXPECT_EQ(Size(0), "0 bytes");
  EXPECT_EQ(Size(1), "1 byte");
  EXPECT_EQ(Size(1023), "1023 bytes");
  EXPECT_EQ(Size(1024), "1.0 KiB");
  EXPECT_EQ(Size(896532480), "855.0 MiB");
  EXPECT_EQ(Size(std::int64_t{80} << 30), "80.0 GiB");
  EXPECT_EQ(Size(std::int64_t{5} << 50), "5120.0 TiB");
  EXPECT_EQ(Size(-5), "-5 bytes");
}

TEST(Size, NeverShows1024OfAUnit) {
  EXPECT_EQ(Size((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(Size((1 << 20) - 100), "1023.9 KiB");
  EXPECT_EQ(Size((std::int64_t{1} << 40) - 1), "1.0 TiB");
  EXPECT_EQ(Size(std::numeric_limits<std::int64_t>::max()), "8388608.0 TiB");
}

TEST(ExactSize, HasTheBytesToo) {
  EXPECT_EQ(ExactSize(512), "512 bytes");
  EXPECT_EQ(ExactSize(896532480), "855.0 MiB (896532480 bytes)");
}

TEST(Count, HasAPlural) {
  EXPECT_EQ(Count(0, "allocation"), "0 allocations");
  EXPECT_EQ(Count(1, "allocation"), "1 allocation");
  EXPECT_EQ(Count(12, "stream wait"), "12 stream waits");
}

}  // namespace
}  // namespace tidepool::text
