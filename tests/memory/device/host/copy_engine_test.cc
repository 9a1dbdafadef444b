// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/device/host/copy_engine.h"

#include <gtest/gtest.h>

namespace tidepool::host {
namespace {

using Clock = CopyEngine::Clock;
using std::chrono::nanoseconds;

// Long past, so that the engine never waits. Before the clock's zero, which may be the start of the
// machine: results must not depend on the position of the zero.
constexpr Clock::time_point kThen(-std::chrono::hours(1));

TEST(CopyEngineTest, CopiesThatAreReadyFollowEachOtherWithoutAGap) {
  CopyEngine engine(1e9, 5);
  Clock::time_point end = kThen;
  for (int i = 1; i <= 100; ++i) end = engine.SpendTime(kThen, 1000);
  EXPECT_EQ(end, kThen + 100 * nanoseconds(1005));
  // Each copy is ready when the previous copy ends, as in a stream.
  for (int i = 1; i <= 100; ++i) end = engine.SpendTime(end, 1000);
  EXPECT_EQ(end, kThen + 200 * nanoseconds(1005));
}

TEST(CopyEngineTest, TimeThatNobodyUsesIsGone) {
  CopyEngine engine(1e9, 0);
  EXPECT_EQ(engine.SpendTime(kThen, 10), kThen + nanoseconds(10));
  EXPECT_EQ(engine.SpendTime(kThen + nanoseconds(100), 10), kThen + nanoseconds(110));
  EXPECT_EQ(engine.SpendTime(kThen, 10), kThen + nanoseconds(120));
}

TEST(CopyEngineTest, EndsWithTheClockWhateverTheBandwidth) {
  CopyEngine engine(1e-300, 0);
  engine.StopTime();
  EXPECT_EQ(engine.SpendTime(kThen, 10), Clock::time_point::max());
  EXPECT_EQ(engine.SpendTime(kThen, 10), Clock::time_point::max());
}

TEST(CopyEngineTest, WaitsForTheEnd) {
  CopyEngine engine(1e9, 0);
  const Clock::time_point end = engine.SpendTime(Clock::now(), 1'000'000);
  EXPECT_GE(Clock::now(), end);
}

TEST(CopyEngineTest, DoesNotWaitOnceItWasStopped) {
  CopyEngine engine(1e-3, 0);
  engine.StopTime();
  EXPECT_GT(engine.SpendTime(Clock::now(), 1'000'000), Clock::now());
}

}  // namespace
}  // namespace tidepool::host
