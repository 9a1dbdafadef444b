// SPDX-License-Identifier: Apache-2.0
// Names: unique, and recognised by the source that gave them.
#include "lib/memory/device/name_source.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace tidepool::device {
namespace {

TEST(NameSourceTest, AreUniqueAndRecognised) {
  NameSource first;
  NameSource second;
  std::set<std::uint64_t> of_first;
  std::set<std::uint64_t> of_second;
  for (int i = 0; i < 5000; ++i) {
    EXPECT_TRUE(of_first.insert(first.Next()).second);
    if (i % 3 == 0) {
      EXPECT_TRUE(of_second.insert(second.Next()).second);
    }
  }
  EXPECT_FALSE(of_first.contains(0));
  for (std::uint64_t name = 0; name <= *of_first.rbegin() + 1000; ++name) {
    ASSERT_EQ(first.HasGiven(name), of_first.contains(name)) << name;
    ASSERT_EQ(second.HasGiven(name), of_second.contains(name)) << name;
  }
}

}  // namespace
}  // namespace tidepool::device
