// SPDX-License-Identifier: Apache-2.0
// Tests the parsers of sizes, rates and times.
#include "trace_replay/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

std::string SizeError(std::string_view text) {
  return std::string(ParseSize(text).status().message());
}

std::string RateError(std::string_view text) {
  return std::string(ParseRate(text).status().message());
}

std::string TimeError(std::string_view text) {
  return std::string(ParseSeconds(text).status().message());
}

constexpr char kSizes[] = ", expected bytes, such as 1048576, 80GiB or 8GB";
constexpr char kRates[] = ", expected bytes a second, more than 0, such as 12e9, 12GB/s or 16GiB/s";
constexpr char kTimes[] = ", expected seconds, such as 0.5, 10us, 40m or 2h";

TEST(PoolSizeText, IsEnough) {
  EXPECT_EQ(PoolSizeText(1023), "1023 B");
  EXPECT_EQ(PoolSizeText(1024), "1.0 KiB");
  EXPECT_EQ(PoolSizeText(1025), "1.1 KiB");
  for (const std::int64_t bytes : {std::int64_t{47'248'000'000}, std::int64_t{47'352'015'257},
                                   (std::int64_t{1} << 40) - 1, std::int64_t{1} << 50}) {
    EXPECT_GE(ParseSize(PoolSizeText(bytes)).value(), bytes);
    EXPECT_LE(ParseSize(PoolSizeText(bytes)).value(), bytes + bytes / 9);
  }
}

