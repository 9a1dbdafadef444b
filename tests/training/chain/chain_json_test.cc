// SPDX-License-Identifier: Apache-2.0
// Files of chains: valid ones, refused ones, and the lines in errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/reader_faults.h"
#include "tests/support/temporary_files.h"
#include "tests/training/chain/random_chain.h"
#include "tidepool/training/chain.h"

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
    if (i % 2 == 0) random.LetGradientsStay(chain);
    const absl::StatusOr<Chain> again = ParseChain(ChainJson(chain), "again");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, chain);
  }
}

TEST(ChainJson, FilesAreWrittenAndRead) {
  const Chain chain = *ParseChain(kSmall, "c.json");
  for (const char* name : {"chain_test.json", "chain_test.json.gz"}) {
    const std::filesystem::path path = TemporaryFile(name);
    ASSERT_TRUE(WriteChain(chain, path).ok());
    const absl::StatusOr<Chain> again = ReadChain(path);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, chain);
  }
  EXPECT_THAT(std::string(ReadChain("/no/such/file").status().message()),
              StartsWith("/no/such/file: "));
  Chain broken = chain;
  broken.x.pop_back();
  const std::filesystem::path path = TemporaryFile("broken.json");
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
  EXPECT_THAT(ErrorWith("\"exB\"", "\"exF\""),
              StartsWith("c.json:6: the key 'exF' is in a chain twice"));
  EXPECT_THAT(ErrorWith("\"exB\"", "\"ex\""), StartsWith("c.json:6: the unknown key 'ex'"));
  EXPECT_THAT(ErrorWith(",\n\"y\": [4, 5, 6]", ""), StartsWith("c.json:7: a chain without y"));
  EXPECT_THAT(ErrorOf("[]"), StartsWith("c.json:1: an array, expected a chain"));
  EXPECT_THAT(ErrorOf("7"), StartsWith("c.json:1: 7, expected a chain"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("cut off"));
  EXPECT_THAT(ErrorOf(absl::StrCat(kSmall, "{}")), HasSubstr("broken JSON"));
  const std::string huge = absl::StrCat(std::int64_t{1} << 51);
  EXPECT_THAT(ErrorWith("3.0", huge), HasSubstr("expected 0 to 2^50"));
}

// Lists for recomputation are optional.
TEST(ChainJson, ListsOfRecomputationAreReadAsWritten) {
  const std::string json =
      testing::Replaced(kSmall, "\"y\": [4, 5, 6]",
                        "\"y\": [4, 5, 6], \"o\": [1, 2, 0], \"exO\": [3, 4], \"once\": [1]");
  const absl::StatusOr<Chain> chain = ParseChain(json, "c.json");
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_THAT(chain->output, ElementsAre(1, 2, 0));
  EXPECT_THAT(chain->output_extra, ElementsAre(3, 4));
  EXPECT_THAT(chain->runs_once, ElementsAre(1));
  EXPECT_EQ(*ParseChain(ChainJson(*chain), "again"), *chain);
  const auto error = [&](const std::string& from, const std::string& to) {
    return ErrorOf(testing::Replaced(json, from, to));
  };
  EXPECT_THAT(error("[1, 2, 0]", "[1, 2]"), StartsWith("c.json:8: o has 2 numbers, expected 3"));
  EXPECT_THAT(error("[1, 2, 0]", "[1, 3, 0]"),
              StartsWith("c.json:8: o[1] is 3 bytes, expected 0 to the 2 of x[1]"));
  EXPECT_THAT(error("[3, 4]", "[3]"), StartsWith("c.json:8: exO has 1 numbers, expected 2"));
  EXPECT_THAT(error("[3, 4]", "[3, -4]"), StartsWith("c.json:8: exO[1] is -4 bytes"));
  EXPECT_THAT(error("[1]}", "[1, 0]}"), StartsWith("c.json:8: once[1] is 0, expected ascending"));
  EXPECT_THAT(error("[1]}", "[2]}"), StartsWith("c.json:8: once[0] is 2, expected ascending"));
  EXPECT_THAT(error("[1]}", "[-1]}"), StartsWith("c.json:8: once[0] is "));
}

constexpr char kRotor[] = R"({"length": 2,
"fweight": [1, 0.5],
"bweight": [2, 1e-3, 0.25],
"cweight": [10, 20, 30],
"cbweight": [0, 50, 30],
"fwd_mem_tmp": [3, 4],
"bwd_mem_tmp": [5, 6, 7]}
)";

