// SPDX-License-Identifier: Apache-2.0
// Tests the order of names in errors.
#include "lib/text/nearest_first.h"

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

}  // namespace
}  // namespace tidepool::text
