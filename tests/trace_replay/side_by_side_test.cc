// SPDX-License-Identifier: Apache-2.0
// Tests that all parts run, each once.
#include "trace_replay/side_by_side.h"

#include <gtest/gtest.h>

namespace tidepool::tool {
namespace {

TEST(SideBySide, RunsEachPartOnce) {
  for (const std::size_t count : {0, 1, 2, 100}) {
    std::vector<int> runs(count);
    std::vector<std::function<void()>> parts;
    for (int& run : runs) parts.emplace_back([&run] { ++run; });
    SideBySide(parts);
    EXPECT_EQ(runs, std::vector<int>(count, 1));
  }
}

TEST(SideBySide, TakesPartsThatHaveParts) {
  int inner = 0;
  int outer = 0;
  SideBySide({[&] { SideBySide({[&] { inner = 1; }}); }, [&] { outer = 1; }});
  EXPECT_EQ(inner, 1);
  EXPECT_EQ(outer, 1);
}

}  // namespace
}  // namespace tidepool::tool
