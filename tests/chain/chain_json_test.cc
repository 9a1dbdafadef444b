// SPDX-License-Identifier: Apache-2.0
// Files of chains: valid ones, refused ones, and the lines in errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/chain/random_chain.h"
#include "tests/support/reader_faults.h"
#include "tidepool/schedule/chain.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kSmall[] = R"({"L": 1, "beta": 2e9,
"M_gpu": 4096,
"uF": [1, 0.5],
"uB": [2, 1e-3],
"exF": [0, 7],
"exB": [8, 9],
"x": [1, 2, 3.0],
"y": [4, 5, 6]}
)";

std::string ErrorOf(const std::string& json) {
  return testing::FaultOf(ParseChain(json, "c.json"), json, "c.json");
}

std::string ErrorWith(const std::string& from, const std::string& to) {
  return ErrorOf(testing::Replaced(kSmall, from, to));
}

TEST(ChainJson, IsRead) {
  const absl::StatusOr<Chain> chain = ParseChain(kSmall, "c.json");
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_EQ(chain->link_bytes_per_second, 2e9);
  EXPECT_EQ(chain->memory_bytes, 4096);
  EXPECT_THAT(chain->forward_seconds, ElementsAre(1, 0.5));
  EXPECT_THAT(chain->backward_seconds, ElementsAre(2, 1e-3));
  EXPECT_THAT(chain->forward_extra, ElementsAre(0, 7));
  EXPECT_THAT(chain->backward_extra, ElementsAre(8, 9));
  EXPECT_THAT(chain->x, ElementsAre(1, 2, 3));
  EXPECT_THAT(chain->y, ElementsAre(4, 5, 6));
}

TEST(ChainJson, IsReadAsWritten) {
  testing::RandomChains random(1);
  for (int i = 0; i < 200; ++i) {
    Chain chain = random.Next(static_cast<std::size_t>(random.Below(9)) + 1);
    chain.forward_seconds[0] = static_cast<double>(random.Below(1000)) / 7;
    const absl::StatusOr<Chain> again = ParseChain(ChainJson(chain), "again");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, chain);
  }
}

TEST(ChainJson, FilesAreWrittenAndRead) {
  const Chain chain = *ParseChain(kSmall, "c.json");
  for (const char* name : {"chain_test.json", "chain_test.json.gz"}) {
    const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / name;
    ASSERT_TRUE(WriteChain(chain, path).ok());
    const absl::StatusOr<Chain> again = ReadChain(path);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, chain);
    std::filesystem::remove(path);
  }
  EXPECT_THAT(std::string(ReadChain("/no/such/file").status().message()),
              StartsWith("/no/such/file: "));
  Chain broken = chain;
  broken.x.pop_back();
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "broken.json";
  EXPECT_FALSE(WriteChain(broken, path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ChainJson, ErrorsHaveLines) {
  EXPECT_THAT(ErrorWith("\"uF\": [1, 0.5]", "\"uF\": [1]"),
              StartsWith("c.json:3: uF has 1 numbers, expected 2"));
  EXPECT_THAT(ErrorWith("3.0", "3, 4"), StartsWith("c.json:7: x has 4 numbers, expected 3"));
  EXPECT_THAT(ErrorWith("\"L\": 1", "\"L\": -1"), StartsWith("c.json:1: L is -1"));
  EXPECT_THAT(ErrorWith("\"L\": 1", "\"L\": 9223372036854775807"), StartsWith("c.json:1: L is"));
  EXPECT_THAT(ErrorWith("2e9", "0"), StartsWith("c.json:1: beta is 0"));
  EXPECT_THAT(ErrorWith("2e9", "1e999"), StartsWith("c.json:1: broken JSON (Number too big"));
  EXPECT_THAT(ErrorWith("2e9", "1e19"), StartsWith("c.json:1: beta is 1e+19"));
  EXPECT_THAT(ErrorWith("4096", "-4096"), StartsWith("c.json:2: M_gpu is -4096"));
  EXPECT_THAT(ErrorWith("4096", "4096.5"), StartsWith("c.json:2: M_gpu has 4096.5"));
  EXPECT_THAT(ErrorWith("1e-3", "-1e-3"), StartsWith("c.json:4: uB[1] is -0.001 seconds"));
  EXPECT_THAT(ErrorWith("1e-3", "\"a\""), StartsWith("c.json:4: uB has the text 'a'"));
  EXPECT_THAT(ErrorWith("3.0", "3.5"), StartsWith("c.json:7: x has 3.5"));
  EXPECT_THAT(ErrorWith("3.0", "1e300"), StartsWith("c.json:7: x has 1e300"));
  EXPECT_THAT(ErrorWith("3.0", "-3"), StartsWith("c.json:7: x[2] is -3 bytes"));
  EXPECT_THAT(ErrorWith("[0, 7]", "7"), StartsWith("c.json:5: exF has 7, expected an array"));
  EXPECT_THAT(ErrorWith("[0, 7]", "[[0, 7]]"), StartsWith("c.json:5: exF has an array"));
  EXPECT_THAT(ErrorWith("[0, 7]", "{}"), StartsWith("c.json:5: exF has an object"));
  EXPECT_THAT(ErrorWith("4096", "[4096]"), StartsWith("c.json:2: M_gpu has an array"));
  EXPECT_THAT(ErrorWith("4096", "null"), StartsWith("c.json:2: M_gpu has null"));
  EXPECT_THAT(ErrorWith("\"exB\"", "\"exF\""), StartsWith("c.json:6: the key 'exF' occurs twice"));
  EXPECT_THAT(ErrorWith("\"exB\"", "\"ex\""), StartsWith("c.json:6: the unknown key 'ex'"));
  EXPECT_THAT(ErrorWith(",\n\"y\": [4, 5, 6]", ""), StartsWith("c.json:7: a chain without y"));
  EXPECT_THAT(ErrorOf("[]"), StartsWith("c.json:1: an array, expected a chain"));
  EXPECT_THAT(ErrorOf("7"), StartsWith("c.json:1: 7, expected a chain"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("cut off"));
  EXPECT_THAT(ErrorOf(absl::StrCat(kSmall, "{}")), HasSubstr("broken JSON"));
  const std::string huge = absl::StrCat(std::int64_t{1} << 51);
  EXPECT_THAT(ErrorWith("3.0", huge), HasSubstr("expected 0 to 2^50"));
}

TEST(ChainJson, CutFilesAreRefused) {
  const std::string whole = kSmall;
  for (std::size_t size = 0; size < whole.find_last_of('}'); ++size) {
    ErrorOf(whole.substr(0, size));
  }
}

TEST(ValidateChain, LimitsTheSum) {
  Chain chain;
  chain.link_bytes_per_second = 1;
  EXPECT_FALSE(ValidateChain(chain).ok());  // no operation
  chain.forward_seconds.assign(2000, 0);
  chain.backward_seconds = chain.forward_seconds;
  chain.forward_extra.assign(2000, 0);
  chain.backward_extra = chain.forward_extra;
  chain.x.assign(2001, 0);
  chain.y = chain.x;
  EXPECT_TRUE(ValidateChain(chain).ok()) << ValidateChain(chain);
  chain.x.assign(2001, std::int64_t{1} << 50);
  EXPECT_THAT(std::string(ValidateChain(chain).message()), HasSubstr("x[1024]"));
  chain.x.assign(2001, 0);
  chain.forward_seconds[7] = NAN;
  EXPECT_THAT(std::string(ValidateChain(chain).message()), HasSubstr("uF[7]"));
}

}  // namespace
}  // namespace tidepool
