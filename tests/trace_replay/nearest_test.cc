// SPDX-License-Identifier: Apache-2.0
// Tests the search for the name that a user meant.
#include "trace_replay/nearest.h"

#include <gtest/gtest.h>

namespace tidepool::tool {
namespace {

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
}  // namespace tidepool::tool
