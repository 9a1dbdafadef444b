// SPDX-License-Identifier: Apache-2.0
// Tests the names in errors.
#include "lib/base/text/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidepool::text {
namespace {

using ::testing::ElementsAre;

TEST(NearestFirst, OrdersByEdits) {
  EXPECT_THAT(NearestFirst("greeedy", {"dynprog", "greedy", "none"}),
              ElementsAre("greedy", "none", "dynprog"));
  EXPECT_THAT(NearestFirst("vdn", {"none", "vdnn++", "vdnn"}),
              ElementsAre("vdnn", "none", "vdnn++"));
}

TEST(NearestFirst, KeepsTheOrderOfEqualNames) {
  EXPECT_THAT(NearestFirst("", {"b", "a", "long"}), ElementsAre("b", "a", "long"));
  EXPECT_THAT(NearestFirst("x", {}), ElementsAre());
}

TEST(NearestFirst, TakesHugeNames) {
  EXPECT_THAT(NearestFirst(std::string(1 << 24, 'x'), {"b", "xx"}), ElementsAre("xx", "b"));
}

TEST(Nearest, CountsInsertedDeletedReplacedAndSwappedCharacters) {
  const std::vector<std::string> names = {"size", "info", "replay", "report", "convert"};
  EXPECT_EQ(Nearest("inof", names), "info");
  EXPECT_EQ(Nearest("inffo", names), "info");
  EXPECT_EQ(Nearest("sie", names), "size");
  EXPECT_EQ(Nearest("sise", names), "size");
  EXPECT_EQ(Nearest("repley", names), "replay");
  EXPECT_EQ(Nearest("cnovret", names), "convert");
}

TEST(Nearest, NamesNothingThatIsFar) {
  EXPECT_EQ(Nearest("diff", {"info", "size"}), "");
  EXPECT_EQ(Nearest("on", {"no", "in"}), "");
  EXPECT_EQ(Nearest("", {"info"}), "");
  EXPECT_EQ(Nearest("info", {}), "");
}

TEST(Nearest, PrefersTheFirstOfEqualNames) {
  EXPECT_EQ(Nearest("--pat", {"--path", "--past"}), "--path");
  EXPECT_EQ(Nearest("--past", {"--path", "--past"}), "--past");
}

}  // namespace
}  // namespace tidepool::text