TEST(ParseSize, TakesPowersOf1024And1000InAnyCase) {
  EXPECT_EQ(ParseSize("0").value(), 0);
  EXPECT_EQ(ParseSize("1536B").value(), 1536);
  EXPECT_EQ(ParseSize("1.5 KiB").value(), 1536);
  EXPECT_EQ(ParseSize("2m").value(), 2 << 20);
  EXPECT_EQ(ParseSize("1G").value(), 1 << 30);
  EXPECT_EQ(ParseSize("1Gi").value(), 1 << 30);
  EXPECT_EQ(ParseSize("8gb").value(), 8'000'000'000);
  EXPECT_EQ(ParseSize("1TB").value(), 1'000'000'000'000);
  EXPECT_EQ(ParseSize("4194304TiB").value(), std::int64_t{1} << 62);
}

TEST(ParseSize, TakesExponents) {
  EXPECT_EQ(ParseSize("1e9").value(), 1'000'000'000);
  EXPECT_EQ(ParseSize("1.5e3").value(), 1500);
  EXPECT_EQ(ParseSize("2E1KiB").value(), 20480);
}

TEST(ParseSize, RoundsFractionsOfUnitsToBytes) {
  EXPECT_EQ(ParseSize("0.3KiB").value(), 307);
  EXPECT_EQ(ParseSize(".5MiB").value(), 1 << 19);
  EXPECT_EQ(ParseSize("19.4GiB").value(), 20830591386);
}

// Doubles hold no odd number of this size.
TEST(ParseSize, KeepsEveryByteOfWholeNumbers) {
  EXPECT_EQ(ParseSize("4611686018427387903").value(), 4611686018427387903);
  EXPECT_EQ(SizeError("4611686018427387905"),
            "'4611686018427387905' is too large" + std::string(kSizes));
}

TEST(ParseSize, RefusesOtherTexts) {
  for (const std::string text :
       {"GiB", "1..5K", "1XiB", "1GiBs", "1 2", "0x10", "+1", "nan", "inf", "1e", " ", "-"}) {
    EXPECT_EQ(SizeError(text), "'" + text + "' is not a size" + kSizes);
  }
  EXPECT_EQ(SizeError(""), std::string("no value") + kSizes);
  EXPECT_EQ(SizeError("-1"), std::string("'-1' is negative") + kSizes);
  EXPECT_EQ(SizeError("-1e999GiB"), std::string("'-1e999GiB' is negative") + kSizes);
  for (const std::string text : {"1.5", "1.5B", "15e-1"}) {
    EXPECT_EQ(SizeError(text), "'" + text + "' is not a whole number of bytes" + kSizes);
  }
  for (const std::string text : {"4194305TiB", "99999999999999999999", "1e300TiB", "1e999"}) {
    EXPECT_EQ(SizeError(text), "'" + text + "' is too large" + kSizes);
  }
  EXPECT_EQ(SizeError("\x1b"), std::string("'\\x1b' is not a size") + kSizes);
}

TEST(ParseRate, TakesNumbersAndUnits) {
  EXPECT_EQ(ParseRate("12e9").value(), 12e9);
  EXPECT_EQ(ParseRate("12GB/s").value(), 12e9);
  EXPECT_EQ(ParseRate("12GiB").value(), 12 * 0x1p30);
  EXPECT_EQ(ParseRate("0.5gib").value(), 0x1p29);
  EXPECT_EQ(ParseRate("8gb/s").value(), 8e9);
  EXPECT_EQ(ParseRate("100/s").value(), 100);
  EXPECT_EQ(ParseRate("infinity").value(), std::numeric_limits<double>::infinity());
}

TEST(ParseRate, RefusesOtherTexts) {
  for (const std::string text : {"/s", "0", "0GB/s", "nan", "fast", "12Gbit/s", "12GB/h"}) {
    EXPECT_EQ(RateError(text), "'" + text + "' is not a rate" + kRates);
  }
  EXPECT_EQ(RateError(""), std::string("no value") + kRates);
  EXPECT_EQ(RateError("-1GB/s"), std::string("'-1GB/s' is negative") + kRates);
  EXPECT_EQ(RateError("1e308TB/s"), std::string("'1e308TB/s' is too large") + kRates);
  EXPECT_EQ(RateError("1e999"), std::string("'1e999' is too large") + kRates);
  EXPECT_EQ(RateError("1e-999"), std::string("'1e-999' is not a rate") + kRates);
}

// Networks and links are sold in bits a second: a rate eight times too high would go unnoticed.
TEST(ParseRate, RefusesBits) {
  EXPECT_EQ(RateError("100Gb/s"), std::string("'100Gb/s' reads as bits") + kRates);
  EXPECT_EQ(RateError("1Mib"), std::string("'1Mib' reads as bits") + kRates);
}

TEST(ParseSeconds, TakesNumbersAndUnits) {
  EXPECT_DOUBLE_EQ(ParseSeconds("0").value(), 0);
  EXPECT_DOUBLE_EQ(ParseSeconds("1e-5").value(), 1e-5);
  EXPECT_DOUBLE_EQ(ParseSeconds("10us").value(), 1e-5);
  EXPECT_DOUBLE_EQ(ParseSeconds("1.5ms").value(), 0.0015);
  EXPECT_DOUBLE_EQ(ParseSeconds("250 ms").value(), 0.25);
  EXPECT_DOUBLE_EQ(ParseSeconds("3S").value(), 3);
  EXPECT_DOUBLE_EQ(ParseSeconds("5ns").value(), 5e-9);
  EXPECT_DOUBLE_EQ(ParseSeconds("40m").value(), 2400);
  EXPECT_DOUBLE_EQ(ParseSeconds("1.5 min").value(), 90);
  EXPECT_DOUBLE_EQ(ParseSeconds("2h").value(), 7200);
}

TEST(ParseSeconds, RefusesOtherTexts) {
  for (const std::string text : {"s", "nan", "inf", "1d", "1h30m", "soon"}) {
    EXPECT_EQ(TimeError(text), "'" + text + "' is not a time" + kTimes);
  }
  EXPECT_EQ(TimeError(""), std::string("no value") + kTimes);
  EXPECT_EQ(TimeError("-1"), std::string("'-1' is negative") + kTimes);
  EXPECT_EQ(TimeError("1e999"), std::string("'1e999' is too large") + kTimes);
}

}  // namespace
}  // namespace tidepool::tool