TEST(ChainJson, ChainsOfRotorAreRead) {
  const absl::StatusOr<Chain> chain = ParseChain(kRotor, "r.json");
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_THAT(chain->forward_seconds, ElementsAre(1, 0.5, 0));
  EXPECT_THAT(chain->backward_seconds, ElementsAre(2, 1e-3, 0.25));
  EXPECT_THAT(chain->forward_extra, ElementsAre(3, 4, 0));
  EXPECT_THAT(chain->backward_extra, ElementsAre(5, 6, 7));
  EXPECT_THAT(chain->x, ElementsAre(10, 50, 30, 0));
  EXPECT_THAT(chain->output, ElementsAre(10, 20, 30, 0));
  EXPECT_THAT(chain->y, ElementsAre(10, 20, 30, 0));
  EXPECT_EQ(chain->memory_bytes, kMostGraphBytes);
  EXPECT_GT(chain->link_bytes_per_second, 0);
  // Other names, and a link and a memory.
  const std::string aliases =
      "{\"fw\": [1, 0.5], \"bw\": [2, 1e-3, 0.25], \"cw\": [10, 20, 30], \"cbw\": [0, 50, 30], "
      "\"ftmp\": [3, 4], \"btmp\": [5, 6, 7], \"beta\": 7, \"M_gpu\": 99}";
  const absl::StatusOr<Chain> again = ParseChain(aliases, "a.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->x, chain->x);
  EXPECT_EQ(again->link_bytes_per_second, 7);
  EXPECT_EQ(again->memory_bytes, 99);
}

TEST(ChainJson, ChainsOfRotorHaveLinesInErrors) {
  const auto error = [](const std::string& from, const std::string& to) {
    const std::string json = testing::Replaced(kRotor, from, to);
    return testing::FaultOf(ParseChain(json, "c.json"), json, "c.json");
  };
  EXPECT_THAT(error("\"length\": 2", "\"length\": 3"),
              StartsWith("c.json:2: fweight has 2 numbers, expected 3"));
  EXPECT_THAT(error("[0, 50, 30]", "[0, 50]"),
              StartsWith("c.json:5: cbweight has 2 numbers, expected 3"));
  EXPECT_THAT(error("[3, 4]", "[3, 4, 5]"),
              StartsWith("c.json:6: fwd_mem_tmp has 3 numbers, expected 2"));
  EXPECT_THAT(error("[5, 6, 7]", "[5, -6, 7]"), StartsWith("c.json:7: bwd_mem_tmp[1] is -6 bytes"));
  EXPECT_THAT(error("[10, 20, 30]", "[10, 20.5, 30]"), StartsWith("c.json:4: cweight has 20.5"));
  EXPECT_THAT(error("\"cweight\"", "\"x\""), StartsWith("c.json:4: the unknown key 'x'"));
  EXPECT_THAT(error("\"cweight\"", "\"fw\""),
              StartsWith("c.json:4: the key 'fw' is in a chain twice"));
  EXPECT_THAT(error(",\n\"bwd_mem_tmp\": [5, 6, 7]", ""),
              StartsWith("c.json:6: a chain without bwd_mem_tmp"));
}

TEST(ChainJson, ChainsOfRotorAreWrittenAsRead) {
  const Chain chain = *ParseChain(kRotor, "r.json");
  EXPECT_EQ(*ParseChain(RotorChainJson(chain), "again"), chain);
  // Sizes that rotor has once are the larger of two: nothing needs less memory.
  testing::RandomChains random(3);
  for (int i = 0; i < 200; ++i) {
    const Chain plain = random.Next(static_cast<std::size_t>(random.Below(9)) + 1);
    const absl::StatusOr<Chain> read = ParseChain(RotorChainJson(plain), "again");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*ParseChain(RotorChainJson(*read), "third"), *read);
    EXPECT_EQ(ChainSeconds(*read), ChainSeconds(plain));
    EXPECT_GE(ChainPeak(*read), ChainPeak(plain));
    EXPECT_EQ(read->memory_bytes, plain.memory_bytes);
  }
}

// Rotor knows no gradients that stay: they leave the memory, and no activation has them.
TEST(ChainJson, GradientsThatStayAreNoneOfRotors) {
  const Chain chain{.forward_seconds = {1, 1, 1},
                    .backward_seconds = {1, 1, 1},
                    .forward_extra = {0, 0, 0},
                    .backward_extra = {5, -20, 1},
                    .x = {8, 10, 10, 0},
                    .y = {0, 32, 30, 0},
                    .link_bytes_per_second = 1,
                    .memory_bytes = 100};
  ASSERT_EQ(ValidateChain(chain), absl::OkStatus());
  const Chain read = *ParseChain(RotorChainJson(chain), "again");
  EXPECT_EQ(read.memory_bytes, 78);
  EXPECT_THAT(read.y, ElementsAre(8, 10, 10, 0, 0));
  EXPECT_THAT(read.backward_extra, ElementsAre(5, 0, 0, 0));
}

TEST(ValidateChain, LetsGradientsStay) {
  Chain chain = *ParseChain(kSmall, "c.json");  // y = 4, 5, 6
  chain.backward_extra = {-4, -5};
  EXPECT_EQ(ValidateChain(chain), absl::OkStatus());
  EXPECT_THAT(BackwardBytes(chain), ElementsAre(1 + 2 + 5, 1 + 2 + 3 + 6));
  chain.backward_extra = {-4, -6};
  EXPECT_THAT(std::string(ValidateChain(chain).message()),
              HasSubstr("exB[1] is -6 bytes, expected at least the smaller of y[1] and y[2]"));
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
