// SPDX-License-Identifier: Apache-2.0
// Tests the parsers of sizes, rates and times.
#include "trace_replay/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace tidepool::tool {
namespace {

using ::testing::HasSubstr;

TEST(ParseSize, TakesPowersOf1024And1000InAnyCase) {
  EXPECT_EQ(ParseSize("0").value(), 0);
  EXPECT_EQ(ParseSize("1536B").value(), 1536);
  EXPECT_EQ(ParseSize("1.5 KiB").value(), 1536);
  EXPECT_EQ(ParseSize("2m").value(), 2 << 20);
  EXPECT_EQ(ParseSize("1G").value(), 1 << 30);
  EXPECT_EQ(ParseSize("8gb").value(), 8'000'000'000);
  EXPECT_EQ(ParseSize("1TB").value(), 1'000'000'000'000);
  EXPECT_EQ(ParseSize("4194304TiB").value(), std::int64_t{1} << 62);
}

TEST(ParseSize, RoundsFractionsOfUnitsToBytes) {
  EXPECT_EQ(ParseSize("0.3KiB").value(), 307);
  EXPECT_EQ(ParseSize("19.4GiB").value(), 20830591386);
}

TEST(ParseSize, RefusesOtherTexts) {
  for (const char* text : {"", "GiB", "-1", "1.5", "1.5B", "1e3", "1..5K", "1XiB", "4194305TiB",
                           "99999999999999999999", "1 2", "nan"}) {
    EXPECT_THAT(ParseSize(text).status().message(), HasSubstr("' is not a size, expected bytes"))
        << text;
  }
}

TEST(ParseRate, TakesNumbersAndUnits) {
  EXPECT_EQ(ParseRate("12e9").value(), 12e9);
  EXPECT_EQ(ParseRate("12GB/s").value(), 12e9);
  EXPECT_EQ(ParseRate("0.5gib").value(), 0x1p29);
  EXPECT_EQ(ParseRate("infinity").value(), std::numeric_limits<double>::infinity());
}

TEST(ParseRate, RefusesOtherTexts) {
  for (const char* text : {"", "0", "-1", "nan", "0GB/s", "fast", "12Gbit/s", "12GB/h"}) {
    EXPECT_THAT(ParseRate(text).status().message(), HasSubstr("' is not a rate, expected bytes"))
        << text;
  }
}

TEST(ParseSeconds, TakesNumbersAndUnits) {
  EXPECT_DOUBLE_EQ(ParseSeconds("0").value(), 0);
  EXPECT_DOUBLE_EQ(ParseSeconds("1e-5").value(), 1e-5);
  EXPECT_DOUBLE_EQ(ParseSeconds("10us").value(), 1e-5);
  EXPECT_DOUBLE_EQ(ParseSeconds("250 ms").value(), 0.25);
  EXPECT_DOUBLE_EQ(ParseSeconds("3S").value(), 3);
  EXPECT_DOUBLE_EQ(ParseSeconds("5ns").value(), 5e-9);
}

TEST(ParseSeconds, RefusesOtherTexts) {
  for (const char* text : {"", "s", "-1", "nan", "inf", "1e999", "1h", "soon"}) {
    EXPECT_THAT(ParseSeconds(text).status().message(), HasSubstr("' is not a time, expected"))
        << text;
  }
}

}  // namespace
}  // namespace tidepool::tool
